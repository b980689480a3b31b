"""The run folder: written whole, read back, and the state that follows from it."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainer.config import RunConfig
from trainer.errors import RunFolderError, TaskError
from trainer.events import State
from trainer.runfolder import Claim, Exit, RunFolder, state_of
from trainer.task import parse_task

SPEC = {'prompt': 'Do {it} in $HOME, 100%', 'checker': {'type': 'exit_code', 'config': {'command': 'true'}}}


def make(path: Path) -> RunFolder:
    task, _ = parse_task({'id': 'a', 'title': 'A', 'task_spec': SPEC})
    config = RunConfig(id='r1', created_at=datetime.now(UTC), model='starter')
    return RunFolder.create(path, config, [task], [task])


def test_a_folder_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    folder = make(tmp_path / 'run')
    assert folder.config().id == 'r1'
    task = folder.tasks()[0]
    assert task.task_spec.prompt == SPEC['prompt']
    assert task.hash == task.task_spec.hash
    assert [held.id for held in folder.held_out_tasks()] == ['a']


def test_a_run_never_shares_a_folder(tmp_path: Path) -> None:
    make(tmp_path / 'run')
    with pytest.raises(RunFolderError, match='not empty'):
        make(tmp_path / 'run')


def test_a_changed_manifest_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path / 'run')
    folder.manifest.write_text(folder.manifest.read_text().replace('Do {it}', 'Do that'))
    with pytest.raises(TaskError, match='changed'):
        folder.tasks()


def test_requests_are_seen_once(tmp_path: Path) -> None:
    folder = make(tmp_path / 'run')
    assert not folder.requested('stop')
    folder.request('stop')
    assert folder.requested('stop', take=True)
    assert not folder.requested('stop')


def test_a_claim_knows_a_process_from_its_successor() -> None:
    mine = Claim.of(os.getpid())
    assert mine.alive
    assert not mine.model_copy(update={'started': mine.started - 60}).alive
    child = subprocess.Popen([sys.executable, '-c', ''])
    theirs = Claim.of(child.pid)
    child.wait()
    assert not theirs.alive


DEAD = Claim(pid=os.getpid(), started=1.0)
TRAINING = [State(state='training')]


@pytest.mark.parametrize(
    ('events', 'ended', 'claim', 'state', 'reason'),
    [
        ([], None, None, 'queued', ''),
        (TRAINING, None, Claim.of(os.getpid()), 'training', ''),
        (TRAINING, None, DEAD, 'interrupted', 'the process is gone and left no exit code'),
        (TRAINING, Exit(code=3), DEAD, 'failed', 'exit code 3'),
        (TRAINING, Exit(code=0), DEAD, 'failed', 'the process ended before its work was done'),
        (TRAINING, Exit(signal=9), DEAD, 'failed', 'killed by SIGKILL, likely out of memory'),
        ([State(state='finished')], Exit(code=0), DEAD, 'finished', ''),
        ([State(state='finished')], None, DEAD, 'finished', ''),
        ([State(state='stopped', reason='by the user')], Exit(code=143), DEAD, 'stopped', 'by the user'),
        ([State(state='failed', reason='why')], Exit(code=1), DEAD, 'failed', 'why'),
    ],
)
def test_the_state_follows_from_events_exit_and_claim(
    events: list[State], ended: Exit | None, claim: Claim | None, state: str, reason: str
) -> None:
    """Cases C8 and E2: what cannot be known is interrupted, never finished."""
    assert state_of(events, ended, claim) == (state, reason)
