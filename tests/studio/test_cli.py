"""The command line, as scripts use it: what goes to stdout, which exit code, how soon."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from stand_in import SPEC, STUB, until

from studio.cli import main
from trainer.runfolder import STOP, RunFolder

ROOT = Path(__file__).parent.parent.parent
TRAIN = ROOT / 'assets' / 'tasks' / 'tutorial-train.jsonl'
SOLVED: dict[str, Any] = {
    'title': 'Hello',
    'task_spec': {
        'prompt': 'Write hello into a.txt',
        'setup_commands': ['touch made.txt'],
        'checker': {'type': 'exit_code', 'config': {'command': 'grep -q hello a.txt && test -f made.txt'}},
    },
    'solutions': [
        {'kind': 'reference', 'steps': [{'tool': 'write_file', 'args': {'path': 'a.txt', 'content': 'hello'}}]}
    ],
}
STUBBED = f"""
import sys
import studio.cli.commands.training as training
from studio.launchers import LocalLauncher
training.LocalLauncher = lambda: LocalLauncher((sys.executable, {str(STUB)!r}, *{{options!r}}))
from studio.cli import main
main()
"""


@pytest.fixture(scope='module')
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp('home')


def _environment(home: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT), str(STUB.parent), os.environ.get('PYTHONPATH', '')])
    return {**os.environ, 'RLVR_HOME': str(home), 'PYTHONPATH': paths}


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Rlvr = Callable[..., Done]


@pytest.fixture
def rlvr(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Rlvr:
    """Runs the command in this process: the same entry point, without starting Python anew."""

    def run(*arguments: str | Path) -> Done:
        monkeypatch.setenv('RLVR_HOME', str(home))
        monkeypatch.setattr(sys, 'argv', ['rlvr', *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        code = left.value.code
        return Done(code if isinstance(code, int) else 0, *capfd.readouterr())

    return run


@pytest.fixture
def solved(tmp_path: Path) -> Path:
    path = tmp_path / 'task.json'
    path.write_text(json.dumps(SOLVED), encoding='utf-8')
    return path


def test_validate_names_file_line_and_field(rlvr: Rlvr, tmp_path: Path) -> None:
    path = tmp_path / 'tasks.jsonl'
    bad = {'prompt': 'Ж', 'setup_files': {'../x': ''}, 'checker': {'type': 'pytset', 'config': {}}}
    path.write_text(f'{json.dumps(SPEC)}\n\n{json.dumps(bad)}\nrubbish\n', encoding='utf-8')
    done = rlvr('validate', path, tmp_path / 'missing.json', '--json')
    assert done.returncode == 2
    rows = json.loads(done.stdout)
    assert [(row['file'], row['line'], row['ok']) for row in rows] == [
        (str(path), 1, True), (str(path), 3, False), (str(path), 4, False), (str(tmp_path / 'missing.json'), 1, False)
    ]  # fmt: skip
    assert {'setup_files', 'checker.type'} <= {error['loc'] for error in rows[1]['errors']}
    assert set(rows[1]['errors'][0]) == {'loc', 'msg'}
    good = rlvr('validate', TRAIN)
    assert (good.returncode, good.stderr) == (0, '')
    assert good.stdout.count(': ok\n') == len(TRAIN.read_text(encoding='utf-8').splitlines())


def test_validate_is_quick_and_loads_nothing_heavy(home: Path) -> None:
    code = (
        'import resource, sys\nfrom studio.cli.app import app\n'
        f"app(['validate', {str(TRAIN)!r}], standalone_mode=False)\n"
        'used = resource.getrusage(resource.RUSAGE_SELF)\n'
        "print(used.ru_utime + used.ru_stime, [name for name in ('torch', 'nicegui', 'sqlmodel', 'rich.table') "
        'if name in sys.modules])'
    )
    taken = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, '-c', code], env=_environment(home), capture_output=True, text=True, check=True
        )
        seconds, _, heavy = done.stdout.splitlines()[-1].partition(' ')
        assert heavy == '[]'
        taken.append(float(seconds))
    assert min(taken) < 0.5


def test_check_grades_a_copy_of_a_folder(rlvr: Rlvr, solved: Path, tmp_path: Path) -> None:
    workspace = tmp_path / 'work'
    workspace.mkdir()
    failed = rlvr('check', solved, '--workspace', workspace, '--json')
    assert (failed.returncode, json.loads(failed.stdout)['reward']) == (0, 0.0)
    (workspace / 'a.txt').write_text('hello', encoding='utf-8')
    verdict = json.loads(rlvr('check', solved, '--workspace', workspace, '--json').stdout)
    assert (verdict['outcome'], verdict['reward']) == ('failed', 0.0), 'setup is not run'
    (workspace / 'made.txt').touch()
    verdict = json.loads(rlvr('check', solved, '--workspace', workspace, '--json').stdout)
    assert set(verdict) == {'outcome', 'reward', 'reason', 'items', 'output', 'duration_ms', 'tampered'}
    assert (verdict['outcome'], verdict['reward']) == ('passed', 1.0)
    assert sorted(path.name for path in workspace.iterdir()) == ['a.txt', 'made.txt']


def test_check_says_error_with_exit_3_and_bad_input_with_2(rlvr: Rlvr, solved: Path, tmp_path: Path) -> None:
    broken = tmp_path / 'broken.json'
    script = {'type': 'script', 'config': {'script': 'raise ValueError(1)'}}
    broken.write_text(json.dumps({'prompt': 'x', 'checker': script}), encoding='utf-8')
    done = rlvr('check', broken, '--workspace', tmp_path, '--json')
    assert (done.returncode, json.loads(done.stdout)['reward']) == (3, None)
    for arguments in (
        ['check', TRAIN, '--workspace', tmp_path],
        ['check', solved, '--workspace', tmp_path / 'none'],
        ['check', tmp_path / 'none.json', '--workspace', tmp_path],
        ['attempt', solved, '--solution', 'wrong'],
        ['attempt', solved, '--solution', tmp_path / 'none.json'],
    ):
        refused = rlvr(*arguments)
        assert (refused.returncode, refused.stdout) == (2, '')
        assert refused.stderr and 'Traceback' not in refused.stderr


def test_attempt_replays_a_solution(rlvr: Rlvr, solved: Path, tmp_path: Path) -> None:
    done = rlvr('attempt', solved, '--solution', 'reference', '--json')
    found = json.loads(done.stdout)
    assert (done.returncode, found['verdict']['reward']) == (0, 1.0)
    assert [set(step) for step in found['steps']] == [{'tool', 'args', 'result', 'exit_code', 'duration_ms'}]
    steps = tmp_path / 'steps.json'
    steps.write_text(json.dumps([{'tool': 'run_command', 'args': {'command': 'echo hello > a.txt'}}]), encoding='utf-8')
    assert json.loads(rlvr('attempt', solved, '--solution', steps, '--json').stdout)['verdict']['reward'] == 1.0
    assert json.loads(rlvr('attempt', solved, '--json').stdout)['verdict']['reward'] == 0.0


NO_BUBBLEWRAP = 'import shutil; shutil.which = lambda *_, **__: None; from studio.cli import main; main()'


def test_without_isolation_model_written_code_is_refused(home: Path, solved: Path, tmp_path: Path) -> None:
    commands: list[list[str | Path]] = [
        ['check', solved, '--workspace', tmp_path],
        ['attempt', solved],
        ['train', TRAIN, '--model', 'starter', '--out', tmp_path / 'out'],
        ['evaluate', TRAIN, '--model', 'starter'],
    ]
    for command in commands:
        done = subprocess.run(
            [sys.executable, '-c', NO_BUBBLEWRAP, *map(str, command)],
            env=_environment(home), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (4, ''), done.stderr
        assert 'install bubblewrap' in done.stderr and '--unsafe-sandbox' in done.stderr
    assert not (tmp_path / 'out').exists()


def test_probe_and_doctor_report_rows(rlvr: Rlvr) -> None:
    probe = rlvr('sandbox', 'probe', '--json')
    rows = json.loads(probe.stdout)
    assert probe.returncode == (0 if all(row['ok'] for row in rows) else 1)
    assert len(rows) > 5 and set(rows[0]) == {'name', 'ok', 'detail'}
    findings = json.loads(rlvr('doctor', '--json').stdout)
    assert {'Python', 'torch', 'device', 'sandbox', 'data folder'} <= {finding['name'] for finding in findings}


def test_models_are_listed_with_what_they_support(rlvr: Rlvr, home: Path) -> None:
    folder = home / 'models' / 'mine'
    folder.mkdir(parents=True)
    (folder / 'config.json').write_text('{}', encoding='utf-8')
    rows = json.loads(rlvr('models', 'list', '--json').stdout)
    assert [row['id'] for row in rows][:2] == ['starter', str(folder.resolve())]
    assert len(rows) == 9 and all(row['supportsRl'] is True for row in rows)


def test_tasks_go_in_and_out(rlvr: Rlvr, solved: Path, tmp_path: Path) -> None:
    bad = tmp_path / 'bad.jsonl'
    bad.write_text('{"prompt": ""}\n', encoding='utf-8')
    done = rlvr('tasks', 'import', solved, bad, '--publish', '--json')
    assert done.returncode == 2
    assert [row['status'] for row in json.loads(done.stdout)] == ['new', 'refused']
    (row,) = json.loads(rlvr('tasks', 'list', '--search', 'hello', '--json').stdout)
    assert (row['title'], row['status']) == ('Hello', 'published')
    exported = rlvr('tasks', 'export', row['id']).stdout
    assert json.loads(exported)['task_spec']['prompt'] == SOLVED['task_spec']['prompt']
    assert rlvr('tasks', 'export', '--out', tmp_path / 'out.jsonl').returncode == 0
    assert rlvr('validate', tmp_path / 'out.jsonl').returncode == 0


def _train(home: Path, out: Path, *options: str, arguments: tuple[str | Path, ...] = ()) -> 'subprocess.Popen[str]':
    code = STUBBED.format(options=options)
    return subprocess.Popen(
        [sys.executable, '-c', code, 'train', str(TRAIN), '--model', 'starter', '--out', str(out), '--json',
         *map(str, arguments)],
        env=_environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_train_follows_a_run_to_its_end(rlvr: Rlvr, home: Path, tmp_path: Path) -> None:
    config = tmp_path / 'rl.json'
    config.write_text('{"numGenerations": 99, "maxSteps": 3}', encoding='utf-8')
    held_out = ROOT / 'assets' / 'tasks' / 'tutorial-heldout.jsonl'
    process = _train(
        home, tmp_path / 'run', '--steps', '3', arguments=('--config', config, '--eval', held_out, '--name', 'a/b')
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out) == {'state': 'finished', 'steps': None, 'before': None, 'after': None, 'adapter': None}
    assert 'rl.numGenerations lowered from 99 to 16' in err
    assert 'step 3/3, reward 1.00' in err and 'a stand-in is at work' in err
    folder = RunFolder(tmp_path / 'run')
    run = folder.config()
    assert run.name == 'a/b' and run.settings.rl.enabled and run.settings.rl.max_steps == 3
    assert not {task.id for task in folder.tasks()} & {task.id for task in folder.held_out_tasks()}
    again = rlvr('train', TRAIN, '--model', 'starter', '--out', tmp_path / 'run')
    assert (again.returncode, 'not empty' in again.stderr) == (2, True)


def test_train_says_why_a_run_failed(home: Path, tmp_path: Path) -> None:
    process = _train(home, tmp_path / 'run', '--steps', '1', '--end', 'exit:3', '--print', 'ValueError: no such layer')
    out, err = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)['state']) == (1, 'failed')
    assert 'exit code 3' in err and 'ValueError: no such layer' in err


@pytest.mark.parametrize('presses', [1, 2])
def test_ctrl_c_stops_and_a_second_one_ends(home: Path, tmp_path: Path, presses: int) -> None:
    deaf = ['--ignore-stop', '--ignore-term'] if presses == 2 else []
    process = _train(home, tmp_path / 'run', '--steps', '2000', '--interval', '0.05', *deaf)
    folder = RunFolder(tmp_path / 'run')
    until(lambda: folder.events.exists() and folder.events.read_bytes().count(b'\n') > 5)
    claim = folder.claim()
    assert claim is not None
    for _ in range(presses):
        process.send_signal(signal.SIGINT)
        until(lambda: folder.requested(STOP))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)['state']) == (130, 'stopped'), err
    assert not psutil.pid_exists(claim.pid)


def test_train_refuses_before_it_makes_a_folder(rlvr: Rlvr, home: Path, tmp_path: Path) -> None:
    config = tmp_path / 'rl.json'
    config.write_text('{"lossType": "ppo"}', encoding='utf-8')
    for model, message in (('starter', 'rl.lossType'), ('nope', 'no known model')):
        done = rlvr('train', TRAIN, '--model', model, '--out', tmp_path / 'run', '--config', config)
        assert done.returncode == 2
        assert message in done.stderr or model == 'nope'
    assert not (tmp_path / 'run').exists()
