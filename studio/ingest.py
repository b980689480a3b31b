"""Reads what a trainer wrote into the store: from the stored byte offset on, whole lines only, each exactly once.

The offset moves in the transaction of the rows, so a studio that is killed, or a database that is locked for a while,
loses nothing and doubles nothing: the next pass reads from where the last one was committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import delete, insert
from sqlmodel import Session, col

from studio.runs import metric_blocks
from studio.store.database import Database
from studio.store.tables import EventTable, MetricTable, RolloutTable, RunTable
from trainer.events import (
    AnyEvent,
    Artifact,
    Evaluating,
    Heartbeat,
    Metrics,
    Notice,
    Progress,
    Redone,
    Resumed,
    RolloutEvent,
    State,
    as_json,
    read_events,
)
from trainer.runfolder import RunFolder

BATCH_BYTES: Final = 1024**2


def ingest(database: Database, run_id: str, folder: RunFolder) -> int:
    """Read all there is; return the number of events that were new. Raises ``Busy`` with nothing lost."""
    count = 0
    while read := _batch(database, run_id, folder):
        count += read
    return count


def _batch(database: Database, run_id: str, folder: RunFolder) -> int:
    with database.read() as session:
        row = session.get(RunTable, run_id)
        offset = row.offset if row else 0
    events, end = read_events(folder.events, offset, limit=BATCH_BYTES)
    if not events:
        return 0
    with database.write() as session:
        row = session.get(RunTable, run_id)
        if row is None or row.offset != offset:  # deleted, or read by somebody else meanwhile
            return 0
        numbered = _numbered(events, row.last_seq)
        for table, values in _rows(run_id, numbered).items():
            if values:
                session.execute(insert(table), values)
        _keep_blocks(session, run_id, numbered)
        for event in numbered:
            if isinstance(event, Resumed):
                metric_blocks.forget(session, run_id, event.step, event.seq, cold_start=event.stage == 'cold_start')
            if event.redone is not None:
                _take_back(session, run_id, event.redone, event.seq)
        for event in numbered:
            _note(row, event)
        row.offset = end
    return len(events)


def _numbered(events: Iterable[AnyEvent], last: int) -> list[AnyEvent]:
    """Events that are new, numbered; an unreadable line takes the number that follows, for numbers have no gaps."""
    kept = []
    for event in events:
        seq = event.seq or last + 1
        if seq > last:
            kept.append(event.model_copy(update={'seq': seq}))
            last = seq
    return kept


def _rows(run_id: str, events: Iterable[AnyEvent]) -> dict[type[Any], list[dict[str, Any]]]:
    """Rows by table."""
    rows: dict[type[Any], list[dict[str, Any]]] = {EventTable: [], MetricTable: [], RolloutTable: []}
    for event in events:
        key = {'run_id': run_id, 'seq': event.seq}
        match event:
            case Metrics():
                rows[MetricTable] += [
                    {**key, 'name': name, 'step': event.step, 'value': value} for name, value in event.values.items()
                ]
            case RolloutEvent():
                rows[RolloutTable].append(key | event.model_dump(exclude={'seq', 'time', 'type'}))
            case State() | Notice() | Artifact() | Progress() | Resumed() | Evaluating():
                rows[EventTable].append({**key, 'type': event.type, 'data': as_json(event)})
            case Heartbeat():
                pass
    return rows


def _keep_blocks(session: Session, run_id: str, events: Iterable[AnyEvent]) -> None:
    """Bring the stretches of the series up to date."""
    measured = [event for event in events if isinstance(event, Metrics) and event.values]
    if measured:
        names = sorted({name for event in measured for name in event.values})
        steps = [event.step for event in measured]
        metric_blocks.refresh(session, run_id, names, min(steps), max(steps))


def _take_back(session: Session, run_id: str, redone: Redone, seq: int) -> None:
    """Episodes that were written before the event of this number are superseded where they are played again."""
    superseded = delete(RolloutTable).where(
        col(RolloutTable.run_id) == run_id,
        col(RolloutTable.step) >= redone.first,
        col(RolloutTable.seq) < seq,
        col(RolloutTable.stage).in_(redone.stages),
    )
    if redone.last is not None:
        superseded = superseded.where(col(RolloutTable.step) <= redone.last)
    session.execute(superseded)


def _note(row: RunTable, event: AnyEvent) -> None:
    """Bring the run's own columns up to date."""
    row.last_seq = event.seq
    if event.time:
        row.last_event_at = datetime.fromtimestamp(event.time, UTC)
    if isinstance(event, Progress):
        row.step, row.total, row.eta_s = event.step, event.total, event.eta_s
    elif isinstance(event, Metrics):
        row.latest = {**(row.latest if event.step == row.latest_step else {}), **event.values}
        row.latest_step = event.step
    elif isinstance(event, Artifact) and event.kind == 'adapter':
        row.has_adapter = True
