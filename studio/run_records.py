"""What runs wrote, read back for pages: series thinned to what a chart can show, heat map, episodes, events, log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import sqlalchemy
from pydantic import TypeAdapter
from sqlalchemy import Integer, cast, func
from sqlmodel import Session, col, select

from studio.document_views import NotFound
from studio.run_views import HeatCell, HeatRow, RolloutRow, RunTask, RunView, Series
from studio.store.database import Database
from studio.store.tables import EventTable, MetricTable, RolloutTable, RunTable, RunTaskTable
from trainer.errors import FieldError, RunFolderError
from trainer.events import FINAL_STATES, AnyEvent
from trainer.recording import Rollout
from trainer.runfolder import RunFolder
from trainer.task import TaskFile

_EVENT: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


class RunRecords:
    """The reading half of the run service."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder

    def folder_path(self, id: str) -> Path:
        """Where the run folder of an id is."""
        return self._folder / id

    def folder(self, id: str) -> RunFolder:
        """The run folder of an id."""
        return RunFolder(self.folder_path(id))

    def folder_bytes(self, id: str) -> int:
        """Bytes the run folder takes, to be said before it is deleted."""
        return sum(path.lstat().st_size for path in self.folder_path(id).rglob('*') if not path.is_dir())

    def metric_names(self, id: str) -> tuple[str, ...]:
        """Every series the run wrote, sorted."""
        with self._database.read() as session:
            query = select(MetricTable.name).where(MetricTable.run_id == id).distinct().order_by(MetricTable.name)
            return tuple(session.exec(query).all())

    def metrics(
        self, id: str, names: Iterable[str] | None = None, *, after_step: int = -1, buckets: int | None = None
    ) -> dict[str, Series]:
        """Series by name after a step; a name without values is not there. A step done twice counts as it was last.

        With ``buckets``, a longer series keeps the lowest and the highest point of each of so many stretches.
        """
        with self._database.read() as session:
            query = (
                select(MetricTable.name, MetricTable.step, MetricTable.value)
                .where(MetricTable.run_id == id, col(MetricTable.step) > after_step)
                .order_by(MetricTable.name, col(MetricTable.step), col(MetricTable.seq))
            )
            if names is not None:
                query = query.where(col(MetricTable.name).in_(tuple(names)))
            rows = session.exec(query).all()
        found = {}
        for name, points in groupby(rows, key=lambda row: row[0]):
            last = {step: value for _, step, value in points}
            found[name] = thinned(list(last), list(last.values()), buckets)
        return found

    def events(
        self, id: str, *, after_seq: int = 0, limit: int = 200, types: Iterable[str] | None = None
    ) -> list[AnyEvent]:
        """State, notice, artifact and progress events after a number, oldest first."""
        with self._database.read() as session:
            query = select(EventTable.data).where(EventTable.run_id == id, col(EventTable.seq) > after_seq)
            if types is not None:
                query = query.where(col(EventTable.type).in_(tuple(types)))
            rows = session.exec(query.order_by(col(EventTable.seq)).limit(limit)).all()
        return [_EVENT.validate_python(data) for data in rows]

    def tasks(self, id: str) -> tuple[RunTask, ...]:
        """The frozen tasks, training first."""
        with self._database.read() as session:
            rows = session.exec(
                select(RunTaskTable)
                .where(RunTaskTable.run_id == id)
                .order_by(col(RunTaskTable.role).desc(), col(RunTaskTable.position))
            ).all()
        return tuple(
            RunTask.model_validate(row.model_dump(include={'title', 'version', 'hash', 'role'}) | {'id': row.task_id})
            for row in rows
        )

    def task(self, id: str, task: str) -> TaskFile:
        """A task as it was when the run was made."""
        folder = self.folder(id)
        for frozen in (*folder.tasks(), *folder.held_out_tasks()):
            if frozen.id == task:
                return frozen
        raise NotFound(f'The run has no task {task}')

    def heatmap(self, id: str, *, stage: str = 'train') -> list[HeatRow]:
        """Success by task and step, tasks in the order of the manifest."""
        with self._database.read() as session:
            titles = self._titles(session, id)
            task, step, reward = col(RolloutTable.task), col(RolloutTable.step), col(RolloutTable.reward)
            errors = func.sum(cast(col(RolloutTable.outcome) == 'error', Integer))
            rows = session.execute(
                sqlalchemy.select(task, step, func.avg(reward), func.count(), errors)
                .where(col(RolloutTable.run_id) == id, col(RolloutTable.stage) == stage)
                .group_by(task, step)
                .order_by(task, step)
            ).all()
        by_task = {task: tuple(_cell(*cell) for _, *cell in cells) for task, cells in groupby(rows, lambda row: row[0])}
        order = {task: position for position, task in enumerate(titles)}
        return [
            HeatRow(task=task, title=titles.get(task, task), cells=by_task[task])
            for task in sorted(by_task, key=lambda task: order.get(task, len(order)))
        ]

    def rollouts(
        self,
        id: str,
        *,
        step: int | None = None,
        task: str | None = None,
        stage: str | None = None,
        outcome: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[RolloutRow]:
        """Finished episodes that fit, newest step first."""
        with self._database.read() as session:
            where = self._rollouts_where(id, step, task, stage, outcome)
            rows = session.exec(
                select(RolloutTable)
                .where(*where)
                .order_by(
                    col(RolloutTable.step).desc(),
                    col(RolloutTable.group),
                    col(RolloutTable.index),
                    col(RolloutTable.seq),
                )
                .limit(limit)
                .offset(offset)
            ).all()
            return self._rollout_rows(session, id, rows)

    def rollout_count(
        self,
        id: str,
        *,
        step: int | None = None,
        task: str | None = None,
        stage: str | None = None,
        outcome: str | None = None,
    ) -> int:
        """How many episodes fit."""
        with self._database.read() as session:
            where = self._rollouts_where(id, step, task, stage, outcome)
            return session.exec(select(func.count()).select_from(RolloutTable).where(*where)).one()

    def group(self, id: str, step: int, task: str, *, stage: str = 'train') -> list[RolloutRow]:
        """The attempts of a task at a step."""
        return self.rollouts(id, step=step, task=task, stage=stage, limit=1000)

    def rollout(self, id: str, row_id: int) -> Rollout:
        """The record of an episode. Raises ``NotFound``, ``RunFolderError``."""
        with self._database.read() as session:
            row = session.get(RolloutTable, (id, row_id))
        if row is None:
            raise NotFound(f'There is no rollout {row_id} in this run')
        try:
            return Rollout.model_validate(self.folder(id).rollout(row.offset))
        except ValueError as error:
            raise RunFolderError(f'The record of rollout {row_id} cannot be read: {error}') from None

    def log_tail(self, id: str, lines: int = 200) -> list[str]:
        """The last lines of the trainer's log."""
        return self.folder(id).log_tail(lines)

    def view(self, row: RunTable) -> RunView:
        """The view of a row."""
        now = datetime.now(UTC)
        final = row.state in FINAL_STATES
        heard = max(filter(None, (row.last_event_at, row.started_at)), default=None)
        return RunView(
            **row.model_dump(include=_SAME),
            notes=tuple(FieldError.model_validate(note) for note in row.notes),
            elapsed_s=((row.ended_at or now) - row.started_at).total_seconds() if row.started_at else None,
            stopping=row.stop_requested_at is not None and not final,
            silent_s=max(0.0, (now - heard).total_seconds()) if heard and not final else None,
        )

    def _titles(self, session: Session, id: str) -> dict[str, str]:
        rows = session.exec(
            select(RunTaskTable.task_id, RunTaskTable.title)
            .where(RunTaskTable.run_id == id)
            .order_by(col(RunTaskTable.role).desc(), col(RunTaskTable.position))
        ).all()
        return dict(rows)

    def _rollouts_where(
        self, id: str, step: int | None, task: str | None, stage: str | None, outcome: str | None
    ) -> list[Any]:
        wanted = {'run_id': id, 'step': step, 'task': task, 'stage': stage, 'outcome': outcome}
        return [getattr(RolloutTable, name) == value for name, value in wanted.items() if value is not None]

    def _rollout_rows(self, session: Session, id: str, rows: Sequence[RolloutTable]) -> list[RolloutRow]:
        titles = self._titles(session, id)
        return [
            RolloutRow.model_validate(
                row.model_dump(exclude={'run_id', 'seq', 'offset'})
                | {'id': row.seq, 'title': titles.get(row.task, row.task)}
            )
            for row in rows
        ]


_SAME = {
    'id', 'name', 'model', 'training_type', 'settings', 'state', 'reason', 'step', 'total', 'eta_s', 'created_at',
    'queued_at', 'started_at', 'ended_at', 'task_count', 'latest', 'has_adapter', 'pid',
}  # fmt: skip


def thinned(steps: list[int], values: list[float], buckets: int | None) -> Series:
    """Keep first, last, and the lowest and highest point of each stretch: a spike stays visible."""
    if not buckets or len(steps) <= 2 * buckets:
        return steps, values
    kept = {0, len(steps) - 1}
    for bucket in range(buckets):
        stretch = range(bucket * len(steps) // buckets, (bucket + 1) * len(steps) // buckets)
        kept |= {min(stretch, key=values.__getitem__), max(stretch, key=values.__getitem__)}
    order = sorted(kept)
    return [steps[index] for index in order], [values[index] for index in order]


def _cell(step: int, mean: float | None, n: int, errors: int) -> HeatCell:
    return HeatCell(step=step, mean=mean, n=n, errors=errors)
