"""Three outcomes: what passes, what fails, and what is an error of the checker and no reward at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainer.attempt import attempt
from trainer.checkers import CHECKER_KINDS, AnyChecker
from trainer.checkers.grading import grade
from trainer.checkers.script_check import read_number
from trainer.errors import CheckerError
from trainer.sandbox.protocol import Limits
from trainer.task import Step, parse_task_spec
from trainer.verdict import Verdict

BASE: dict[str, Any] = {
    'prompt': 'Write add(a, b) in solution.py.',
    'setup_files': {
        'test_add.py': 'from solution import add\n\ndef test_small():\n    assert add(1, 2) == 3\n\n'
        'def test_zero():\n    assert add(0, 0) == 0\n'
    },
    'checker': {'type': 'pytest', 'config': {'test_paths': ['test_add.py']}},
}
ADD = 'def add(a, b):\n    return a + b\n'


class Check:
    """Grades the files a candidate leaves."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home = home
        self.folder = folder

    def __call__(self, task: dict[str, Any], limits: Limits | None = None, /, **files: str) -> Verdict:
        spec, _ = parse_task_spec(task)
        workspace = self.folder / str(len(list(self.folder.iterdir())))
        for path, text in {**spec.setup_files, **files}.items():
            (workspace / path).parent.mkdir(parents=True, exist_ok=True)
            (workspace / path).write_text(text, encoding='utf-8')
        workspace.mkdir(exist_ok=True)
        return grade(spec.checker, spec.setup_files, workspace, home=self.home, limits=limits)


@pytest.fixture
def check(checker_home: Path, tmp_path: Path) -> Check:
    return Check(checker_home, tmp_path)


def task(kind: str, setup_files: dict[str, str] | None = None, **config: Any) -> dict[str, Any]:
    return {'prompt': 'Do it.', 'setup_files': setup_files or {}, 'checker': {'type': kind, 'config': config}}


class TestExitCode:
    def test_expected_code(self, check: Check) -> None:
        verdict = check(task('exit_code', command='grep -q 42 a.txt'), **{'a.txt': '42\n'})
        assert (verdict.outcome, verdict.reward) == ('passed', 1.0)
        assert verdict.duration_ms > 0

    def test_other_code(self, check: Check) -> None:
        verdict = check(task('exit_code', command='echo why; exit 3'))
        assert (verdict.outcome, verdict.reward, verdict.output) == ('failed', 0.0, 'why\n')
        assert verdict.reason == 'exit code 3, expected 0'
        assert check(task('exit_code', command='exit 3', expected_code=3)).solved

    @pytest.mark.parametrize(
        'command', ['no-such-tool x', 'cat a.txt | no-such-tool', 'true && no-such-tool -v', 'bash -c no-such-tool']
    )
    def test_missing_program_of_the_author_is_an_error(self, check: Check, command: str) -> None:
        verdict = check(task('exit_code', command=command), **{'a.txt': ''})
        assert verdict.outcome == 'error', verdict
        assert verdict.reward is None
        assert 'command not found: no-such-tool' in verdict.reason

    def test_missing_program_of_the_candidate_is_a_failure(self, check: Check) -> None:
        assert check(task('exit_code', command='./build/app')).reward == 0.0
        assert check(task('exit_code', command='python3 app.py')).reward == 0.0

    def test_author_command_that_never_ends_is_an_error(self, check: Check) -> None:
        verdict = check(task('exit_code', command='sleep 30 & sleep 30', timeout_s=1))
        assert verdict.outcome == 'error'
        assert 'timed out after 1 s' in verdict.reason

    def test_candidate_program_that_never_ends_is_a_failure(self, check: Check) -> None:
        endless = {'app.py': 'while True:\n    pass\n'}
        verdict = check(task('exit_code', command='python3 app.py', timeout_s=1), **endless)
        assert verdict.reward == 0.0
        assert verdict.reason == 'the command timed out after 1 s'

    def test_killed_checker_is_an_error(self, check: Check) -> None:
        assert check(task('exit_code', command='kill -9 $$')).outcome == 'error'

    def test_reading_standard_input_ends_at_once(self, check: Check) -> None:
        assert check(task('exit_code', command='cat; read x; python3; exit 7', expected_code=7)).solved

    def test_home_and_path_are_not_the_workspace(self, check: Check) -> None:
        verdict = check(task('exit_code', command='test "$HOME" != /work; echo $PATH; env'))
        assert '/work' not in verdict.output.splitlines()[0]
        assert verdict.output.splitlines()[0].endswith(':/usr/bin:/bin')

    def test_sibling_modules_and_own_names_of_the_candidate_work(self, check: Check) -> None:
        files = {
            'main.py': 'import helper, queue\nprint(helper.n, queue.mine)\n',
            'helper.py': 'n = 4',
            'queue.py': 'mine = 2',
        }
        assert check(task('exit_code', command='python3 main.py | grep -qx "4 2"'), **files).solved


