"""Trackers: refused by field before a launch, given the numbers of the run page, never what ends or holds up a run."""

from __future__ import annotations

import importlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from trainer.config import RunConfig, parse_settings, plan
from trainer.errors import ConfigError
from trainer.events import Metrics, Notice, Resumed, read_events
from trainer.journal import Journal
from trainer.models import STARTER
from trainer.reporting import Tracker, obstacle, variables
from trainer.runfolder import RunFolder
from trainer.task import TaskFile, parse_task
from trainer.trackers import Trackers

pytest.importorskip('tensorboardX', reason='the extra tensorboard')


def refused(settings: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        plan(parse_settings(settings)[0], STARTER, 4)
    return {field.loc: field.msg for field in caught.value.fields}


def test_no_tracker_is_the_default_and_one_named_twice_is_one() -> None:
    assert parse_settings({})[0].report_to == ()
    assert parse_settings({'reportTo': ['tensorboard', 'tensorboard']})[0].report_to == ('tensorboard',)


@pytest.mark.parametrize('given', [['mlflow'], 'tensorboard', [1]])
def test_what_is_no_tracker_is_refused_by_its_field(given: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings({'reportTo': given})
    assert caught.value.fields[0].loc.startswith('reportTo')


def test_a_tracker_that_is_not_installed_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('trainer.reporting._installed', lambda package: package == 'wandb')
    monkeypatch.delenv('WANDB_API_KEY', raising=False)
    monkeypatch.delenv('WANDB_MODE', raising=False)
    monkeypatch.setenv('HOME', '/nowhere')
    said = refused({'reportTo': ['tensorboard', 'wandb', 'trackio']})
    assert 'pip install tensorboardX' in said['reportTo.0']
    assert 'WANDB_API_KEY' in said['reportTo.1']
    assert 'pip install trackio' in said['reportTo.2']
    monkeypatch.setenv('WANDB_MODE', 'offline')
    assert set(refused({'reportTo': ['wandb', 'trackio']})) == {'reportTo.1'}


def test_a_key_that_wandb_login_left_is_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr('trainer.reporting._installed', lambda package: True)
    monkeypatch.setenv('HOME', str(tmp_path))
    for name in ('WANDB_API_KEY', 'WANDB_MODE', 'WANDB_BASE_URL'):
        monkeypatch.delenv(name, raising=False)
    assert 'wandb login' in obstacle('wandb')
    (tmp_path / '.netrc').write_text('machine api.wandb.ai login user password aaa')
    (tmp_path / '.netrc').chmod(0o600)
    assert obstacle('wandb') == ''
    monkeypatch.setenv('WANDB_BASE_URL', 'http://wandb.mine:8080')
    assert 'wandb login' in obstacle('wandb')


def test_keys_reach_only_runs_that_report_there() -> None:
    source = {'WANDB_API_KEY': 'k', 'WANDB_MODE': 'offline', 'TRACKIO_DIR': '/t', 'OTHER': 'o'}
    assert variables((), source) == {}
    assert variables(('wandb',), source) == {'WANDB_API_KEY': 'k', 'WANDB_MODE': 'offline'}
    assert variables(('trackio', 'tensorboard'), source) == {'TRACKIO_DIR': '/t'}


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """What TensorBoard would show of a folder."""
    import struct

    event_pb2 = importlib.import_module('tensorboardX.proto.event_pb2')
    found: dict[str, dict[int, float]] = {}
    for path in sorted(folder.rglob('*.tfevents.*')):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack('<Q', data[:8])
            event = event_pb2.Event.FromString(data[12 : 12 + length])
            for value in event.summary.value:
                if value.HasField('simple_value'):
                    found.setdefault(value.tag, {})[event.step] = value.simple_value
            data = data[16 + length :]
    return found


def made_tasks(*ids: str) -> list[TaskFile]:
    """Tasks that every attempt solves."""
    checker = {'type': 'exit_code', 'config': {'command': 'true'}}
    return [parse_task({'id': id, 'task_spec': {'prompt': f'Do {id}', 'checker': checker}})[0] for id in ids]


def metrics(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """The rows of a run."""
    events = read_events(folder / 'events.jsonl')[0]
    return [(event.step, event.values) for event in events if isinstance(event, Metrics)]


def warnings_of(folder: Path) -> list[str]:
    """What a run says of its trackers."""
    events = read_events(folder / 'events.jsonl')[0]
    return [event.text for event in events if isinstance(event, Notice) and event.setting == 'reportTo']


STAND_INS = """
import json, os, subprocess, sys, time, warnings
from pathlib import Path
LOG, WRONG, NAME = Path(os.environ['STAND_IN_LOG']), os.environ.get('STAND_IN_WRONG'), __name__
def say(what, **more):
    with LOG.open('a') as file:
        file.write(json.dumps({'tracker': NAME, 'what': what, **more}) + chr(10))
class Run:
    url = 'https://tracker.test/run'
    def define_metric(self, *names, **options): say('axis', names=names, **options)
    def log(self, values, step=None):
        if WRONG == NAME + ' breaks': raise OSError(28, 'No space left on device ' + os.environ['WANDB_API_KEY'])
        if WRONG == NAME + ' warns': warnings.warn('this batch could not be kept')
        if WRONG == NAME + ' dies': os.kill(os.getpid(), 9)
        if WRONG == NAME + ' dies later' and values.get('step') == 2: os.kill(os.getpid(), 9)
        say('log', values=values, step=step)
    def finish(self, exit_code=0):
        if WRONG and WRONG.startswith(NAME + ' hangs'):
            deaf = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)
            say('hangs', pids=[os.getpid(), deaf.pid])
            time.sleep(600)
        say('finish', exit_code=exit_code)
def init(**options):
    print('a library prints')
    say('init', **options)
    return Run()
log, finish = Run().log, Run().finish
"""


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for wandb and trackio that write down what they are told."""
    for name in ('wandb', 'trackio'):
        (tmp_path / 'packages').mkdir(exist_ok=True)
        (tmp_path / 'packages' / f'{name}.py').write_text(STAND_INS)
    monkeypatch.setenv('PYTHONPATH', str(tmp_path / 'packages'))
    monkeypatch.setenv('STAND_IN_LOG', str(tmp_path / 'said.jsonl'))
    monkeypatch.setenv('WANDB_API_KEY', 'a-secret-key')
    monkeypatch.delenv('WANDB_DIR', raising=False)
    monkeypatch.delenv('WANDB_PROJECT', raising=False)
    return tmp_path / 'said.jsonl'


def lines(path: Path, tracker: str) -> list[dict[str, Any]]:
    """What a stand-in was told."""
    told = map(json.loads, path.read_text(encoding='utf-8').splitlines())
    return [line for line in told if line['tracker'] == tracker]


@contextmanager
def reported(folder: Path, *trackers: Tracker) -> Iterator[Journal]:
    """A run that is reported, made where there is none."""
    made = RunFolder(folder)
    if not folder.exists():
        settings = parse_settings({'rl': {'enabled': True}, 'reportTo': trackers})[0]
        run = RunConfig(
            id='01ARZ3NDEKTSV4RRFFQ69G5FAV', name='Mine', created_at=datetime.now(UTC), model='/home/me/my-model',
            settings=settings,
        )  # fmt: skip
        RunFolder.create(folder, run, made_tasks('a'))
    with Journal(made) as journal, Trackers(trackers, journal):
        yield journal


def test_trackers_get_every_number_of_the_run_under_its_name(tmp_path: Path, said: Path) -> None:
    with reported(tmp_path / 'run', 'wandb', 'trackio') as journal:
        journal.write(Metrics(step=0, values={'held_out/success': 0.5}))
        journal.write(Metrics(step=1, values={'loss': 0.25, 'entropy': 1.5}))
    with reported(tmp_path / 'run', 'wandb', 'trackio') as journal:  # gone on with, from an earlier step
        journal.write(Resumed(step=0))
        journal.write(Metrics(step=1, values={'loss': 0.125}))
    for tracker in ('wandb', 'trackio'):
        told = lines(said, tracker)
        first, second = (line for line in told if line['what'] == 'init')
        assert (first['name'], second['name'], first['resume']) == ('Mine 9G5FAV', 'Mine 9G5FAV', 'allow')
        assert first['config']['settings']['reportTo'] == ['wandb', 'trackio']
        assert '/home/me' not in json.dumps(first['config'])
        logged = [line for line in told if line['what'] == 'log']
        steps = [line['step'] if tracker == 'trackio' else line['values'].pop('step') for line in logged]
        assert list(zip(steps, [line['values'] for line in logged], strict=True)) == metrics(tmp_path / 'run')
        assert [line['exit_code'] for line in told if line['what'] == 'finish'] == [0, 0]
    told = lines(said, 'wandb')
    assert {line['id'] for line in told if line['what'] == 'init'} == {'01ARZ3NDEKTSV4RRFFQ69G5FAV'}
    assert [line['names'] for line in told if line['what'] == 'axis'] == [['step'], ['*']] * 2
    assert warnings_of(tmp_path / 'run') == []
    shown = [event.text for event in read_events(tmp_path / 'run' / 'events.jsonl')[0] if isinstance(event, Notice)]
    assert 'wandb: https://tracker.test/run' in shown


def test_a_run_that_fails_is_reported_as_failed(tmp_path: Path, said: Path) -> None:
    with pytest.raises(ZeroDivisionError), reported(tmp_path / 'run', 'wandb') as journal:
        journal.write(Metrics(step=1, values={'loss': 0.25}))
        raise ZeroDivisionError
    assert [line['what'] for line in lines(said, 'wandb')][-2:] == ['log', 'finish']
    assert lines(said, 'wandb')[-1]['exit_code'] == 1


@pytest.mark.parametrize(
    ('wrong', 'expected'),
    [
        ('wandb breaks', 'No space left on device …'),
        ('wandb dies', 'ended by signal 9'),
        ('wandb hangs', r'did not end within \d+ s'),
        ('wandb hangs, and the run is stopped', r'did not end within \d+ s'),
    ],
)
def test_a_tracker_that_fails_is_said_once_and_holds_up_nothing(
    tmp_path: Path, said: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, expected: str
) -> None:
    monkeypatch.setenv('STAND_IN_WRONG', wrong)
    hangs, stopped = 'hangs' in wrong, wrong.endswith('stopped')
    if hangs:
        monkeypatch.setattr(f'trainer.trackers.{"STOPPED_S" if stopped else "FINISH_S"}', 1.0)
        monkeypatch.setattr('trainer.trackers.SAY_S', 0.5)
    with reported(tmp_path / 'run', 'wandb', 'trackio') as journal:
        for step in (1, 2):
            journal.write(Metrics(step=step, values={'loss': 0.25}))
        until(lambda: said.exists() and len([line for line in lines(said, 'trackio') if line['what'] == 'log']) == 2)
        if hangs:
            until(lambda: len([line for line in lines(said, 'wandb') if line['what'] == 'log']) == 2)
        if stopped:
            journal.request_stop()
    (text,) = [text for text in warnings_of(tmp_path / 'run') if text.startswith('wandb')]
    assert re.search(expected, text) and (hangs or text.startswith('wandb broke, the run goes on without it'))
    assert 'a-secret-key' not in (tmp_path / 'run' / 'events.jsonl').read_text()
    assert [line['step'] for line in lines(said, 'trackio') if line['what'] == 'log'] == [1, 2]
    # On a busy machine the other one may take as long to end.
    waits = re.search('Waits for wandb( and trackio)? to take', (tmp_path / 'run' / 'events.jsonl').read_text())
    assert bool(waits) == hangs
    hung = [pid for line in lines(said, 'wandb') if line['what'] == 'hangs' for pid in line['pids']]
    assert len(hung) == (2 if hangs else 0)
    until(lambda: not any(psutil.pid_exists(pid) and lives(pid) for pid in hung))


def test_what_a_killed_process_may_have_lost_is_reported_once_more(
    tmp_path: Path, said: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('STAND_IN_WRONG', 'wandb dies later')
    with reported(tmp_path / 'run', 'wandb', 'tensorboard') as journal:
        journal.write(Metrics(step=1, values={'loss': 0.5}))
        until(lambda: scalars(tmp_path / 'run').get('loss') == {1: 0.5})
        until(lambda: said.exists() and any(line['what'] == 'log' for line in lines(said, 'wandb')))
        journal.write(Metrics(step=2, values={'loss': 0.25}))
    monkeypatch.setenv('STAND_IN_WRONG', '')
    for step in (3, 4):
        with reported(tmp_path / 'run', 'wandb', 'tensorboard') as journal:
            journal.write(Metrics(step=step, values={'loss': 1.0}))
    # Told and lost, told again by the next process, which ended well: the one after that goes on behind it.
    logged = [line['values']['step'] for line in lines(said, 'wandb') if line['what'] == 'log']
    assert logged == [1, 1, 2, 3, 4]
    # TensorBoard shows a run while it works, and its process ended well each time: nothing stands there twice.
    assert sum(path.read_bytes().count(b'loss') for path in (tmp_path / 'run').rglob('*.tfevents.*')) == 4


def test_what_a_library_only_warns_of_is_said_once(tmp_path: Path, said: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('STAND_IN_WRONG', 'trackio warns')
    with reported(tmp_path / 'run', 'trackio') as journal:
        for step in (1, 2):
            journal.write(Metrics(step=step, values={'loss': 0.25}))
    assert warnings_of(tmp_path / 'run') == ['trackio: warns: this batch could not be kept']
    assert [line['step'] for line in lines(said, 'trackio') if line['what'] == 'log'] == [1, 2]


def test_a_tracker_that_is_gone_since_the_launch_ends_nothing(tmp_path: Path, said: Path) -> None:
    (said.parent / 'packages' / 'wandb.py').write_text('raise ImportError("No module named wandb")')
    with reported(tmp_path / 'run', 'wandb') as journal:
        journal.write(Metrics(step=1, values={'loss': 0.25}))
    (text,) = warnings_of(tmp_path / 'run')
    assert 'No module named wandb' in text


def test_tensorboard_hides_what_a_continued_run_did_again(tmp_path: Path) -> None:
    with reported(tmp_path / 'run', 'tensorboard') as journal:
        journal.write(Metrics(step=1, values={'cold_start/loss': 3.0}))
        for step in (1, 2):
            journal.write(Metrics(step=step, values={'loss': float(step)}))
    with reported(tmp_path / 'run', 'tensorboard') as journal:
        journal.write(Resumed(step=1))
        journal.write(Metrics(step=2, values={'loss': 7.0}))
    log = tmp_path / 'run' / 'tensorboard-log'
    assert scalars(log / 'cold_start') == {'cold_start/loss': {1: 3.0}}
    assert scalars(log / 'training') == {'loss': {1: 1.0, 2: 7.0}}
    newest = max((log / 'training').iterdir(), key=lambda path: path.stat().st_mtime_ns).read_bytes()
    # SessionLog START at step 2: TensorBoard drops what other files say of it and later ones.
    assert b'\x10\x02\x3a\x02\x08\x01' in newest


def lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def until(true: Any, patience_s: float = 60) -> None:
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, 'it never came true'
        time.sleep(0.05)


@pytest.mark.train
def test_a_real_run_is_reported_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scripted_runs import scripted

    from trainer.stages import run_stages

    settings = {'rl': {'maxSteps': 2}, 'reportTo': ['tensorboard'], 'heldOutAttempts': 2}
    with scripted(tmp_path / 'run', made_tasks('a', 'b'), held_out=made_tasks('held'), **settings) as run:
        monkeypatch.setattr('trainer.stages.prepare', lambda *_: run)
        run_stages(run.folder, run.journal)
    expected: dict[str, dict[int, Any]] = {}
    for step, values in metrics(tmp_path / 'run'):
        for name, value in values.items():
            expected.setdefault(name, {})[step] = pytest.approx(value)
    assert {'held_out/success', 'rewards/TfcodeEnv/mean', 'frac_reward_zero_std', 'loss'} <= set(expected)
    assert scalars(tmp_path / 'run' / 'tensorboard-log' / 'training') == expected
    assert set(expected['held_out/success']) == {0, 2}
