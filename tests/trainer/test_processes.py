"""Two processes on one run, started by accelerate over gloo: shared episodes, one writer, one end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from trainer.config import RunConfig, parse_settings
from trainer.events import Metrics, Notice, Progress, RolloutEvent, State, read_events
from trainer.kept_workspaces import WorkspaceFolder
from trainer.manifest import read_manifest
from trainer.models import ASSETS
from trainer.recording import Rollout
from trainer.runfolder import RunFolder, state_of
from trainer.task import parse_task

pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.timeout(900)]
TUTORIAL = ASSETS / 'tasks' / 'tutorial-train.jsonl'
HELD_OUT = ASSETS / 'tasks' / 'tutorial-heldout.jsonl'
STARTED: list[subprocess.Popen[bytes]] = []


PACKAGED = {
    'title': 'Packaged',
    'task_spec': {
        'prompt': 'Anything will do.',
        'checker': {'type': 'script', 'config': {'script': 'import rlvrshared\n\nprint(rlvrshared.one)\n'}},
    },
}


def make(path: Path, *, tasks: int, steps: int, held_out: int = 0, packages: Sequence[str] = ()) -> RunFolder:
    settings, _ = parse_settings(
        {
            'rl': {
                'enabled': True,
                'numGenerations': 4,
                'maxSteps': steps,
                'maxCompletionLength': 256,
                'pipPackages': list(packages),
            },
            'processes': 2,
            'heldOutAttempts': 1,
            'evalEvery': 0,
        }
    )
    config = RunConfig(
        id='two', created_at=datetime.now(UTC), model='starter', settings=settings, home=str(path.parent / 'home')
    )
    given = [*read_manifest(TUTORIAL)[: tasks - len(packages)], *(parse_task(PACKAGED)[0] for _ in packages)]
    return RunFolder.create(path, config, given, read_manifest(HELD_OUT)[:held_out])


def start(folder: RunFolder, **environment: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, '-m', 'trainer', str(folder.path)]
    with folder.log.open('ab') as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment})
    STARTED.append(process)
    return process


def write_wheel(folder: Path) -> Path:
    """A folder with one package, for pip to be pointed to."""
    info = 'rlvrshared-1.0.dist-info'
    folder.mkdir()
    with zipfile.ZipFile(folder / 'rlvrshared-1.0-py3-none-any.whl', 'w') as wheel:
        wheel.writestr('rlvrshared.py', 'one = 1.0\n')
        wheel.writestr(f'{info}/METADATA', 'Metadata-Version: 2.1\nName: rlvrshared\nVersion: 1.0\n')
        wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        wheel.writestr(f'{info}/RECORD', f'rlvrshared.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n')
    return folder


def wait_for(folder: RunFolder, condition: Callable[[list[object]], bool], seconds: float = 400) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition(list(read_events(folder.events)[0])):
            return
        time.sleep(0.2)
    raise AssertionError(folder.log.read_text()[-3000:])


def ranks(process: subprocess.Popen[bytes], folder: RunFolder) -> list[psutil.Process]:
    """The processes that share the run, by rank."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.Error):  # a sandbox, and what runs in it, may be gone by now
            environment = child.environ()
            if 'RANK' in environment and str(folder.path) in child.cmdline():
                found.append((int(environment['RANK']), child, child.ppid()))
    # One of them may just be starting a program, and there are two of it for a moment.
    pids = {child.pid for _, child, _ in found}
    shared = {rank: child for rank, child, parent in found if parent not in pids}
    assert sorted(shared) == [0, 1], found
    return [shared[0], shared[1]]


@pytest.fixture(autouse=True)
def nobody_left() -> Iterator[None]:
    """End the run of a test that failed: two processes that train would hold up all that follow."""
    yield
    for process in STARTED:
        if process.poll() is None:
            for one in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            process.kill()
            process.wait()


@pytest.fixture(scope='module')
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    place = tmp_path_factory.mktemp('two')
    folder = make(place / 'run', tasks=3, steps=2, held_out=3, packages=['rlvrshared'])
    index = write_wheel(place / 'index')
    process = start(folder, PIP_NO_INDEX='1', PIP_FIND_LINKS=str(index))
    assert process.wait(timeout=600) == 0, folder.log.read_text()[-4000:]
    return folder


def test_one_writer_leaves_one_whole_story(finished: RunFolder) -> None:
    events, _ = read_events(finished.events)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    states = [event.state for event in events if isinstance(event, State)]
    assert states == ['preparing', 'evaluating', 'training', 'evaluating', 'finished']
    assert state_of(events, finished.exit(), finished.claim()) == ('finished', '')
    assert [(event.step, event.total) for event in events if isinstance(event, Progress)] == [(1, 2), (2, 2)]
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert len([text for text in notices if text.startswith('Device') and '2 processes' in text]) == 1
    assert any('a step takes 4 tasks instead of 3' in text for text in notices)
    assert finished.log.read_text().count('step 1/2') == 1


