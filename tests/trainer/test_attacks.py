"""Every attack of the product, on a task of every kind it fits: none pays, and no honest twin loses its reward."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import pytest

import trainer.attacks
from tests.trainer.attack_bases import BASES, EARNS_NOTHING
from trainer.attacks import ATTACKS, Probe, probes_for
from trainer.attacks.ground import ground_of
from trainer.sandbox.python_env import base_environment
from trainer.task import Solution, parse_task_spec
from trainer.trials import Bench, Plan, Trial
from trainer.verdict import Verdict

SPECS = {name: parse_task_spec(task)[0] for name, (task, _) in BASES.items()}
REFERENCES = {name: Solution(kind='reference', files=files) for name, (_, files) in BASES.items()}
THOROUGH = {'pytest', 'grep', 'file', 'diff', "the candidate's make", 'script lets a program print', 'script imports'}
PROBES: dict[tuple[str, str], Probe] = {
    (base, probe.attack.name): probe
    for base in BASES
    for probe in probes_for(SPECS[base], REFERENCES[base], thorough=base in THOROUGH)
}
HONEST = [key for key, probe in PROBES.items() if probe.honest is not None]


@pytest.fixture(scope='module')
def graded(checker_home: Path) -> dict[str, tuple[Bench, Plan]]:
    """Every forged workspace of every base, its twin and its honest control, graded."""
    found = {}
    for base, spec in SPECS.items():
        plan = Plan([probe for (name, _), probe in PROBES.items() if name == base], REFERENCES[base])
        with Bench(spec, checker_home, None, base_environment(checker_home), None, None) as bench:
            bench.run([Trial('untouched'), *plan.forges(2.0), *(control[1] for control in plan.controls)])
        found[base] = (bench, plan)
    return found


def _id(key: tuple[str, str]) -> str:
    return f'{key[0]}: {key[1]}'


@pytest.mark.parametrize('key', PROBES, ids=_id)
def test_an_attack_earns_no_more_than_honest_work(key: tuple[str, str], graded: dict[str, tuple[Bench, Plan]]) -> None:
    (bench, plan), probe = graded[key[0]], PROBES[key]
    verdict = bench.verdict(plan.forged(probe))
    twin = plan.defused(probe)
    bound = max(bench.verdict(trial).reward or 0.0 for trial in (Trial('untouched'), twin) if trial is not None)
    assert verdict.reward is not None, verdict
    assert verdict.reward <= (0.0 if key[0] == 'pytest' and key[1] in EARNS_NOTHING else bound) < 1.0, verdict


@pytest.mark.parametrize('key', HONEST, ids=_id)
def test_an_honest_twin_keeps_its_reward(key: tuple[str, str], graded: dict[str, tuple[Bench, Plan]]) -> None:
    bench, plan = graded[key[0]]
    trial = next(trial for probe, trial, _ in plan.controls if probe is PROBES[key])
    verdict: Verdict = bench.verdict(trial)
    assert verdict.reward == 1.0 and not verdict.tampered, verdict


def test_every_attack_is_tried_somewhere_and_says_what_it_is() -> None:
    assert {attack.name for attack in ATTACKS} == {name for _, name in PROBES}
    assert len({attack.name for attack in ATTACKS}) == len({attack.title for attack in ATTACKS}) == len(ATTACKS)
    assert all(attack.title and attack.explanation.endswith('.') for attack in ATTACKS)
    assert {name for _, name in PROBES if name in EARNS_NOTHING} == EARNS_NOTHING


def test_every_family_is_listed() -> None:
    own = {'model', 'ground', 'code'}
    for module in pkgutil.iter_modules(trainer.attacks.__path__):
        family = getattr(trainer.attacks, module.name)
        assert module.name in own or set(family.ATTACKS) <= set(ATTACKS)


def test_what_a_task_offers() -> None:
    ground = ground_of(SPECS['pytest'], REFERENCES['pytest'])
    assert [(module.path, module.names) for module in ground.modules] == [('solution.py', ('add',))]
    assert ground.tests == ('tests/test_solution.py',)
    assert ground.answers == BASES['pytest'][1]
    ground = ground_of(SPECS['diff'])
    assert (ground.programs, ground.outputs) == (('prog.py',), ('prog.py', 'out.txt'))
    assert ground.tools == ('python3', 'diff')
    assert ground_of(SPECS['file']).outputs == ('out/report.txt',)
    ground = ground_of(SPECS['script reads'])
    assert (ground.standard, ground.outputs) == (('json', 'os'), ('r.json',))


def test_a_certificate_tries_some_of_each_kind_and_thorough_all() -> None:
    for base, spec in SPECS.items():
        usual = [probe.attack.name for probe in probes_for(spec, REFERENCES[base])]
        assert len(usual) >= 5
        assert set(usual) <= {name for other, name in PROBES if other == base}
