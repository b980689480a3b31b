"""Every sample task is what it says: its reference earns the reward, its wrong solutions and doing nothing do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainer.attempt import attempt
from trainer.checkers import CHECKER_KINDS
from trainer.sandbox.python_env import base_environment
from trainer.task import Solution, TaskFile, parse_task
from trainer.verdict import Verdict

FOLDER = Path(__file__).resolve().parents[2] / 'assets' / 'tasks' / 'samples'
FILES = sorted(FOLDER.glob('*.json'))


def load(path: Path) -> TaskFile:
    task, notes = parse_task(json.loads(path.read_text(encoding='utf-8')))
    assert notes == ()
    return task


def cases() -> Iterator[tuple[str, TaskFile, Solution | None]]:
    for path in FILES:
        task = load(path)
        yield f'{path.stem} untouched', task, None
        for number, solution in enumerate(task.solutions):
            yield f'{path.stem} {number} {solution.kind}', task, solution


CASES = {name: (task, solution) for name, task, solution in cases()}


@pytest.fixture(scope='module')
def verdicts(checker_home: Path) -> dict[str, Verdict]:
    base_environment(checker_home)

    def verdict(case: tuple[TaskFile, Solution | None]) -> Verdict:
        task, solution = case
        return attempt(task.task_spec, solution or (), home=checker_home).verdict

    with ThreadPoolExecutor(4) as pool:
        return dict(zip(CASES, pool.map(verdict, CASES.values()), strict=True))


@pytest.mark.parametrize('name', CASES)
def test_reward(name: str, verdicts: dict[str, Verdict]) -> None:
    solution = CASES[name][1]
    verdict = verdicts[name]
    assert verdict.outcome != 'error', verdict
    assert verdict.solved == (solution is not None and solution.kind != 'wrong'), f'{verdict.reason}\n{verdict.output}'
    assert not verdict.tampered


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.stem)
def test_evidence(path: Path) -> None:
    task = load(path)
    assert task.title and task.topics
    assert {'reference', 'wrong'} <= {solution.kind for solution in task.solutions}
    longest = max(len(solution.steps) for solution in task.solutions)
    assert longest <= task.task_spec.max_steps


def test_the_collection_shows_every_checker() -> None:
    tasks = [load(path) for path in FILES]
    assert len(tasks) >= 16
    assert {task.task_spec.checker.type for task in tasks} == {
        kind.model_fields['type'].default for kind in CHECKER_KINDS
    }
    assert len({task.title for task in tasks}) == len(tasks)