class TestFileExists:
    def test_fraction(self, check: Check) -> None:
        verdict = check(task('file_exists', paths=['a.txt', 'd/', 'b', 'd']), **{'a.txt': '', 'd/x': ''})
        assert (verdict.outcome, verdict.reward) == ('partial', 0.5)
        assert [item.passed for item in verdict.items] == [True, True, False, False]
        assert verdict.reason == '2 of 4 paths exist; b: missing'

    def test_links(self, check: Check, tmp_path: Path) -> None:
        workspace = tmp_path / 'links'
        (workspace / 'real').mkdir(parents=True)
        (workspace / 'real/file').write_text('x', encoding='utf-8')
        links = {'inside': 'real/file', 'folder': 'real', 'outside': '/etc/hostname', 'up': '../x', 'loop': 'loop'}
        for name, target in links.items():
            (workspace / name).symlink_to(target)
        spec, _ = parse_task_spec(task('file_exists', paths=[*links, 'folder/file', 'folder/']))
        verdict = grade(spec.checker, {}, workspace, home=check.home)
        assert [item.name for item in verdict.items if item.passed] == ['inside', 'folder/file', 'folder/']


class TestPytest:
    def test_reward_is_the_share_of_passed_tests(self, check: Check) -> None:
        assert check(BASE, **{'solution.py': ADD}).outcome == 'passed'
        half = check(BASE, **{'solution.py': 'def add(a, b):\n    return 0\n'})
        assert (half.outcome, half.reward) == ('partial', 0.5)

    @pytest.mark.parametrize(
        'solution, why',
        [
            ('', 'could not import add from solution'),
            ('def add(a, b:\n', 'could not import'),
            ('while True:\n    pass\n', 'timed out after 2 s'),
            ('import os\nos._exit(0)\n', 'ended the test process before it reported'),
            ('import sys\nsys.exit(0)\n', 'could not import'),
            ('import os\nos.kill(os.getpid(), 9)\n', 'was ended by signal 9'),
            ('def add(a, b):\n    return add(a, b)\n', 'RecursionError'),
            ('def add(a, b):\n    while True:\n        pass\n', 'timed out after 2 s in test_add.py::test_small'),
        ],
    )
    def test_candidate_that_crashes_or_loops_is_a_failure(self, check: Check, solution: str, why: str) -> None:
        config = {'test_paths': ['test_add.py'], 'timeout_s': 2}
        verdict = check({**BASE, 'checker': {'type': 'pytest', 'config': config}}, **{'solution.py': solution})
        assert (verdict.outcome, verdict.reward) == ('failed', 0.0)
        assert why in verdict.reason
        assert [item.name for item in verdict.items] == ['test_add.py::test_small', 'test_add.py::test_zero']

    def test_candidate_without_a_file_is_a_failure_with_the_reason(self, check: Check) -> None:
        verdict = check(BASE)
        assert verdict.reward == 0.0
        assert verdict.reason == '0 of 2 tests passed; test_add.py::test_small: could not import solution'

    @pytest.mark.parametrize(
        'tests, why',
        [('def helper(): pass\n', 'define no test'), ('def test_a(:\n    pass\n', 'test_a.py, line 1: invalid syntax')],
    )
    def test_mistakes_of_the_author_are_errors(self, check: Check, tests: str, why: str) -> None:
        verdict = check(task('pytest', {'test_a.py': tests}, test_paths=['test_a.py']))
        assert verdict.outcome == 'error'
        assert why in verdict.reason

    def test_tests_that_are_no_setup_files_are_an_error(self, check: Check) -> None:
        verdict = check(task('pytest', test_paths=['test_a.py']), **{'test_a.py': 'def test_a(): pass\n'})
        assert verdict.outcome == 'error'
        assert "test path 'test_a.py' is not among the setup files" in verdict.reason

    def test_collection_does_not_depend_on_the_candidate(self, check: Check) -> None:
        tests = (
            'import pytest\nfrom solution import CASES, f\nfrom solution import *\n'
            'class TestMore:\n    def test_a(self): assert f() == 1\n'
            '@pytest.mark.parametrize("case", CASES)\ndef test_case(case): assert f() == 1\n'
        )
        one = task('pytest', {'test_a.py': tests}, test_paths=['test_a.py'])
        assert check(one).reason.startswith('0 of 2 tests passed')
        assert check(one, **{'solution.py': 'CASES = [1, 2, 3]\ndef f(): return 1\n'}).reward == 1.0

    def test_missing_pytest_is_an_error(self, check: Check, tmp_path: Path) -> None:
        spec, _ = parse_task_spec(BASE)
        from trainer.sandbox.python_env import PythonEnvironment, sandbox_interpreter

        python = sandbox_interpreter()
        bare = PythonEnvironment(python.mounts, (str(Path(python.path).parent),), python.path, '/nowhere')
        workspace = tmp_path / 'bare'
        workspace.mkdir()
        verdict = grade(spec.checker, spec.setup_files, workspace, home=check.home, environment=bare)
        assert verdict.outcome == 'error'
        assert 'pytest is not installed in the sandbox' in verdict.reason

    def test_a_gigabyte_of_output_does_not_change_the_verdict(self, check: Check) -> None:
        noisy = 'print("x" * 50_000_000)\n' + ADD
        verdict = check(BASE, **{'solution.py': noisy})
        assert verdict.reward == 1.0
        assert len(verdict.output) < 200_000


