"""Grading: from a candidate's final workspace to one verdict, and the only place where an error becomes an outcome.

The order: a sanitised copy of the workspace, compiled Python removed; the author's files that the verdict rests on put
back; a fresh sandbox without network, with an environment made from nothing; the checker; everything thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from trainer.checkers.base import CheckContext, Checker
from trainer.checkers.protect import remove, restore
from trainer.errors import CheckerError, RlvrError
from trainer.sandbox import Isolation, Sandbox, SandboxSpec, open_sandbox
from trainer.sandbox.leftovers import passing_folder
from trainer.sandbox.protocol import Limits, Mount
from trainer.sandbox.python_env import PythonEnvironment, base_environment
from trainer.sandbox.snapshot import copy_workspace
from trainer.verdict import Verdict

SITE = '/opt/rlvr/check'
MAX_OUTPUT_CHARS = 64 * 1024


def grade(
    checker: Checker,
    author_files: Mapping[str, str],
    workspace: Path,
    *,
    home: Path,
    isolation: Isolation | None = None,
    environment: PythonEnvironment | None = None,
    limits: Limits | None = None,
) -> Verdict:
    """Say what a final workspace is worth. Never raises for what a checker, a sandbox or a full disk can cause.

    ``author_files`` are the task's setup files; ``workspace`` is a host folder that nobody writes to any more and that
    is left as it is; ``environment`` is the Python of the sandbox (pytest and nothing else when not given).
    """
    started = time.monotonic()
    try:
        verdict = _graded(checker, author_files, workspace, home, isolation, environment, limits or Limits())
    except CheckerError as error:
        verdict = Verdict.not_scored(_with_hint(error), output=error.output)
    except RlvrError as error:
        verdict = Verdict.not_scored(_with_hint(error))
    except OSError as error:
        verdict = Verdict.not_scored(f'The workspace could not be checked: {error.strerror or error}')
    return verdict.model_copy(
        update={
            'duration_ms': round((time.monotonic() - started) * 1000),
            'output': verdict.output[-MAX_OUTPUT_CHARS:],
        }
    )


def protected_files(checker: Checker, author_files: Mapping[str, str]) -> frozenset[str]:
    """The author's files put back before the check. Raises ``CheckerError`` where ``protect`` names none of them."""
    chosen = checker.config.protect
    if chosen is None:
        return checker.rests_on(author_files)
    unknown = [path for path in chosen if path not in author_files]
    if unknown:
        raise CheckerError(
            f'protect names {unknown[0]!r}, which is not one of the setup files',
            hint='List setup files only, or remove the entry.',
        )
    return frozenset(chosen)


def _graded(
    checker: Checker,
    author_files: Mapping[str, str],
    workspace: Path,
    home: Path,
    isolation: Isolation | None,
    environment: PythonEnvironment | None,
    limits: Limits,
) -> Verdict:
    protected = protected_files(checker, author_files)
    python = environment or base_environment(home)
    with passing_folder('grade') as folder:
        final = folder / 'work'
        final.mkdir()
        too_large = [entry for entry in copy_workspace(workspace, final, limits=limits) if ': too ' in entry]
        if checker.type != 'file_exists':
            _remove_compiled(final)
        if checker.type == 'pytest':
            _remove_conftests(final, author_files)
        changed = restore(final, author_files, protected)
        spec = SandboxSpec(
            limits=replace(limits, command_s=checker.config.timeout_s),
            mounts=(*python.mounts, Mount(Path(__file__).with_name('inside') / 'site', SITE, shared=True)),
            env=_environment(protected),
            path_prefix=python.path_prefix,
            workspace=final,
        )

        def open_one(*, workspace: Path | None = None) -> Sandbox:
            return open_sandbox(replace(spec, workspace=workspace or final), isolation=isolation)

        lists = home / 'author-tests' / python.key
        context = CheckContext(final, author_files, open_one, lists, protected)
        verdict = checker.check(context)
    if too_large and verdict.outcome in ('failed', 'partial'):
        verdict = verdict.model_copy(update={'reason': f'{verdict.reason}; left out of the check: {too_large[0]}'})
    if changed and verdict.outcome in ('failed', 'partial') and not verdict.tampered:
        undone = f"the model's changes to {', '.join(changed[:3])} were undone (protected)"
        verdict = verdict.model_copy(update={'reason': f'{verdict.reason}; {undone}'})
    return verdict


def _environment(protected: frozenset[str]) -> dict[str, str]:
    """The environment of a check, whole: nothing is inherited and nothing in the workspace is read at start-up."""
    return {
        'PATH': '/usr/bin:/bin',
        'HOME': '/tmp/home',
        'PYTHONSAFEPATH': '1',
        'PYTHONPATH': SITE,
        'PYTHONNOUSERSITE': '1',
        'PYTHONDONTWRITEBYTECODE': '1',
        'PYTEST_DISABLE_PLUGIN_AUTOLOAD': '1',
        'GIT_CONFIG_GLOBAL': '/dev/null',
        'GIT_CONFIG_NOSYSTEM': '1',
        'RLVR_WORKSPACE': '/work',
        'RLVR_PROTECTED': ':'.join(sorted(protected)),
    }


def _remove_compiled(folder: Path) -> None:
    """Remove bytecode: it may hold anything under the name of a source file that looks harmless."""
    for path in sorted(folder.rglob('__pycache__')):
        remove(path)
    for path in folder.rglob('*.pyc'):
        remove(path)


def _remove_conftests(folder: Path, author_files: Mapping[str, str]) -> None:
    for path in folder.rglob('conftest.py'):
        if path.relative_to(folder).as_posix() not in author_files:
            remove(path)


def _with_hint(error: RlvrError) -> str:
    message = error.message.rstrip('.')
    return f'{message}. {error.hint}' if error.hint else message