def test_the_rollouts_of_both_are_recorded_in_whole_groups(finished: RunFolder) -> None:
    events = [event for event in read_events(finished.events)[0] if isinstance(event, RolloutEvent)]
    trained = [event for event in events if event.stage == 'train']
    assert Counter((event.step, event.group) for event in trained) == {
        (step, group): 4 for step in (1, 2) for group in range(4)
    }
    for event in trained:
        rollout = Rollout.model_validate(finished.rollout(event.offset))
        assert (rollout.task, rollout.group, rollout.verdict.reward) == (event.task, event.group, event.reward)
        kept = WorkspaceFolder(finished.path).get(rollout.workspace)
        assert kept is not None and kept.offset == event.offset
    tasks = {(event.step, event.group): event.task for event in trained}
    assert all(event.task == tasks[event.step, event.group] for event in trained)
    for stage in ('before', 'after'):
        measured = [event for event in events if event.stage == stage]
        assert len({event.task for event in measured}) == len(measured) == 3


def test_the_numbers_are_over_the_episodes_of_both(finished: RunFolder) -> None:
    events, _ = read_events(finished.events)
    for step in (1, 2):
        (row,) = [
            event.values
            for event in events
            if isinstance(event, Metrics) and event.step == step and 'loss' in event.values
        ]
        rewards = [
            event.reward
            for event in events
            if isinstance(event, RolloutEvent) and event.step == step and event.stage == 'train'
        ]
        scored = [reward for reward in rewards if reward is not None]
        assert row['rollouts'] == len(rewards) == 16
        assert row['rewards/TfcodeEnv/mean'] == pytest.approx(sum(scored) / len(scored))


def test_both_played_different_episodes(finished: RunFolder) -> None:
    """The same seed in both processes must not give the same attempts."""
    texts = []
    for event in read_events(finished.events)[0]:
        if isinstance(event, RolloutEvent) and event.stage == 'train' and event.step == 1:
            rollout = Rollout.model_validate(finished.rollout(event.offset))
            texts.append((event.group, tuple(turn.text for turn in rollout.turns)))
    first, second = ([text for group, text in texts if group // 2 == half] for half in (0, 1))
    assert first != second


def test_packages_are_installed_once_and_seen_by_the_checkers_of_both(finished: RunFolder) -> None:
    events, _ = read_events(finished.events)
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert notices.count('Installing 1 package for sandboxes') <= 1  # by whichever process came first
    assert len([text for text in notices if 'rlvrshared==1.0' in text]) == 1
    assert 'rlvrshared==1.0' in json.loads((finished.path / 'packages.json').read_text())
    packaged = finished.tasks()[-1].id
    rewards = [event.reward for event in events if isinstance(event, RolloutEvent) and event.task == packaged]
    assert len(rewards) >= 8 and set(rewards) == {1.0}


def test_the_adapter_is_saved_once(finished: RunFolder) -> None:
    assert (finished.adapter / 'adapter_model.safetensors').is_file()
    assert json.loads(finished.summary.read_text())['state'] == 'finished'
    assert not list(finished.path.glob('failure-*'))


def test_a_signal_to_end_stops_both_and_keeps_what_was_learned(tmp_path: Path) -> None:
    folder = make(tmp_path / 'run', tasks=2, steps=500)
    process = start(folder)
    wait_for(folder, lambda events: any(isinstance(event, Progress) for event in events))
    shared = ranks(process, folder)
    assert len(shared) == 2
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(timeout=300) == 143, folder.log.read_text()[-3000:]
    events, _ = read_events(folder.events)
    assert state_of(events, folder.exit(), folder.claim()) == ('stopped', 'stopped by the user')
    assert (folder.adapter / 'adapter_model.safetensors').is_file()
    assert not [one for one in shared if one.is_running()]


def test_where_one_process_is_killed_the_run_fails_and_says_so(tmp_path: Path) -> None:
    folder = make(tmp_path / 'run', tasks=2, steps=500)
    process = start(folder)
    wait_for(folder, lambda events: any(isinstance(event, Progress) for event in events))
    shared = ranks(process, folder)
    shared[1].kill()
    assert process.wait(timeout=300) == 1
    events, _ = read_events(folder.events)
    state, reason = state_of(events, folder.exit(), folder.claim())
    assert state == 'failed'
    assert 'process' in reason
    psutil.wait_procs(shared, timeout=60)
    assert not [one for one in shared if one.is_running()]
