"""What runs wrote, read back for pages: series thinned to what a chart can show, heat map, episodes, events, log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import sqlalchemy
from sqlalchemy import Integer, cast, func
from sqlmodel import Session, col, select

from studio.errors import NotFound
from studio.runs import metric_blocks
from studio.runs.heat_grid import Cell, HeatGrid, Row
from studio.runs.series import Line, between, joined, thinned, typical, with_gaps
from studio.runs.views import BarColumn, Bars, HeatCell, HeatRow, RolloutRow, RunTask, RunView, Series
from studio.store.database import Database
from studio.store.tables import EventTable, MetricTable, RolloutTable, RunTable, RunTaskTable
from trainer.errors import FieldError, RunFolderError
from trainer.events import FINAL_STATES, AnyEvent, as_event
from trainer.recording import Rollout
from trainer.runfolder import RunFolder
from trainer.task import TaskFile

NEWEST_STEPS: Final = 64
"""The newest steps of a series are never thinned: health is read from them, and Follow shows them."""
MAX_BARS: Final = 300
"""Bars drawn beside each other; more steps are merged."""


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
            names: list[str] = []
            # From name to name along the primary key: millions of rows need not be read for a few names.
            query = select(func.min(MetricTable.name)).where(MetricTable.run_id == id)
            while name := session.exec(query.where(MetricTable.name > (names[-1] if names else ''))).one():
                names.append(name)
            return tuple(names)

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
        found: dict[str, Series] = {}
        for name, points in groupby(rows, key=lambda row: row[0]):
            last = {step: value for _, step, value in points}
            x, y = thinned((list(last), list(last.values())), buckets)
            found[name] = ([int(step) for step in x], [value for value in y if value is not None])
        return found

    def lines(
        self, id: str, names: Iterable[str], *, first: int = 0, last: int | None = None, buckets: int = 400
    ) -> dict[str, Line]:
        """Series as a chart draws them: lost stretches are gaps, and spikes survive however long the run is.

        The newest steps come point by point. Reads few rows whatever the length: see ``metric_blocks``.
        """
        names = tuple(names)
        with self._database.read() as session:
            end = self._latest_step(session, id) if last is None else last
            width = metric_blocks.width_for(first, end)
            fresh = first if width == 1 else end + 1 - NEWEST_STEPS
            found = metric_blocks.points(session, id, names, fresh, end)
            coarse = {} if width == 1 else metric_blocks.blocks(session, id, names, width, first, end)
        lines = {}
        for name in dict.fromkeys((*coarse, *found)):
            newest = with_gaps((list(found.get(name, {})), list(found.get(name, {}).values())))
            older = between(_line(coarse.get(name, []), width), first, fresh - 1)
            whole = joined(thinned(older, buckets), newest, reach=2.5 * width) if older[0] else newest
            lines[name] = whole if width > 1 else thinned(whole, buckets)
        return lines

    def bars(
        self, id: str, totals: Iterable[str], means: Iterable[str], *, first: int = 0, last: int | None = None
    ) -> Bars:
        """Series as bars, neighbouring steps merged into sums (``totals``) or ``means`` where there are many."""
        totals, names = set(totals), (*totals, *means)
        with self._database.read() as session:
            end = self._latest_step(session, id) if last is None else last
            read = metric_blocks.width_for(first, end)
            if read == 1:
                found = metric_blocks.points(session, id, names, first, end)
                parts = {name: [(step, value, 1) for step, value in known.items()] for name, known in found.items()}
            else:
                wide = metric_blocks.blocks(session, id, names, read, first, end)
                parts = {name: [(b.number * read, b.total, b.n) for b in known] for name, known in wide.items()}
        width = -(-(end - first + 1) // MAX_BARS)
        width = -(-width // read) * read
        return Bars(width, {name: merged_bars(known, width, sums=name in totals) for name, known in parts.items()})

    def events(
        self,
        id: str,
        *,
        after_seq: int = 0,
        limit: int = 200,
        types: Iterable[str] | None = None,
        newest: bool = False,
    ) -> list[AnyEvent]:
        """All events but numbers, episodes and signs of life, after a number, oldest first.

        Where there are more than ``limit``, the oldest of them; with ``newest``, the newest.
        """
        seq = col(EventTable.seq)
        with self._database.read() as session:
            query = select(EventTable.data).where(EventTable.run_id == id, seq > after_seq)
            if types is not None:
                query = query.where(col(EventTable.type).in_(tuple(types)))
            rows = session.exec(query.order_by(seq.desc() if newest else seq).limit(limit)).all()
        return [as_event(data) for data in (reversed(rows) if newest else rows)]

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

    def heat_grid(self, id: str) -> HeatGrid:
        """An empty grid of the run, to be filled by ``update_heat``."""
        with self._database.read() as session:
            return HeatGrid(self._titles(session, id))

    def update_heat(self, id: str, grid: HeatGrid, *, stage: str = 'train') -> bool:
        """Count in what was written since the last time; return whether there was anything."""
        task, step, reward = col(RolloutTable.task), col(RolloutTable.step), col(RolloutTable.reward)
        errors = func.sum(cast(col(RolloutTable.outcome) == 'error', Integer))
        sums = (func.coalesce(func.sum(reward), 0.0), func.count(reward), func.count(), errors)
        with self._database.read() as session:
            rows = session.execute(
                sqlalchemy.select(task, step, *sums, func.max(RolloutTable.seq))
                .where(col(RolloutTable.run_id) == id, col(RolloutTable.seq) > grid.last_seq)
                .where(col(RolloutTable.stage) == stage)
                .group_by(task, step)
            ).all()
        grid.add([Row(row[0], row[1], Cell(*row[2:6])) for row in rows])
        grid.last_seq = max((row[6] for row in rows), default=grid.last_seq)
        return bool(rows)

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

    def log_path(self, id: str) -> Path:
        """Where the trainer's log is. Raises ``NotFound`` where there is no such run, or nothing was written."""
        with self._database.read() as session:
            row = session.get(RunTable, id)
        path = self.folder(id).log
        if row is None or not path.is_file():
            raise NotFound('This run has no log')
        return path

    def titles(self, id: str) -> dict[str, str]:
        """Titles of the frozen tasks by task id."""
        with self._database.read() as session:
            return self._titles(session, id)

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
            elapsed_s=_elapsed(row, now),
            stopping=row.stop_requested_at is not None and not final,
            silent_s=max(0.0, (now - heard).total_seconds()) if heard and not final else None,
        )

    def _latest_step(self, session: Session, id: str) -> int:
        row = session.get(RunTable, id)
        return max(row.latest_step, row.step, 0) if row else 0

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


