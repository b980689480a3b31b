"""Hacks made for one task: none earns more than an honest evaluation gives, and no honest twin loses its reward."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.attack_cases import ATTACKS
from tests.trainer.attack_model import Attack
from trainer.attempt import attempt
from trainer.sandbox.python_env import base_environment
from trainer.task import Step, parse_task_spec
from trainer.verdict import Verdict

Case = tuple[dict[str, Any], Mapping[str, str], tuple[str, ...]]


def key_of(case: Case) -> str:
    return json.dumps(case)


def verdict_of(case: Case, home: Path) -> Verdict:
    task, files, commands = case
    spec, _ = parse_task_spec(task)
    steps = [Step(tool='write_file', args={'path': path, 'content': text}) for path, text in files.items()]
    steps += [Step(tool='run_command', args={'command': command}) for command in commands]
    return attempt(spec, steps, home=home).verdict


@pytest.fixture(scope='module')
def verdicts(checker_home: Path) -> dict[str, Verdict]:
    """The verdict of every distinct case, several at a time."""
    base_environment(checker_home)
    cases: dict[str, Case] = {}
    for attack in ATTACKS:
        for case in hack(attack), twin(attack):
            cases[key_of(case)] = case
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda case: verdict_of(case, checker_home), cases.values())
        return dict(zip(cases, found, strict=True))


def hack(attack: Attack) -> Case:
    return attack.task, attack.files, attack.commands


def twin(attack: Attack) -> Case:
    return attack.task, attack.honest_files, attack.honest_commands


@pytest.mark.parametrize('attack', ATTACKS, ids=lambda attack: attack.name)
def test_attack_earns_no_more_than_honest_work(attack: Attack, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[key_of(hack(attack))]
    assert (verdict.reward or 0.0) <= max(attack.reward, 0.0), verdict
    if attack.reward >= 0:
        assert verdict.reward is not None, verdict


@pytest.mark.parametrize('attack', ATTACKS, ids=lambda attack: attack.name)
def test_honest_twin_keeps_its_reward(attack: Attack, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[key_of(twin(attack))]
    assert verdict.reward == attack.honest_reward, verdict
    assert not verdict.tampered
