"""Watching: how a run ended is known whatever ended it, and whoever was there to see it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from stand_in import STUB, ended, grandchildren, new_run, until

from studio.launchers import tree
from studio.launchers.local import child_environment
from studio.services import Studio
from trainer.errors import ConfigError
from trainer.runfolder import RunFolder

Open = Callable[..., Studio]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('studio.supervisor.EXIT_S', 0.5)


@pytest.mark.parametrize(
    ('end', 'line', 'state', 'reason'),
    [
        ('finished', '', 'finished', ''),
        ('exit:1', 'ValueError: no such layer', 'failed', 'exit code 1: ValueError: no such layer'),
        ('exit:3', '', 'failed', 'exit code 3'),
        ('signal:9', '', 'failed', 'killed by SIGKILL, likely out of memory'),
        ('signal:11', '', 'failed', 'killed by SIGSEGV'),
        ('quiet', '', 'failed', 'the process ended before its work was done'),
        ('exit:0', 'torch.OutOfMemoryError: CUDA out of memory', 'failed', 'out of memory'),
    ],
)
def test_every_ending_is_named(open_studio: Open, end: str, line: str, state: str, reason: str) -> None:
    """Case E2: within 5 seconds, with its cause; Start works again."""
    studio = open_studio('--steps', '2', '--end', end, '--print', line)
    run = new_run(studio)
    studio.runs.start(run.id)
    folder = studio.runs.folder(run.id)
    until(lambda: folder.exit())
    done = ended(studio, run.id, seconds=5)
    assert done.state == state
    assert reason in done.reason
    assert done.step == 2 and done.eta_s is None and done.pid
    assert studio.runs.active() is None


def test_a_silent_run_says_for_how_long(open_studio: Open) -> None:
    studio = open_studio('--silent')
    run = new_run(studio)
    studio.runs.start(run.id)
    until(lambda: (studio.runs.get(run.id).silent_s or 0) > 1)
    assert studio.runs.get(run.id).state == 'preparing'


def test_a_program_that_is_not_there_fails_with_its_name(open_studio: Open) -> None:
    studio = open_studio()
    studio.runs._launcher.command = ('/no/such/program',)
    run = new_run(studio)
    studio.runs.start(run.id)
    assert 'exit code 127' in ended(studio, run.id).reason
    assert '/no/such/program cannot be started' in '\n'.join(studio.runs.log_tail(run.id))


SERVER = """
import sys, time
from pathlib import Path
from stand_in import new_run, stub
from studio.services import Studio
from studio.settings import Settings
studio = Studio(Settings(home=Path(sys.argv[1])), launcher=stub(*sys.argv[2:]))
studio.start()
run = new_run(studio)
studio.runs.start(run.id)
print(run.id, flush=True)
time.sleep(600)
"""


def _server(home: Path, *options: str) -> tuple['subprocess.Popen[str]', str]:
    paths = [str(STUB.parent), str(STUB.parent.parent.parent), os.environ.get('PYTHONPATH', '')]
    process = subprocess.Popen(
        [sys.executable, '-c', SERVER, str(home), *options],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {'PYTHONPATH': os.pathsep.join(paths)},
    )
    assert process.stdout is not None
    run_id = process.stdout.readline().strip()
    assert run_id
    return process, run_id


def _kill(process: 'subprocess.Popen[str]') -> None:
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ('end', 'state', 'reason'),
    [('finished', 'finished', ''), ('exit:3', 'failed', 'exit code 3'), ('signal:9', 'failed', 'killed by SIGKILL')],
)
def test_a_run_survives_the_studio_and_is_found_again(
    open_studio: Open, tmp_path: Path, end: str, state: str, reason: str
) -> None:
    """Case C8: killed at once, the run ends while nobody watches or later; nothing is missing."""
    options = ('--steps', '40', '--interval', '0', '--rollouts', '2', '--hold', 'training', '--end', end)
    process, run_id = _server(tmp_path / 'home', *options)
    folder = RunFolder(tmp_path / 'home' / 'runs' / run_id)
    until(lambda: (folder.path / 'holds').exists())
    _kill(process)
    claim = folder.claim()
    assert claim is not None and claim.alive
    if end == 'finished':
        (folder.path / 'go').touch()
        until(lambda: not claim.alive)
    studio = open_studio()
    (folder.path / 'go').touch()
    done = ended(studio, run_id)
    assert (done.state, reason in done.reason) == (state, True)
    assert studio.runs.metrics(run_id)['loss'][0] == list(range(1, 41))
    assert studio.runs.rollout_count(run_id) == 80


def test_an_ending_nobody_saw_is_interrupted_never_finished(open_studio: Open, tmp_path: Path) -> None:
    """Case C8: studio and waiting parent are killed too."""
    process, run_id = _server(tmp_path / 'home', '--steps', '600', '--interval', '0.05')
    folder = RunFolder(tmp_path / 'home' / 'runs' / run_id)
    claim = until(folder.claim)
    waiter = psutil.Process(claim.pid).parent()
    assert waiter is not None and 'wait.py' in ' '.join(waiter.cmdline())
    _kill(process)
    waiter.kill()
    os.kill(claim.pid, signal.SIGKILL)
    done = ended(open_studio(), run_id)
    assert (done.state, done.reason) == ('interrupted', 'the process is gone and left no exit code')


def test_a_killed_trainer_leaves_nothing_even_without_a_studio(tmp_path: Path) -> None:
    process, run_id = _server(tmp_path / 'home', '--silent', '--children')
    folder = RunFolder(tmp_path / 'home' / 'runs' / run_id)
    pids = grandchildren(folder.path)
    _kill(process)
    os.kill(until(folder.claim).pid, signal.SIGKILL)
    ended_by = until(folder.exit)
    assert ended_by.signal == signal.SIGKILL
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


def test_the_waiting_parent_is_tiny(open_studio: Open) -> None:
    studio = open_studio('--steps', '100', '--interval', '0.1')
    run = new_run(studio)
    pid = studio.runs.start(run.id).pid
    assert pid is not None
    waiter = psutil.Process(pid).parent()
    assert waiter is not None and waiter.memory_info().rss < 10 * 1024**2
    assert psutil.Process(pid).terminal() is None
    assert os.getsid(pid) == pid


def test_a_lot_of_log_never_holds_a_run_up(open_studio: Open) -> None:
    """Case C10: nobody reads, the run is as fast as ever."""
    studio = open_studio('--steps', '50', '--interval', '0.01', '--log-kb', '200', watch=False)
    run = new_run(studio)
    studio.runs.start(run.id)
    until(lambda: studio.runs.folder(run.id).exit())
    assert studio.runs.folder(run.id).log.stat().st_size > 9_000_000
    studio.start()
    assert ended(studio, run.id).state == 'finished'
    assert len(studio.runs.metrics(run.id)['loss'][0]) == 50


def test_run_folders_from_elsewhere_are_taken_in(open_studio: Open, tmp_path: Path) -> None:
    studio = open_studio('--steps', '3', '--rollouts', '2')
    run = new_run(studio, 'From afar')
    studio.runs.start(run.id)
    ended(studio, run.id)
    studio.stop()
    (tmp_path / 'other' / 'runs').mkdir(parents=True)
    (studio.runs.folder(run.id).path).rename(tmp_path / 'other' / 'runs' / run.id)
    claim = tmp_path / 'other' / 'runs' / run.id / 'claim.json'
    claim.write_text(json.dumps({'pid': os.getpid(), 'started': 1.0, 'token': 'x'}), encoding='utf-8')
    (tmp_path / 'other' / 'runs' / 'not-a-run').mkdir()
    from studio.settings import Settings

    other = Studio(Settings(home=tmp_path / 'other'))
    other.start()
    try:
        done = ended(other, run.id)
        assert (done.name, done.state, done.has_adapter) == ('From afar', 'finished', True)
        assert other.runs.rollout_count(run.id) == 6
        assert len(other.runs.tasks(run.id)) == 2
    finally:
        other.stop()


def test_a_second_studio_on_the_same_data_is_refused(open_studio: Open) -> None:
    """Case E8."""
    first = open_studio()
    second = open_studio(watch=False)
    with pytest.raises(ConfigError, match='Another studio'):
        second.start()
    first.stop()
    second.start()


def test_a_trainer_inherits_an_allow_list() -> None:
    source = {
        'PATH': '/bin', 'HOME': '/h', 'HF_TOKEN': 'a', 'HF_HOME': '/hf', 'CUDA_VISIBLE_DEVICES': '0', 'LC_ALL': 'C',
        'OMP_NUM_THREADS': '2', 'WANDB_API_KEY': 'b', 'MY_ODD_NAME': 'c', 'SSH_AUTH_SOCK': '/tmp/x', 'RLVR_HOME': '/d',
        'HF_API_KEY': 'd', 'RLVR_SECRET': 'e', 'AWS_SECRET_ACCESS_KEY': 'f', 'LD_PRELOAD': 'g', 'RLVR_DATABASE': 'postgresql://u:p@h/d',
    }  # fmt: skip
    kept = set(child_environment(source)) - {'PYTHONPATH', 'PYTHONUNBUFFERED', 'PYTHONIOENCODING', 'TQDM_DISABLE'}
    assert kept == {
        'PATH', 'HOME', 'HF_TOKEN', 'HF_HOME', 'CUDA_VISIBLE_DEVICES', 'LC_ALL', 'OMP_NUM_THREADS', 'RLVR_HOME'
    }  # fmt: skip


def test_a_launch_that_was_cut_short_does_not_block(open_studio: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('studio.supervisor.UNCLAIMED_S', 0.5)
    studio = open_studio(watch=False)
    run = new_run(studio)
    monkeypatch.setattr(studio.runs, '_launch', lambda id, place: None)
    studio.runs.start(run.id)
    monkeypatch.undo()
    time.sleep(0.6)
    monkeypatch.setattr('studio.supervisor.UNCLAIMED_S', 0.5)
    studio.start()
    assert 'cut short' in ended(studio, run.id).reason
    assert studio.runs.active() is None


def test_how_it_ended_is_told_on_a_full_disk(tmp_path: Path) -> None:
    """The waiting parent has taken the room for exit.json before the trainer could fill the disk."""
    full = tmp_path / 'full'
    full.mkdir()
    wait = Path(tree.__file__).with_name('wait.py')
    fill = f'head -c 10000000 /dev/zero > {full}/filled; exit 7'
    script = (
        f'{sys.executable} -I -S {wait} {full} sh -c "{fill}"; '
        f'for _ in $(seq 200); do [ -e {full}/exit.json ] && break; sleep 0.1; done; cat {full}/exit.json'
    )
    done = subprocess.run(
        ['bwrap', '--dev-bind', '/', '/', '--size', '65536', '--tmpfs', str(full), 'sh', '-c', script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert json.loads(done.stdout)['code'] == 7, done.stderr
