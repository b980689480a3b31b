"""The list of the author's tests, which a ``pytest`` reward is a share of: made once of a version, and kept.

The list is made in a sandbox of its own, from the author's files alone, before any candidate is looked at: nothing that
a model writes can make it shorter. It is kept under ``<home>/author-tests``, named by the content that it follows from,
so that every check of a task version, in any process and in any run, divides by the same number.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import PositiveInt, TypeAdapter, ValidationError

from trainer.checkers.base import CheckContext
from trainer.checkers.private_run import run_privately
from trainer.errors import CheckerError
from trainer.sandbox.leftovers import passing_folder

log = logging.getLogger(__name__)

MODULES: Final = ('expected', 'list_runner')
MAX_LISTS: Final = 5000
"""Lists kept in a folder; the oldest go first."""

TestList = dict[str, int]
"""Base id of a test (``tests/test_x.py::TestA::test_b``) → how often it runs with different parameters."""

_LIST: Final = TypeAdapter(dict[str, PositiveInt])
_making: dict[Path, threading.Lock] = {}
_lock = threading.Lock()


def author_tests(
    test_files: Sequence[str], test_args: Sequence[str], timeout_s: float, context: CheckContext
) -> TestList:
    """Return the kept list of the author's tests, making it where there is none.

    Raises ``CheckerError`` where the files hold no test or a syntax error, ``SandboxError``.
    """
    asked = {'sources': dict(context.author_files), 'test_files': list(test_files), 'test_args': list(test_args)}
    content = json.dumps(asked, sort_keys=True).encode('utf-8', 'surrogatepass')
    path = context.author_tests / f'{hashlib.sha256(content).hexdigest()}.json'
    with _alone(path):
        kept = _read(path)
        if kept:
            return kept
        tests, certain = _made(asked, timeout_s, context)
        if certain:
            _keep(path, tests)
    return tests


def _alone(path: Path) -> threading.Lock:
    """One lock a list: a group of attempts that is graded at once makes it once."""
    with _lock:
        if len(_making) >= MAX_LISTS:
            _making.clear()
        return _making.setdefault(path, threading.Lock())


def _made(asked: Mapping[str, object], timeout_s: float, context: CheckContext) -> tuple[TestList, bool]:
    """Collect in a fresh sandbox over an empty workspace; whether the same would come out again."""
    with (
        passing_folder('tests') as empty,
        context.open_sandbox(workspace=empty) as sandbox,
    ):
        result, said = run_privately(sandbox, MODULES, asked, timeout_s=timeout_s)
    answer = {key: value for part in said for key, value in part.items()}
    if 'author_error' in answer:
        raise CheckerError(f'The tests cannot run: {answer["author_error"]}', output=result.text)
    try:
        tests = _LIST.validate_python(answer['tests'])
    except (KeyError, ValidationError):
        raise CheckerError('The tests could not be listed', output=result.text) from None
    if not tests:
        raise CheckerError('The tests cannot run: the test files define no test', output=result.text)
    return tests, not (result.timed_out or result.out_of_memory)


def _read(path: Path) -> TestList | None:
    try:
        return _LIST.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        log.warning('The list of tests in %s cannot be read and is made again: %s', path, error)
        return None


def _keep(path: Path, tests: TestList) -> None:
    """Write the list whole or not at all; where that fails, the next check makes it again."""
    draft = path.with_name(f'.{path.stem}-{os.getpid()}')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(_LIST.dump_json(tests))
        draft.replace(path)
        _forget_oldest(path.parent)
    except OSError as error:
        log.warning('The list of tests cannot be kept in %s: %s', path.parent, error)
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _forget_oldest(folder: Path) -> None:
    kept = sorted(folder.glob('*.json'), key=lambda path: path.stat().st_mtime)
    for path in kept[:-MAX_LISTS]:
        path.unlink(missing_ok=True)
