"""The queue of started runs: whose turn it is, how many work at once, and the order of those that wait.

Holding a row of ``slot`` is the right to launch. There is one for each run that may work at once: one, unless the
settings say otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import func
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from studio.errors import NotFound
from studio.launchers import LocalLauncher
from studio.launchers.devices import gpu_share
from studio.runs.records import RunRecords
from studio.runs.views import RunView
from studio.settings import Settings
from studio.store.database import Database
from studio.store.tables import RunTable, SlotTable
from trainer.errors import RlvrError
from trainer.events import FINAL_STATES

SLOT: Final = 'local'


class RunQueue(RunRecords):
    """The half of the run service that decides which run works. Thread-safe."""

    def __init__(self, database: Database, settings: Settings, launcher: LocalLauncher) -> None:
        super().__init__(database, settings.runs_folder)
        self._settings = settings
        self._launcher = launcher
        self._launching = threading.Lock()

    def launch_waiting(self) -> None:
        """Launch the runs whose turn it is, and return when they are launched. Safe at any time."""
        # The claim is in the database; the lock only lets a caller wait for a launch that another thread is making.
        with self._launching:
            while claimed := self._claim_slot():
                self._launch(*claimed)

    def active(self) -> RunView | None:
        """The run that works on this machine now; where several do, the one that has for longest."""
        return next(iter(self.working()), None)

    def working(self) -> tuple[RunView, ...]:
        """Every run that works on this machine now, in the order they were launched."""
        with self._database.read() as session:
            query = select(RunTable).join(SlotTable, col(SlotTable.run_id) == col(RunTable.id))
            rows = session.exec(query.order_by(col(SlotTable.taken_at))).all()
        return tuple(self.view(row) for row in rows if row.state not in FINAL_STATES)

    def waiting(self) -> tuple[RunView, ...]:
        """The runs that wait, in the order in which they will start."""
        with self._database.read() as session:
            return tuple(self.view(row) for row in _waiting(session))

    def move(self, id: str, to: int) -> tuple[str, ...]:
        """Give a waiting run another place in the queue (0 is next); return the order before, for ``reorder``.

        Raises ``NotFound`` where the run does not wait any more.
        """
        with self._database.write() as session:
            rows = _waiting(session)
            before = tuple(row.id for row in rows)
            if id not in before:
                raise NotFound('This run does not wait any more', hint='It has started, or was stopped.')
            after = [other for other in before if other != id]
            after.insert(max(0, to), id)
            _set_places(rows, after)
        return before

    def reorder(self, ids: Iterable[str]) -> None:
        """Have the waiting runs in this order; those that are not named come behind, those that left are skipped."""
        with self._database.write() as session:
            _set_places(_waiting(session), list(ids))

    def waits_for(self, session: Session, row: RunTable) -> str:
        """Words for what a run waits for; empty where it does not wait."""
        if row.state != 'queued' or row.queued_at is None:
            return ''
        names = session.exec(
            select(RunTable.name)
            .join(SlotTable, col(SlotTable.run_id) == col(RunTable.id))
            .order_by(col(SlotTable.taken_at))
            .limit(1)
        ).all()
        ahead = [other.id for other in _waiting(session)].index(row.id)
        before = '' if not ahead else ' and the run before it' if ahead == 1 else f' and {ahead} runs before it'
        return f'Waits for "{names[0]}"{before} to end' if names else 'Starts in a moment'

    def _claim_slot(self) -> tuple[str, int] | None:
        """Take a free place on this machine for the run whose turn it is; return its id and the number of the place."""
        try:
            with self._database.write() as session:
                row = next(iter(_waiting(session)), None)
                taken = {slot.name for slot in session.exec(select(SlotTable)).all()}
                free = [number for number in range(self._settings.runs_at_once) if _slot(number) not in taken]
                if row is None or not free or len(taken) >= self._settings.runs_at_once:
                    return None
                session.add(SlotTable(name=_slot(free[0]), run_id=row.id, taken_at=datetime.now(UTC)))
                row.state, row.started_at, row.reason = 'preparing', datetime.now(UTC), ''
        except IntegrityError:
            return None  # another process took the slot between our look and our claim
        return row.id, free[0]

    def _launch(self, id: str, place: int) -> None:
        try:
            claim = self._launcher.start(self.folder(id), gpu_share(place, self._settings.runs_at_once))
        except (RlvrError, OSError) as error:
            with self._database.write() as session:
                row = row_of(session, id)
                row.state, row.reason, row.ended_at = 'failed', str(error), datetime.now(UTC)
                release(session, id)
            raise
        with self._database.write() as session:
            row_of(session, id).pid = claim.pid


def release(session: Session, run_id: str) -> None:
    """Give the place of a run back, so that the next one can start."""
    for slot in session.exec(select(SlotTable).where(SlotTable.run_id == run_id)).all():
        session.delete(slot)


def next_place(session: Session) -> int:
    """The place behind every run that waits."""
    waiting = select(func.max(RunTable.place)).where(RunTable.state == 'queued')
    return (session.exec(waiting).one() or 0) + 1


def row_of(session: Session, id: str) -> RunTable:
    """The row of a run. Raises ``NotFound``."""
    row = session.get(RunTable, id)
    if row is None:
        raise NotFound(f'There is no run {id}', hint='It may have been deleted in another tab.')
    return row


def _waiting(session: Session) -> list[RunTable]:
    query = select(RunTable).where(RunTable.state == 'queued', col(RunTable.queued_at).is_not(None))
    return list(session.exec(query.order_by(col(RunTable.place), col(RunTable.queued_at))).all())


def _set_places(rows: Iterable[RunTable], ids: list[str]) -> None:
    order = {id: place for place, id in enumerate(ids)}
    for place, row in enumerate(sorted(rows, key=lambda row: order.get(row.id, len(order))), start=1):
        row.place = place


def _slot(number: int) -> str:
    return SLOT if number == 0 else f'{SLOT}-{number + 1}'