def _elapsed(row: RunTable, now: datetime) -> float | None:
    """Seconds a run worked, over all its goes; ``None`` where it never did."""
    if row.started_at is None:
        return row.worked_s or None
    return row.worked_s + ((row.ended_at or now) - row.started_at).total_seconds()


def merged_bars(parts: Iterable[tuple[int, float, int]], width: int, *, sums: bool) -> BarColumn:
    """Merge steps with their sum and count into bars of ``width`` steps; ``numbers`` are first steps over width."""
    bars: dict[int, tuple[float, int]] = {}
    for step, total, count in parts:
        before = bars.get(step // width, (0.0, 0))
        bars[step // width] = (before[0] + total, before[1] + count)
    values = [total if sums else total / count for total, count in bars.values()]
    return BarColumn(list(bars), values, [count for _, count in bars.values()])


def _line(blocks: Sequence[metric_blocks.Block], width: int) -> Line:
    """The lowest and the highest point of each stretch, in their order."""
    usual = typical([block.number for block in blocks])
    x: list[float] = []
    y: list[float | None] = []
    before: int | None = None
    for block in blocks:
        if before is not None and block.number - before > 1.5 * usual:
            x.append((before + 1 + block.number) / 2 * width)
            y.append(None)
        for step, value in sorted({(block.low_step, block.low), (block.high_step, block.high)}):
            x.append(step)
            y.append(value)
        before = block.number
    return x, y


def _cell(step: int, mean: float | None, n: int, errors: int) -> HeatCell:
    return HeatCell(step=step, mean=mean, n=n, errors=errors)