class TestScript:
    @pytest.mark.parametrize(
        'script, reward',
        [
            ('print(0.5)', 0.5),
            ('print("log")\nprint(0.5)\nprint()\n', 0.5),
            ('print(0.5)\nprint(0.9)', 0.9),
            ('print(" 1.0 \\r")', 1.0),
            ('print(1)', 1.0),
            ('import sys\nsys.stdout.write("0.25")', 0.25),
            ('import sys\nsys.exit(0)', 1.0),
            ('import sys\nsys.exit(1)', 0.0),
            ('print("no header")\nraise SystemExit(1)', 0.0),
            ('print("all good")\nexit(0)', 1.0),
            ('import sys\nsys.exit("no header")', 0.0),
            ('pass', 1.0),
            ('print(0.0)\nexit(1)', 0.0),
            ('if True:\r\n    print("1.0\\r")\r\n', 1.0),
            ('#!/usr/bin/env python3\nprint(1.0)', 1.0),
        ],
    )
    def test_rewards(self, check: Check, script: str, reward: float) -> None:
        verdict = check(task('script', script=script))
        assert verdict.reward == reward, verdict

    @pytest.mark.parametrize(
        'script, why',
        [
            ('print("nan")', 'not a finite number'),
            ('print(float("inf"))', 'not a finite number'),
            ('print("1e400")', 'not a finite number'),
            ('print(-0.5)', 'out of range'),
            ('print(1.5)', 'out of range'),
            ('print("1,0")', 'several numbers'),
            ('print("1.0 1.0")', 'several numbers'),
            ('print("reward: 0.5")', 'not a number'),
            ('print(\'{"reward": 0.5}\')', 'not a number'),
            ('print(True)', 'not a number'),
            ('print("1_0")', 'not a number'),
            ('print(0.5)\nexit(1)', 'printed 0.5 and exited with 1'),
            ('exit(2)', 'exited with 2'),
            ('raise ValueError("bad")', 'raised ValueError: bad in line 1'),
            ('import nowhere', "No module named 'nowhere'"),
            ('def f(:', 'not valid Python in line 1'),
            ('import os\nos.kill(os.getpid(), 9)', 'ended by signal 9'),
            ('import os\nos._exit(0)', 'ended before it reported'),
        ],
    )
    def test_errors_are_never_clamped_and_never_zero(self, check: Check, script: str, why: str) -> None:
        verdict = check(task('script', script=script))
        assert (verdict.outcome, verdict.reward) == ('error', None), verdict
        assert why in verdict.reason

    def test_windows_script_for_a_shell(self, check: Check) -> None:
        script = '#!/bin/bash\r\nif [ -f out.txt ]; then\r\n  exit 0\r\nfi\r\nexit 1\r\n'
        _, notes = parse_task_spec(task('script', script=script))
        assert [(note.loc, note.msg) for note in notes] == [
            ('task_spec.checker.config.script', 'Windows line endings were changed to Unix ones')
        ]
        assert check(task('script', script=script), **{'out.txt': ''}).reward == 1.0
        assert check(task('script', script=script)).reward == 0.0
        assert check(task('script', script='#!/bin/sh\r\necho 0.5\r\n')).reward == 0.5

    def test_the_script_sees_the_workspace_and_its_modules(self, check: Check) -> None:
        script = (
            'import subprocess\nfrom solution import add\nprint((add(1, 2) == 3) / 2 + len(open("a.txt").read()) / 4)\n'
        )
        assert check(task('script', script=script), **{'solution.py': ADD, 'a.txt': 'ab'}).reward == 1.0


