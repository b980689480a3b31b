"""The list of the author's tests: made from the author's files alone, kept, and not to be changed by a candidate."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from trainer.checkers import author_tests as module
from trainer.checkers.grading import grade
from trainer.sandbox.python_env import base_environment
from trainer.task import parse_task_spec
from trainer.verdict import Verdict

TESTS = """
import pytest
from solution import add

@pytest.mark.parametrize('a', [1, 2, 3])
def test_each(a):
    assert add(a, 1) == a + 1

def test_zero():
    assert add(0, 0) == 0
"""
TWO = """
from solution import add

def test_one():
    assert add(1, 1) == 2

def test_zero():
    assert add(0, 0) == 0
"""
HALF = 'def add(a, b):\n    return a + b if a else 7\n'
KILLER = """
import os, signal
for name in os.listdir('/proc'):
    if name.isdigit() and int(name) not in (1, os.getpid(), os.getppid()):
        try:
            os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
"""


class Case:
    """A task of four tests, graded with a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.made = 0

    def grade(self, work: Path, solution: str, tests: str = TESTS) -> Verdict:
        """Grade a workspace that holds this ``solution.py``."""
        raw: dict[str, Any] = {
            'prompt': 'Write add(a, b) in solution.py.',
            'setup_files': {'test_add.py': tests},
            'checker': {'type': 'pytest', 'config': {'test_paths': ['test_add.py']}},
        }
        spec, _ = parse_task_spec(raw)
        work.mkdir(exist_ok=True)
        (work / 'test_add.py').write_text(tests, encoding='utf-8')
        (work / 'solution.py').write_text(solution, encoding='utf-8')
        return grade(spec.checker, spec.setup_files, work, home=self.home)

    def lists(self) -> list[Path]:
        """The lists that are kept."""
        return sorted((self.home / 'author-tests').rglob('*.json'))


@pytest.fixture
def case(tmp_path: Path, checker_home: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    folder = tmp_path / 'home'
    folder.mkdir()
    base_environment(checker_home)
    (folder / 'envs').symlink_to(checker_home / 'envs')
    case = Case(folder)
    made = module._made

    def counted(*args: Any) -> Any:
        case.made += 1
        return made(*args)

    monkeypatch.setattr(module, '_made', counted)
    return case


def test_it_is_made_once_and_kept_for_other_processes(case: Case, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda n: case.grade(tmp_path / f'w{n}', HALF), range(4)))
    assert [verdict.reward for verdict in verdicts] == [0.75] * 4
    assert case.made == 1
    (kept,) = case.lists()
    assert json.loads(kept.read_text(encoding='utf-8')) == {'test_add.py::test_each': 3, 'test_add.py::test_zero': 1}
    module._making.clear()
    assert case.grade(tmp_path / 'w', HALF).reward == 0.75
    assert case.made == 1


def test_the_kept_list_is_the_denominator(case: Case, tmp_path: Path) -> None:
    case.grade(tmp_path / 'w', HALF)
    (kept,) = case.lists()
    kept.write_text('{"test_add.py::test_each": 3, "test_add.py::test_zero": 1, "test_add.py::test_gone": 4}')
    verdict = case.grade(tmp_path / 'w', HALF)
    assert verdict.reward == pytest.approx(3 / 8)
    assert [item.detail for item in verdict.items if item.name.endswith('test_gone')] == ['did not run']


def test_a_candidate_that_kills_its_neighbours_does_not_shorten_it(case: Case, tmp_path: Path) -> None:
    verdict = case.grade(tmp_path / 'w', KILLER + HALF)
    assert verdict.reward is not None
    assert verdict.reward <= 0.75
    (kept,) = case.lists()
    assert sum(json.loads(kept.read_text(encoding='utf-8')).values()) == 4
    assert case.grade(tmp_path / 'w', HALF).reward == 0.75


@pytest.mark.parametrize('damage', ['', '{', '[]', '{"a": 0}', '{"a": "x"}', '{}'])
def test_a_damaged_list_is_made_again(case: Case, tmp_path: Path, damage: str) -> None:
    case.grade(tmp_path / 'w', HALF)
    (kept,) = case.lists()
    kept.write_text(damage, encoding='utf-8')
    assert case.grade(tmp_path / 'w', HALF).reward == 0.75
    assert case.made == 2


def test_a_folder_that_cannot_be_written_costs_nobody_the_reward(case: Case, tmp_path: Path) -> None:
    (case.home / 'author-tests').write_text('a file where the folder should be', encoding='utf-8')
    assert case.grade(tmp_path / 'w', HALF).reward == 0.75


def test_files_that_end_the_process_are_counted_by_their_syntax(case: Case, tmp_path: Path) -> None:
    tests = f'import os, sys\nif not os.path.exists("solution.py"):\n    os._exit(0)\n{TWO}'
    assert case.grade(tmp_path / 'w', HALF, tests).reward == 0.5
    assert len(case.lists()) == 1


def test_no_test_and_a_syntax_error_are_errors_of_the_task(case: Case, tmp_path: Path) -> None:
    none = case.grade(tmp_path / 'w', HALF, 'x = 1\n')
    assert (none.outcome, none.reward) == ('error', None)
    assert 'define no test' in none.reason
    broken = case.grade(tmp_path / 'w', HALF, 'def test_a(:\n')
    assert broken.outcome == 'error'
    assert 'line 1' in broken.reason
    assert case.lists() == []


def test_only_the_newest_are_kept(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, 'MAX_LISTS', 2)
    for number in range(3):
        case.grade(tmp_path / 'w', HALF, f'{TESTS}\n# {number}\n')
        for path in case.lists():
            os.utime(path, ns=(path.stat().st_mtime_ns - 10**9,) * 2)
    assert len(case.lists()) == 2
