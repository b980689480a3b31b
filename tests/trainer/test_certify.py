"""A certificate says what is proven of a task, and when something is not, which line and what to do."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.attack_model import ADD, P, exit_code, script
from trainer.attempt import Cancelled
from trainer.certify import Certificate, certify
from trainer.errors import SandboxUnavailable
from trainer.manifest import read_manifest
from trainer.sandbox import bubblewrap
from trainer.task import TaskFile, parse_task

ASSETS = Path(__file__).resolve().parents[2] / 'assets' / 'tasks'
SAMPLES = sorted((ASSETS / 'samples').glob('*.json'))
ANSWER: dict[str, Any] = {'kind': 'reference', 'files': {'result.txt': '42\n'}}


def task(spec: dict[str, Any], *solutions: dict[str, Any]) -> TaskFile:
    return parse_task({'task_spec': spec, 'solutions': list(solutions)})[0]


def failed(certificate: Certificate) -> dict[str, str]:
    assert certificate.state == ('failed' if certificate.failed else 'certified')
    return {probe.name: probe.detail for probe in certificate.failed}


@pytest.fixture(scope='module')
def proven(checker_home: Path) -> tuple[Certificate, list[tuple[int, int, str]]]:
    """The certificate of a good task, and the progress that was reported."""
    said: list[tuple[int, int, str]] = []
    reference = {'kind': 'reference', 'files': {'solution.py': ADD}}
    wrong = {'kind': 'wrong', 'name': 'constant', 'files': {'solution.py': 'def add(a, b):\n    return 3\n'}}
    other = {'kind': 'alternative', 'files': {'solution.py': 'add = int.__add__\n'}}
    good = task(P, wrong, reference, other)
    return certify(good, home=checker_home, on_progress=lambda *seen: said.append(seen)), said


def test_certified(proven: tuple[Certificate, list[tuple[int, int, str]]]) -> None:
    certificate, _ = proven
    assert failed(certificate) == {}
    assert certificate.hash == task(P).task_spec.hash
    assert (certificate.isolation, certificate.weak) == ('bubblewrap', '')
    assert certificate.duration_ms > 0 and certificate.created_at.tzinfo is not None
    assert [probe.name for probe in certificate.probes[:6]] == [
        'untouched workspace fails',
        'reference passes',
        '5 repeats identical',
        'wrong solution fails: constant',
        'alternative solution passes',
        'checker looks at something',
    ]
    names = [probe.name for probe in certificate.probes]
    assert len(set(names)) == len(names) and sum(name.startswith('forge: ') for name in names) >= 15
    assert json.loads(certificate.model_dump_json())['state'] == 'certified'
    assert Certificate.model_validate_json(certificate.model_dump_json()) == certificate


def test_summary_has_a_line_for_each_kind(proven: tuple[Certificate, list[tuple[int, int, str]]]) -> None:
    lines = {line.label: (line.value, line.ok) for line in proven[0].summary()}
    assert lines['Untouched workspace fails'] == ('0.00', True)
    assert lines['Reference passes'] == ('1.00', True)
    assert lines['Repeats identical'] == ('5/5', True)
    assert lines['Wrong solutions fail'] == ('0.25', True)
    forges = sum(probe.kind == 'forge' for probe in proven[0].probes)
    assert lines['Forge probes rejected'] == (f'{forges}/{forges}', True)


def test_progress_counts_up_to_its_total(proven: tuple[Certificate, list[tuple[int, int, str]]]) -> None:
    said = proven[1]
    assert said[0] == (0, said[0][1], '')
    assert [done for done, _, _ in said] == list(range(len(said)))
    assert said[-1][0] == said[-1][1] == said[0][1]
    assert all(name for _, _, name in said[1:])


def test_without_a_reference(checker_home: Path) -> None:
    certificate = certify(task(exit_code('grep -qx 42 result.txt')), home=checker_home)
    assert failed(certificate).keys() == {'reference passes'}
    assert 'Record one' in failed(certificate)['reference passes']
    assert any(probe.kind == 'forge' and probe.ok for probe in certificate.probes)
    assert not any(probe.kind in ('repeats', 'control') for probe in certificate.probes)


def test_solutions_that_say_the_checker_is_not_right(checker_home: Path) -> None:
    wrong = {'kind': 'wrong', 'name': 'spaces', 'files': {'result.txt': ' 42\n'}}
    other = {'kind': 'alternative', 'name': 'no newline', 'files': {'result.txt': '42!'}}
    found = failed(certify(task(exit_code('grep -q 42$ result.txt'), ANSWER, wrong, other), home=checker_home))
    assert found.keys() == {'wrong solution fails: spaces', 'alternative solution passes: no newline'}
    assert 'does not see what is wrong' in found['wrong solution fails: spaces']


def test_a_reference_that_does_not_pass(checker_home: Path) -> None:
    reference = {'kind': 'reference', 'files': {'result.txt': '41\n'}}
    certificate = certify(task(exit_code('grep -qx 42 result.txt'), reference), home=checker_home)
    assert failed(certificate) == {'reference passes': '0.00 (exit code 1, expected 0)'}
    assert not any(probe.kind == 'control' for probe in certificate.probes)


def test_doing_nothing_earns_the_reward(checker_home: Path) -> None:
    found = failed(certify(task(exit_code('true'), ANSWER), home=checker_home))
    assert 'does nothing earns the reward' in found['untouched workspace fails']


def test_a_checker_that_rolls_dice(checker_home: Path) -> None:
    text = 'import os\nprint(0.0 if not os.path.exists("result.txt") else os.urandom(1)[0] / 256)\n'
    certificate = certify(task(script(text), ANSWER), home=checker_home)
    assert 'agree: once it was' in failed(certificate)['5 repeats identical']


def test_an_error_is_a_failed_line_with_its_reason(checker_home: Path) -> None:
    text = 'print(1.0 if open("result.txt").read() == "42\\n" else 0.0)\n'
    found = failed(certify(task(script(text), ANSWER), home=checker_home))
    assert 'FileNotFoundError' in found['untouched workspace fails']
    assert found['forge probes'] == 'Not tried: the untouched workspace cannot be graded.'
    setup = {**exit_code('grep -qx 42 result.txt'), 'setup_commands': ['exit 7']}
    assert 'setup command 1 failed' in failed(certify(task(setup, ANSWER), home=checker_home))['reference passes']


def test_tests_that_are_not_there(checker_home: Path) -> None:
    spec = {**P, 'setup_files': {'solution.py': ''}}
    found = failed(certify(task(spec, ANSWER), home=checker_home))
    assert 'is not among the setup files' in found['checker']


def test_a_check_that_can_be_forged(checker_home: Path) -> None:
    """The exit code of pytest is the candidate's to set."""
    files = {'test_a.py': 'from solution import f\ndef test_a():\n    assert f() == 1\n'}
    good = {'kind': 'reference', 'files': {'solution.py': 'def f():\n    return 1\n'}}
    certificate = certify(task(exit_code('python3 -m pytest -q test_a.py', files), good), home=checker_home)
    found = failed(certificate)
    assert 'forge: os._exit(0) at import' in found
    assert all(name.startswith('forge: ') for name in found)
    assert 'use the pytest checker' in found['forge: os._exit(0) at import']
    unprotected = exit_code('sh check.sh', {'check.sh': 'grep -qx 42 result.txt\n'}, protect=[])
    found = failed(certify(task(unprotected, ANSWER), home=checker_home))
    assert 'protect list' in found['forge: Check programs replaced']


