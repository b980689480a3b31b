"""Hardening must not cost honest work its reward: what tests and solutions ordinarily do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.trainer.honest_cases import HONEST
from tests.trainer.honest_model import Honest
from trainer.attempt import attempt
from trainer.sandbox.python_env import base_environment
from trainer.task import Step, parse_task_spec
from trainer.verdict import Verdict


def verdict_of(case: Honest, home: Path) -> Verdict:
    checker = {'type': 'pytest', 'config': {'test_paths': list(case.paths)}}
    spec, _ = parse_task_spec({'prompt': 'Do it.', 'setup_files': dict(case.tests), 'checker': checker})
    steps = [Step(tool='write_file', args={'path': path, 'content': text}) for path, text in case.files.items()]
    return attempt(spec, steps, home=home).verdict


@pytest.fixture(scope='module')
def verdicts(checker_home: Path) -> dict[str, Verdict]:
    base_environment(checker_home)
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda case: verdict_of(case, checker_home), HONEST)
        return {case.name: verdict for case, verdict in zip(HONEST, found, strict=True)}


@pytest.mark.parametrize('case', HONEST, ids=lambda case: case.name)
def test_reward_is_that_of_an_ordinary_run(case: Honest, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[case.name]
    assert verdict.reward == case.reward, f'{verdict.reason}\n{verdict.output}'
    assert not verdict.tampered


def test_ids_with_spaces_and_colons_stay_whole_and_distinct(verdicts: dict[str, Verdict]) -> None:
    names = [item.name for item in verdicts['parametrised ids with spaces and colons'].items]
    assert names[:3] == [f'test_i.py::test_calc[{name}]' for name in ('1 + 1', '2 - 1 [x]', 'a::b')]
    assert len(set(names)) == 4


def test_a_failure_says_which_test_and_why(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts['unittest']
    assert verdict.reason == '4 of 5 tests passed; test_u.py::TestStack::test_fails: AssertionError: 1 != 2'
    assert '1 failed, 4 passed' in verdict.output
