"""Runs a ``pytest`` checker: asks the runner inside a sandbox, and counts what it saw against the author's tests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trainer.checkers.author_tests import author_tests
from trainer.checkers.base import CheckContext
from trainer.checkers.private_run import run_privately
from trainer.errors import CheckerError
from trainer.sandbox.protocol import ExecResult
from trainer.verdict import Item, Verdict

MODULES: Final = ('watch', 'integrity', 'equality', 'sources', 'expected', 'ledger', 'tests_run', 'pytest_runner')
GRACE_S: Final = 2.0
"""Seconds the runner has beyond the limit to say that the tests took too long."""
MAX_ITEMS: Final = 1000


def check_tests(tests: Sequence[str], test_paths: Sequence[str], timeout_s: float, context: CheckContext) -> Verdict:
    """Run the author's tests over the workspace. Raises ``CheckerError`` or ``SandboxError``."""
    test_args = [*(path for path in test_paths if '::' in path), *_whole_files(tests, test_paths)]
    expected = author_tests(tests, test_args, timeout_s, context)
    request: dict[str, Any] = {
        'sources': dict(context.author_files),
        'trusted': sorted({*context.protected, *tests}),
        'test_files': list(tests),
        'test_args': test_args,
        'timeout_s': timeout_s,
    }
    with context.open_sandbox() as sandbox:
        result, said = run_privately(sandbox, MODULES, request, timeout_s=timeout_s + GRACE_S)
    answer = {key: value for part in said for key, value in part.items()}
    if 'author_error' in answer:
        raise CheckerError(f'The tests cannot run: {answer["author_error"]}', output=result.text)
    if not answer:
        raise CheckerError('The test runner did not start', output=result.text)
    if 'tampered' in answer:
        items = _missing(expected, str(answer['tampered']))
        return Verdict.scored(0.0, str(answer['tampered']), items=items, output=result.text, tampered=True)
    if 'tests' not in answer:
        reason = _no_report(answer, result, timeout_s)
        return Verdict.scored(0.0, reason, items=_missing(expected, reason), output=result.text)
    try:
        return _count(expected, answer, result)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckerError(f'The answer of the test runner cannot be read: {error}', output=result.text) from error


def _whole_files(tests: Sequence[str], test_paths: Sequence[str]) -> list[str]:
    only_parts = {path.partition('::')[0] for path in test_paths if '::' in path} - set(test_paths)
    return [path for path in tests if path not in only_parts]


def _no_report(answer: Mapping[str, Any], result: ExecResult, timeout_s: float) -> str:
    running = f' in {answer["running"]}' if answer.get('running') else ''
    if answer.get('ended') == 'timed out' or result.timed_out:
        return f'timed out after {timeout_s:g} s{running}'
    if result.out_of_memory:
        return f'ran out of memory{running}'
    status = answer.get('status')
    if isinstance(status, int) and status < 0:
        return f'the test process was ended by signal {-status}{running}'
    return f"the model's code ended the test process before it reported{running}"


def _count(expected: Mapping[str, int], answer: Mapping[str, Any], result: ExecResult) -> Verdict:
    """Compare what ran with what the author's files define; more or fewer parameters than expected never help."""
    items: list[Item] = []
    by_base: dict[str, list[bool]] = {}
    for name, base, passed, detail in answer['tests']:
        if base in expected:
            by_base.setdefault(base, []).append(bool(passed))
            items.append(Item(name=str(name), passed=bool(passed), detail=str(detail)))
    why_missing = _why_missing(answer)
    credit = 0
    for base, count in expected.items():
        outcomes = by_base.get(base, [])
        failed = outcomes.count(False)
        credit += max(0, min(count, len(outcomes)) - failed)
        if not outcomes:
            items.append(Item(name=base, passed=False, detail=why_missing.get(base.partition('::')[0], 'did not run')))
    total = sum(expected.values())
    reason = f'{credit} of {total} tests passed'
    first = next((item for item in items if not item.passed), None)
    if first is not None:
        reason += f'; {first.name}: {first.detail.splitlines()[0]}' if first.detail else f'; {first.name} did not pass'
    return Verdict.scored(credit / total, reason[:500], items=tuple(items[:MAX_ITEMS]), output=result.text)


def _why_missing(answer: Mapping[str, Any]) -> dict[str, str]:
    """Why no test of a file ran, by file: the error its import ended with."""
    reasons = {}
    for nodeid, text in answer.get('collect_errors', ()):
        lines = [line for line in str(text).splitlines() if line.strip()]
        reasons[str(nodeid).partition('::')[0]] = (
            f'could not be collected: {lines[-1].strip() if lines else "no reason given"}'
        )
    for path, error in answer.get('failures', {}).items():
        missing = re.search(r"No module named '([^']+)'", str(error))
        name = re.search(r"cannot import name '([^']+)' from '([^']+)'", str(error))
        if missing:
            reasons[path] = f'could not import {missing[1]}'
        elif name:
            reasons[path] = f'could not import {name[1]} from {name[2]}'
        else:
            reasons[path] = f'could not import: {error}'
    return reasons


def _missing(expected: Mapping[str, int], reason: str) -> tuple[Item, ...]:
    return tuple(Item(name=name, passed=False, detail=reason) for name in list(expected)[:MAX_ITEMS])