@pytest.mark.parametrize('text', ['0', '1', '0.5', '.5', '1.', '5e-1', '+0.25', ' 1.0\r'])
def test_numbers(text: str) -> None:
    assert read_number(text) == float(text)


@pytest.mark.parametrize('text', ['x', '0x1', '\N{ARABIC-INDIC DIGIT ONE}', '', 'None', '1.0.0', '0,5x'])
def test_no_numbers(text: str) -> None:
    assert read_number(text) is None


@pytest.mark.parametrize('text', ['nan', '-inf', 'Infinity', '2', '-1', '1 0', '0.5;0.5'])
def test_numbers_that_are_no_rewards(text: str) -> None:
    with pytest.raises(CheckerError):
        read_number(text)


def test_protect_list_says_otherwise(check: Check) -> None:
    setup = {'app.py': 'print(1)\n', 'expected.txt': '2\n'}
    command = 'python3 app.py | cmp - expected.txt'
    fixed = {'app.py': 'print(2)\n'}
    undone = check(task('exit_code', setup, command=command), **fixed)
    assert undone.reward == 0.0
    assert undone.reason.endswith("the model's changes to app.py were undone (protected)")
    assert check(task('exit_code', setup, command=command, protect=['expected.txt']), **fixed).solved
    spec, _ = parse_task_spec(task('exit_code', setup, command=command, protect=['expected.txt']))
    unknown = grade(spec.checker, {}, check.folder, home=check.home)
    assert unknown.outcome == 'error'
    assert "protect names 'expected.txt'" in unknown.reason


def test_data_that_a_program_is_meant_to_change_may_change(check: Check) -> None:
    migrate = {'migrate.py': 'open("db.json", "w").write("v2")\n'}
    db = {'db.json': 'v1'}
    assert check(task('exit_code', db, command='python3 migrate.py db.json && grep -q v2 db.json'), **migrate).solved


def test_a_full_disk_is_an_error(check: Check) -> None:
    fill = 'for n in 1 2 3; do head -c 250000000 /dev/zero > big$n; done'
    for command in (fill, f'{fill} || true'):
        spec, _ = parse_task_spec({**BASE, 'setup_commands': [command]})
        solution = [Step(tool='write_file', args={'path': 'solution.py', 'content': ADD})]
        assert attempt(spec, solution, home=check.home).verdict.outcome == 'error'


def test_what_does_not_fit_is_named(check: Check) -> None:
    verdict = check(BASE, Limits(disk_bytes=64 * 1024), **{'solution.py': 'x' * 200_000})
    assert verdict.reward == 0.0
    assert 'left out of the check: solution.py: too' in verdict.reason


class TestSetup:
    def test_failing_setup_command_is_an_error(self, check: Check) -> None:
        spec, _ = parse_task_spec({**BASE, 'setup_commands': ['echo fine', 'echo broken >&2; exit 3']})
        verdict = attempt(spec, [Step(tool='run_command', args={'command': 'true'})], home=check.home).verdict
        assert verdict.outcome == 'error'
        assert verdict.reason.startswith('setup command 2 failed (exit code 3): echo broken >&2; exit 3: broken')


def test_every_kind_has_a_form_and_sentences() -> None:
    for kind in CHECKER_KINDS:
        schema = kind.model_json_schema()
        settings = schema['$defs'][f'{kind.__name__}Config']['properties']
        assert all(field.get('title') and field.get('description') for field in settings.values())
    configs: list[tuple[str, dict[str, Any]]] = [
        ('exit_code', {'command': 'python3 x.py | tee log'}),
        ('file_exists', {'paths': ['a']}),
        ('pytest', {'test_paths': ['tests/'], 'protect': []}),
        ('script', {'script': 'import solution'}),
    ]
    for name, config in configs:
        spec, _ = parse_task_spec(task(name, **config))
        assert spec.checker.reward_sentence().endswith('.')
        assert spec.checker.weakness()
    assert AnyChecker is not None
    solid, _ = parse_task_spec(task('exit_code', command='grep -qx 42 result.txt'))
    assert solid.checker.weakness() == ''
    assert json.dumps(solid.to_json()['checker']) == json.dumps(
        {'type': 'exit_code', 'config': {'command': 'grep -qx 42 result.txt'}}
    )
