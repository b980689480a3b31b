"""Whatever happens, whenever it happens: the right state, no lost row, no process left.

Seven mishaps times four moments of a run. The run of a test stays in its moment until it may go on (``go``), so nothing
here depends on how fast the machine is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from sqlalchemy import event
from stand_in import STUB, ended, grandchildren, new_run, until

from studio.runs.service import AlreadyStarted, RunView
from studio.services import Studio
from studio.store.tables import RunTable
from trainer.errors import StoreError
from trainer.runfolder import Claim, RunFolder, write_json

Open = Callable[..., Studio]
MOMENTS = ('queued', 'preparing', 'training', 'saving')


@dataclass
class Case:
    """A run in its moment. For ``queued``, another run works (``works``) and this one waits behind it."""

    studio: Studio
    run: RunView
    works: RunView

    @property
    def waits(self) -> bool:
        """Whether the run has not been launched yet."""
        return self.run.id != self.works.id

    @property
    def claim(self) -> Claim:
        """Who works."""
        claim: Claim = until(self.studio.runs.folder(self.works.id).claim)
        return claim

    def folder(self, run: RunView | None = None) -> RunFolder:
        """The folder of a run; of the one that works."""
        return self.studio.runs.folder((run or self.works).id)

    def go_on(self, studio: Studio) -> None:
        """Let every run end by itself, and see that nothing of it is missing."""
        ids = {self.works.id, self.run.id}
        for run in ids:
            (studio.runs.folder(run).path / 'go').touch()
        for run in ids:
            done = ended(studio, run)
            assert (done.state, done.step) == ('finished', 4), done
            assert studio.runs.metrics(run)['loss'][0] == [1, 2, 3, 4]
            seqs = [each.seq for each in studio.runs.events(run)]
            assert seqs == sorted(set(seqs)) and studio.runs.folder(run).checkpoints.joinpath('step-2').is_dir()
        nothing_is_left(studio)

    def the_waiting_run_has_its_turn(self, studio: Studio) -> None:
        """The one that worked has ended badly; the one behind it starts and finishes."""
        if self.waits:
            (studio.runs.folder(self.run.id).path / 'go').touch()
            assert ended(studio, self.run.id).state == 'finished'
        nothing_is_left(studio)


@pytest.fixture(params=MOMENTS)
def case(request: pytest.FixtureRequest, open_studio: Open) -> Iterator[Case]:
    """A run in each of its moments."""
    moment = str(request.param)
    options = ('--steps', '4', '--interval', '0', '--hold', 'training' if moment == 'queued' else moment)
    children = ('--children',) if 'tree' in request.function.__name__ else ()
    yield started(open_studio(*options, *children, stop_grace_s=1), moment)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('studio.supervisor.EXIT_S', 0.5)


def started(studio: Studio, moment: str) -> Case:
    works = new_run(studio, 'One')
    run = new_run(studio, 'Two') if moment == 'queued' else works
    for each in (works, run)[: 1 + (moment == 'queued')]:
        studio.runs.start(each.id)
    until(lambda: (studio.runs.folder(works.id).path / 'holds').exists())
    return Case(studio, run, works)


def nothing_is_left(studio: Studio) -> None:
    """No slot is taken, no row points nowhere, and no process works for this data folder."""
    assert studio.runs.active() is None
    root = str(studio.settings.runs_folder)
    until(lambda: not [process for process in psutil.process_iter() if _works_below(process, root)])


def _works_below(process: psutil.Process, root: str) -> bool:
    try:
        return any(part.startswith(root) for part in process.cmdline())
    except psutil.Error:
        return False


SERVER = """
import sys, time
from pathlib import Path
from stand_in import stub
from studio.services import Studio
from studio.settings import Settings
from test_supervisor_matrix import started
studio = Studio(Settings(home=Path(sys.argv[1])), launcher=stub('--steps', '4', '--interval', '0', *sys.argv[3:]))
studio.start()
case = started(studio, sys.argv[2])
print(case.works.id, case.run.id, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize('moment', MOMENTS)
def test_the_studio_is_killed(open_studio: Open, tmp_path: Path, moment: str) -> None:
    """Case C8."""
    hold = 'training' if moment == 'queued' else moment
    paths = [str(STUB.parent), str(STUB.parent.parent.parent), os.environ.get('PYTHONPATH', '')]
    process = subprocess.Popen(
        [sys.executable, '-c', SERVER, str(tmp_path / 'home'), moment, '--hold', hold],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {'PYTHONPATH': os.pathsep.join(paths)},
    )
    assert process.stdout is not None
    works, run = process.stdout.readline().split()
    process.kill()
    process.communicate()
    studio = open_studio('--steps', '4', '--interval', '0')
    again = Case(studio, studio.runs.get(run), studio.runs.get(works))
    assert again.claim.alive and not again.run.is_final
    again.go_on(studio)


def test_the_child_is_killed(case: Case) -> None:
    """Case E2."""
    os.kill(case.claim.pid, signal.SIGKILL)
    done = ended(case.studio, case.works.id)
    assert (done.state, done.reason) == ('failed', 'killed by SIGKILL, likely out of memory')
    until(lambda: not list(case.folder().checkpoints.glob('.*')))
    case.the_waiting_run_has_its_turn(case.studio)


def test_the_whole_tree_is_stopped(case: Case) -> None:
    """Case C7: grandchildren too, deaf or in a session of their own; what waits is stopped without having begun."""
    pids = grandchildren(case.folder().path)
    stopped = case.studio.runs.stop(case.run.id)
    if case.waits:
        assert (stopped.state, stopped.reason) == ('stopped', 'stopped before it started')
        assert case.claim.alive
    case.studio.runs.stop(case.works.id)
    done = ended(case.studio, case.works.id)
    assert (done.state, done.reason) == ('stopped', 'stopped by the user')
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert not list(case.folder().checkpoints.glob('.*'))
    nothing_is_left(case.studio)


def test_the_disk_is_full_for_a_while(case: Case) -> None:
    """Case F1: the child goes on, what it wrote is read as soon as there is room, and a start says what is wrong."""
    other = new_run(case.studio, 'Three')
    engine = case.studio.database.engine

    def fill(connection: object, *_: object) -> None:
        connection.execute('PRAGMA max_page_count=1').close()  # type: ignore[attr-defined]

    event.listen(engine, 'checkout', fill)
    for run in (case.works, case.run):
        (case.studio.runs.folder(run.id).path / 'go').touch()
    until(case.folder().exit)
    with pytest.raises(StoreError, match='disk is full'):
        for number in range(100):
            case.studio.runs.rename(other.id, 'x' * (100 + number))
            new_run(case.studio)
    assert not case.studio.runs.get(other.id).is_final
    event.remove(engine, 'checkout', fill)
    event.listen(engine, 'checkout', lambda connection, *_: connection.execute('PRAGMA max_page_count=1000000').close())
    case.go_on(case.studio)
    case.studio.runs.start(other.id)
    (case.folder(other).path / 'go').touch()
    assert ended(case.studio, other.id).state == 'finished'


def test_the_clock_is_set(case: Case, open_studio: Open) -> None:
    """An hour forward: start times, counted from boot, move with it; a studio that is opened then still knows it."""
    case.studio.stop()
    claim = case.claim
    case.folder().write_claim(claim.model_copy(update={'started': claim.started - 3600}))
    studio = open_studio('--steps', '4', '--interval', '0')
    with studio.database.write() as session:
        for run in (case.works, case.run):
            row = session.get(RunTable, run.id)
            assert row is not None
            row.queued_at = row.created_at = datetime.now(UTC) + timedelta(hours=1)
            row.started_at = row.started_at and row.queued_at
    assert case.claim.alive
    case.go_on(studio)
    assert (studio.runs.get(case.works.id).elapsed_s or 0) >= 0


def test_its_number_belongs_to_somebody_else_now(case: Case, open_studio: Open) -> None:
    """The machine was switched off: the number is another program's, which is left alone."""
    case.studio.stop()
    claim = case.claim
    waiter = psutil.Process(claim.pid).parent()
    assert waiter is not None
    waiter.kill()
    os.kill(claim.pid, signal.SIGKILL)
    until(lambda: not claim.alive)
    with subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']) as stranger:
        reused = claim.model_copy(update={'pid': stranger.pid, 'started': claim.started - 86_400})
        write_json(case.folder().path / 'claim.json', reused.model_dump())
        studio = open_studio('--steps', '4', '--interval', '0')
        done = ended(studio, case.works.id)
        assert (done.state, done.reason) == ('interrupted', 'the process is gone and left no exit code')
        studio.runs.stop(case.works.id)
        case.the_waiting_run_has_its_turn(studio)
        assert stranger.poll() is None
        stranger.kill()


def test_twenty_start_it_at_once(case: Case) -> None:
    """Case C5: it was started already, and all are told so."""

    def start(_: int) -> str:
        with pytest.raises(AlreadyStarted) as told:
            case.studio.runs.start(case.run.id)
        return told.value.run.id

    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(start, range(20))) == {case.run.id}
    children = [process for process in psutil.process_iter() if _works_below(process, str(case.folder().path))]
    assert sum('stub_trainer.py' in ' '.join(process.cmdline()) for process in children) == 2  # and who waits for it
    case.go_on(case.studio)
