"""Case C6 with the real program: killed at any step it goes on without a gap, and says what it cannot go on with."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from test_run import TUTORIAL, make, start, wait_for

from trainer.errors import RunFolderError
from trainer.events import Metrics, Notice, Progress, Resumed, RolloutEvent, State, read_events
from trainer.manifest import read_manifest
from trainer.recording import Rollout
from trainer.runfolder import RunFolder

pytestmark = [pytest.mark.train, pytest.mark.slow]
STEPS = 6
SETTINGS = {'rl': {'enabled': True, 'numGenerations': 4, 'maxSteps': STEPS}, 'saveEvery': 2, 'heldOutAttempts': 0}


@pytest.fixture(scope='module')
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, int]:
    """A run that was killed after a step drawn at random, and that step."""
    folder = make(tmp_path_factory.mktemp('run') / 'run', read_manifest(TUTORIAL)[:3], **SETTINGS)
    after = random.randrange(2, STEPS)
    process = start(folder)
    wait_for(folder, lambda events: any(isinstance(event, Progress) and event.step >= after for event in events))
    process.kill()
    process.wait()
    return folder, after


def test_a_killed_run_goes_on_without_a_gap(killed: tuple[RunFolder, int]) -> None:
    folder, after = killed
    folder.reopen()
    assert start(folder).wait(timeout=240) == 0, folder.log.read_text()[-3000:]
    events, _ = read_events(folder.events)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    resumed = next(event for event in events if isinstance(event, Resumed))
    # A kill finds the row of a step before its checkpoint, or a step later than it was meant for.
    assert resumed.step in range((after - 1) // 2 * 2, STEPS, 2)
    rows = [event for event in events if isinstance(event, Metrics) and 'loss' in event.values]
    assert [row.step for row in rows if row.seq > resumed.seq] == list(range(resumed.step + 1, STEPS + 1))
    assert [row.step for row in rows if row.seq < resumed.seq] == list(range(1, len(rows) - STEPS + resumed.step + 1))
    assert [event.state for event in events if isinstance(event, State)][-1] == 'finished'
    for event in events:
        if isinstance(event, RolloutEvent):
            assert Rollout.model_validate(folder.rollout(event.offset)).step == event.step
    assert json.loads((folder.adapter / 'lineage.json').read_text())['step'] == STEPS


def test_a_finished_run_has_nothing_left_to_do(killed: tuple[RunFolder, int]) -> None:
    folder, _ = killed
    before = folder.events.read_bytes()
    with pytest.raises(RunFolderError, match='Nothing is left to do: the run has finished its 6 steps') as refused:
        folder.reopen()
    assert refused.value.hint == 'Raise the step count to go on.'
    again = subprocess.run(
        [sys.executable, '-m', 'trainer', str(folder.path)], capture_output=True, text=True, timeout=180, check=False
    )
    assert again.returncode == 2
    assert 'Nothing is left to do' in again.stderr
    assert folder.events.read_bytes() == before


def test_a_broken_checkpoint_is_named_and_more_steps_go_on_from_the_one_before(killed: tuple[RunFolder, int]) -> None:
    folder, _ = killed
    (folder.checkpoints / 'step-6' / 'optimizer.pt').unlink()
    folder.reopen(steps=STEPS + 1)
    assert start(folder).wait(timeout=240) == 0, folder.log.read_text()[-3000:]
    events, _ = read_events(folder.events)
    said = [event.text for event in events if isinstance(event, Notice) and event.level == 'error']
    assert said == ['Not used: checkpoint step-6 is broken: optimizer.pt is missing']
    assert [event.step for event in events if isinstance(event, Resumed)][-1] == 4
    assert json.loads(folder.summary.read_text())['steps'] == STEPS + 1


def test_a_run_that_works_is_not_started_twice(tmp_path: Path) -> None:
    folder = make(tmp_path / 'run', read_manifest(TUTORIAL)[:1], **SETTINGS)
    process = start(folder)
    wait_for(folder, lambda events: bool(events))
    with pytest.raises(RunFolderError, match='is being trained now'):
        folder.reopen()
    second = subprocess.run(
        [sys.executable, '-m', 'trainer', str(folder.path)], capture_output=True, text=True, timeout=180, check=False
    )
    assert second.returncode == 2
    assert f'is being trained by process {process.pid}' in second.stderr
    process.kill()
    process.wait()