@pytest.mark.parametrize('command', ['test -f result.txt && test -r result.txt', 'ls | grep -q result'])
def test_a_check_of_existence_is_weak(command: str, checker_home: Path) -> None:
    certificate = certify(task(exit_code(command), ANSWER), home=checker_home, repeats=2)
    assert failed(certificate) == {}
    assert certificate.weak.startswith('Checks existence only') and 'grep' in certificate.weak
    assert not any('content' in line.label for line in certificate.summary() if line.ok), 'it says what is not so'


def test_a_check_that_forbids_other_files(checker_home: Path) -> None:
    command = 'grep -qx 42 result.txt && test "$(find . -type f | wc -l)" = 1'
    certificate = certify(task(exit_code(command), ANSWER), home=checker_home)
    assert failed(certificate) == {}
    assert any('forbids such files' in probe.detail for probe in certificate.probes)


def test_it_can_be_cancelled(checker_home: Path) -> None:
    cancel = threading.Event()

    def stop(done: int, total: int, name: str) -> None:
        if done == 2:
            cancel.set()

    with pytest.raises(Cancelled):
        certify(task(exit_code('sleep 1; false'), ANSWER), home=checker_home, on_progress=stop, cancel=cancel)


def test_without_isolation_there_is_no_certificate(checker_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap.shutil, 'which', lambda name, path: None)
    with pytest.raises(SandboxUnavailable):
        certify(task(exit_code('true'), ANSWER), home=checker_home)


def test_tutorial_tasks_are_certified(checker_home: Path) -> None:
    tasks = {file.topics[-1]: file for file in read_manifest(ASSETS / 'tutorial-train.jsonl')}
    for file in list(tasks.values())[:6]:
        certificate = certify(file, home=checker_home, repeats=2)
        assert failed(certificate) == {}, file.title


@pytest.mark.slow
@pytest.mark.parametrize('path', SAMPLES, ids=lambda path: path.stem)
def test_samples_are_certified(path: Path, checker_home: Path) -> None:
    sample = parse_task(json.loads(path.read_text(encoding='utf-8')))[0]
    certificate = certify(sample, home=checker_home)
    assert failed(certificate) == {}
    assert bool(certificate.weak) == (sample.task_spec.checker.type == 'file_exists')
