"""Work in sandboxes can be ended from another thread, and what it ran ends with it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer.attempt import Cancelled, attempt
from trainer.certify import certify
from trainer.errors import SandboxError
from trainer.sandbox import SandboxScope, open_sandbox
from trainer.task import parse_task_spec

SLEEP = 'sleep 27.1828'
SPEC, _ = parse_task_spec({'prompt': 'Wait', 'checker': {'type': 'exit_code', 'config': {'command': SLEEP}}})


def _programs() -> list[Path]:
    """Processes on this machine that sleep so long, those inside sandboxes too."""
    found = []
    for path in Path('/proc').glob('[0-9]*/cmdline'):
        with contextlib.suppress(OSError):
            found += [path] if path.read_bytes().split(b'\0')[:2] == SLEEP.encode().split() else []
    return found


def _once_it_sleeps(call: Callable[[], object]) -> None:
    def work() -> None:
        deadline = time.monotonic() + 30
        while not _programs() and time.monotonic() < deadline:
            time.sleep(0.02)
        call()

    threading.Thread(target=work, daemon=True).start()


def test_ending_a_scope_ends_a_check(checker_home: Path) -> None:
    scope = SandboxScope()
    _once_it_sleeps(scope.end)
    with scope.entered():
        verdict = attempt(SPEC, home=checker_home).verdict
    assert scope.ended
    assert verdict.reward is None
    assert _programs() == []


def test_nothing_is_opened_in_a_scope_that_has_ended() -> None:
    scope = SandboxScope()
    with scope.entered(), open_sandbox() as sandbox:
        scope.end()
        with pytest.raises(SandboxError, match='closed'):
            sandbox.run('true')
        with pytest.raises(SandboxError, match='ended'):
            open_sandbox()
    with open_sandbox() as sandbox:
        assert sandbox.run('true').exit_code == 0, 'outside the scope all is as before'


def test_a_cancelled_certificate_leaves_nothing_running(checker_home: Path) -> None:
    cancel = threading.Event()
    _once_it_sleeps(cancel.set)
    with pytest.raises(Cancelled):
        certify((SPEC, ()), home=checker_home, cancel=cancel)
    assert _programs() == []
