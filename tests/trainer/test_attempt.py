"""Replaying a solution: what each step answers, and the verdict on the final workspace."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from trainer.attempt import Attempt, Cancelled, StepRecord, attempt, prepare
from trainer.errors import SetupFailed
from trainer.task import Solution, Step, TaskSpec, parse_task_spec

TASK: dict[str, Any] = {
    'prompt': 'Put the sum of numbers.txt into sum.txt.',
    'setup_files': {
        'numbers.txt': '1\n2\n3\n',
        'bin/total.sh': '#!/bin/sh\npaste -sd+ "$1" | xargs expr 6 \\* 1 : ".*"\n',
    },
    'setup_commands': ['echo 4 >> numbers.txt'],
    'checker': {'type': 'exit_code', 'config': {'command': 'grep -qx 10 sum.txt'}},
}


def spec(**changes: Any) -> TaskSpec:
    return parse_task_spec({**TASK, **changes})[0]


def steps(*calls: tuple[str, dict[str, str]]) -> list[Step]:
    return [Step(tool=tool, args=args) for tool, args in calls]


def test_a_solution_is_replayed_and_graded(checker_home: Path) -> None:
    seen: list[StepRecord] = []
    calls = steps(
        ('read_file', {'path': 'numbers.txt'}),
        ('run_command', {'command': 'test -x bin/total.sh && echo 10 > sum.txt; exit 3'}),
        ('write_file', {'path': '../x', 'content': ''}),
        ('list_dir', {'path': '.'}),
    )
    solution = Solution(kind='reference', files={'notes/a.txt': 'x'}, steps=tuple(calls))
    result = attempt(spec(), solution, home=checker_home, on_step=seen.append)
    assert result.verdict.solved
    assert tuple(seen) == result.steps
    assert [step.tool for step in result.steps] == ['read_file', 'run_command', 'write_file', 'list_dir']
    assert [step.exit_code for step in result.steps] == [None, 3, None, None]
    assert '1\n2\n3\n4\n' in result.steps[0].result
    assert result.steps[2].result.startswith('error: ')
    assert result.steps[3].result.split() == ['bin/', 'notes/', 'numbers.txt', 'sum.txt']
    assert Attempt.model_validate_json(result.model_dump_json()) == result


def test_without_steps_the_untouched_workspace_is_graded(checker_home: Path) -> None:
    result = attempt(spec(), home=checker_home)
    assert (result.verdict.reward, result.steps) == (0.0, ())


def test_leftover_processes_do_not_write_after_the_end(checker_home: Path) -> None:
    command = '(setsid sh -c "sleep 1; echo 10 > sum.txt" &) ; echo no > sum.txt'
    assert attempt(spec(), steps(('run_command', {'command': command})), home=checker_home).verdict.reward == 0.0


def test_cancel_between_steps(checker_home: Path) -> None:
    cancel = threading.Event()
    calls = steps(('run_command', {'command': 'true'}), ('run_command', {'command': 'sleep 60'}))
    with pytest.raises(Cancelled):
        attempt(spec(), calls, home=checker_home, on_step=lambda step: cancel.set(), cancel=cancel)


def test_failed_setup_has_no_reward_and_leaves_no_sandbox(checker_home: Path) -> None:
    with pytest.raises(SetupFailed, match=r'setup command 1 failed \(exit code 127\): no-such-tool'):
        prepare(spec(setup_commands=['no-such-tool']), home=checker_home)
    result = attempt(spec(setup_commands=['exit 1']), home=checker_home)
    assert (result.verdict.outcome, result.verdict.reward) == ('error', None)


def test_setup_has_a_limit_of_its_own(checker_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('trainer.attempt.SETUP_TIMEOUT_S', 1.0)
    verdict = attempt(spec(setup_commands=['sleep 30 & sleep 30']), home=checker_home).verdict
    assert verdict.outcome == 'error'
    assert 'timed out after 1 s' in verdict.reason


def test_a_workbench_is_as_an_episode_finds_it(checker_home: Path) -> None:
    with prepare(spec(), home=checker_home) as sandbox:
        assert sandbox.read_file('numbers.txt') == b'1\n2\n3\n4\n'
        assert sandbox.run('python3 -c "import pytest"').exit_code == 0
        assert sandbox.run('test -x bin/total.sh').exit_code == 0
