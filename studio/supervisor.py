"""Watches runs from one background thread: reads what they wrote, says how they are, stops them whole, starts the next.

It holds nothing that a restart would lose: what is to be watched stands in the store, who runs it in ``claim.json``,
how it ended in ``exit.json``. A run never depends on it.
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sqlmodel import Session, col, select

from studio.ingest import ingest
from studio.launchers import LocalLauncher
from studio.runs.queue import release
from studio.runs.service import Runs
from studio.store.database import Busy, Database
from studio.store.ids import is_id
from studio.store.tables import EventTable, RunTable
from trainer.errors import RlvrError, RunFolderError, StoreError
from trainer.events import FINAL_STATES, RunState, State
from trainer.runfolder import Claim, Exit, RunFolder, state_of
from trainer.sandbox.leftovers import sweep_leftovers

TICK_S: Final = 0.5
UNCLAIMED_S: Final = 45.0
"""After this, a launch that left no claim was cut short."""
EXIT_S: Final = 3.0
"""The waiting parent gets this long to write exit.json after the trainer is gone."""
LEAVE_S: Final = 60.0
"""A trainer that said it is done gets this long to leave."""

_log = logging.getLogger(__name__)


class Supervisor:
    """The background thread of a studio. ``wake`` makes it look at once."""

    def __init__(
        self,
        database: Database,
        runs: Runs,
        launcher: LocalLauncher,
        *,
        grace_s: float,
        chores: Iterable[Callable[[], object]] = (),
    ) -> None:
        self._database = database
        self._runs = runs
        self._launcher = launcher
        self._grace_s = grace_s
        self._chores = tuple(chores)
        # By the monotonic clock: a clock that is set, or a laptop that slept, must not cut a run's time short.
        self._since: dict[tuple[str, str], float] = {}
        self._told: dict[str, str] = {}
        self._stopped = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch; runs that went on meanwhile are found again."""
        self.adopt()
        self._thread = threading.Thread(target=self._loop, name='supervisor', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; runs go on."""
        self._stopped.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """Look now instead of at the next tick."""
        self._wake.set()

    def adopt(self) -> None:
        """Take run folders into the store that it does not know, and remove what a cut-short deletion left."""
        root = self._runs.folder_path('')
        if not root.is_dir():
            return
        with self._database.read() as session:
            known = set(session.exec(select(RunTable.id)).all())
        for path in sorted(root.iterdir()):
            if path.name.startswith('.deleted-'):
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_dir() and is_id(path.name) and path.name not in known:
                try:
                    self._runs.adopt(path)
                except RlvrError as error:
                    _log.warning('%s is left alone: %s', path, error)

    def tick(self) -> None:
        """Look at every run once, then start the next one."""
        for run_id in self._unfinished():
            try:
                self._look(run_id)
            except (StoreError, TimeoutError, OSError) as error:
                self._tell(run_id, f'{error}; the next pass goes on where this one stopped')
            except Exception:
                # One run that cannot be read must not stop the watch over the others.
                _log.exception('Run %s could not be looked at', run_id)
            else:
                self._told.pop(run_id, None)
        try:
            self._runs.launch_waiting()
        except (RlvrError, OSError) as error:
            self._tell('', f'A run could not be started: {error}')
        else:
            self._told.pop('', None)

    def _loop(self) -> None:
        while not self._stopped.is_set():
            try:
                self.tick()
                for chore in self._chores:
                    chore()
            except Busy as busy:
                _log.info('%s', busy)
            except Exception:
                # Without this thread no run would be seen ending: it goes on whatever happens.
                _log.exception('A pass over the runs failed')
            self._wake.wait(TICK_S)
            self._wake.clear()

    def _tell(self, about: str, message: str) -> None:
        """Log what may be met at every pass once: a log that grows would fill a full disk further."""
        if self._told.get(about) != message:
            self._told[about] = message
            _log.warning('%s: %s' if about else '%s%s', about, message)

    def _unfinished(self) -> list[str]:
        with self._database.read() as session:
            query = select(RunTable.id).where(
                col(RunTable.started_at).is_not(None), col(RunTable.state).not_in(FINAL_STATES)
            )
            return list(session.exec(query).all())

    def _look(self, run_id: str) -> None:
        folder = self._runs.folder(run_id)
        # First how it ended, then what it wrote: the other way round, last words written between would be missed.
        ended, claim = _ended(folder), folder.claim()
        alive = claim is not None and claim.alive
        ingest(self._database, run_id, folder)
        with self._database.read() as session:
            row = session.get(RunTable, run_id)
            last = _last_state(session, run_id)
        if row is None:
            return
        state, reason = state_of([last] if last else [], ended, claim)
        if alive and claim is not None:
            self._since.pop((run_id, 'gone'), None)
            self._watch_living(row, claim, state)
            return
        if claim is None and ended is None:
            self._watch_unclaimed(row, folder)
            return
        if ended is None and self._for(run_id, 'gone') < EXIT_S:
            return  # the waiting parent may be about to write how it ended
        if claim is not None:
            self._launcher.end(claim)  # what the trainer left behind
        self._finish(row, *_verdict(row, state, reason, ended, last, folder))

    def _watch_unclaimed(self, row: RunTable, folder: RunFolder) -> None:
        """A launch says who runs the folder at once; one that does not was cut short, or its folder is gone."""
        if not folder.path.is_dir():
            self._finish(row, 'failed', f'the run folder is gone: {folder.path}')
        elif self._for(row.id, 'unclaimed') > UNCLAIMED_S:
            self._finish(row, 'failed', 'the launch was cut short: resume it, or start a new run')

    def _watch_living(self, row: RunTable, claim: Claim, state: RunState) -> None:
        """Keep the row up to date; end a run that was told to stop, or that says it is done and does not leave."""
        late = row.stop_requested_at is not None and self._for(row.id, 'asked') > self._grace_s
        if state in FINAL_STATES:
            return self._end_late(claim, late or self._for(row.id, 'done') > LEAVE_S)
        self._since.pop((row.id, 'done'), None)
        if state != row.state or row.pid != claim.pid:
            with self._database.write() as session:
                stored = session.get(RunTable, row.id)
                if stored is not None:
                    stored.state, stored.pid = state, claim.pid
        self._end_late(claim, late)

    def _end_late(self, claim: Claim, late: bool) -> None:
        if late:
            self._launcher.end(claim)
            self.wake()

    def _finish(self, row: RunTable, state: RunState, reason: str) -> None:
        with self._database.write() as session:
            stored = session.get(RunTable, row.id)
            if stored is not None:
                stored.state, stored.reason, stored.eta_s = state, reason, None
                stored.has_adapter = stored.has_adapter or self._runs.folder(row.id).adapter.is_dir()
                ended = _ended(self._runs.folder(row.id))
                when = datetime.fromtimestamp(ended.time, UTC) if ended else datetime.now(UTC)
                stored.ended_at = max(when, stored.started_at or when)  # the clock may have been set meanwhile
            release(session, row.id)
        for key in [key for key in self._since if key[0] == row.id]:
            del self._since[key]
        self._sweep(self._runs.folder(row.id).path)

    def _sweep(self, folder: Path) -> None:
        """Remove what a run that died left half done: checkpoints it was writing, sandboxes it was using."""
        for path in (*folder.glob('.*.partial'), *folder.glob('*/.*.partial')):
            shutil.rmtree(path, ignore_errors=True)
        for path in sweep_leftovers():
            _log.info('%s was left by a dead process and is removed', path)

    def _for(self, run_id: str, what: str) -> float:
        """Seconds for which something is so, from the first look that asked."""
        return time.monotonic() - self._since.setdefault((run_id, what), time.monotonic())


def _ended(folder: RunFolder) -> Exit | None:
    try:
        return folder.exit()
    except RunFolderError:  # damaged: how it ended cannot be known
        return None


def _last_state(session: Session, run_id: str) -> State | None:
    data = session.exec(
        select(EventTable.data)
        .where(EventTable.run_id == run_id, EventTable.type == 'state')
        .order_by(col(EventTable.seq).desc())
        .limit(1)
    ).first()
    return State.model_validate(data) if data else None


def _verdict(
    row: RunTable, state: RunState, reason: str, ended: Exit | None, last: State | None, folder: RunFolder
) -> tuple[RunState, str]:
    """The final state in words for the user: what they stopped is stopped, and a failure names its likely cause."""
    own_words = last is not None and last.state in FINAL_STATES and last.state != 'interrupted'
    if own_words:
        return state, reason or ('stopped by the user' if state == 'stopped' else '')
    if row.stop_requested_at is not None:  # which is only noted while the process had not ended by itself
        return 'stopped', 'stopped by the user'
    if state == 'failed':
        return state, _with_cause(reason, ended, folder.log_tail(50))
    return state, reason


def _with_cause(reason: str, ended: Exit | None, lines: list[str]) -> str:
    memory = any(re.search(r'out of memory|OutOfMemory|MemoryError|Cannot allocate memory', line) for line in lines)
    if memory and 'out of memory' not in reason:
        reason += ', likely out of memory'
    if ended is not None and ended.signal is None:
        errors = [line for line in lines if re.match(r'[\w.]*(Error|Exception|Exit|Interrupt)\b', line)]
        if errors:
            reason += f': {errors[-1][:300]}'
    return reason
