"""The numbers of runs as files: CSV, JSON and TensorBoard events, made piece by piece: length costs no memory.

Each step is written once, as it was last: what a resumed run took back is not in the store. Missing is missing: an
empty cell, an absent point, never 0 or NaN.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from sqlmodel import col, func, select

from studio.errors import NotFound
from studio.runs import tensorboard_events
from studio.runs.results import Results
from studio.runs.service import Runs
from studio.runs.views import RunView
from studio.store.database import Database
from studio.store.tables import MetricTable
from trainer.errors import RunFolderError

Format = Literal['csv', 'json', 'tensorboard']
FORMATS: Final[tuple[Format, ...]] = ('csv', 'json', 'tensorboard')
MEDIA: Final = {'csv': 'text/csv; charset=utf-8', 'json': 'application/json', 'tensorboard': 'application/octet-stream'}
WINDOW: Final = 1000
"""Steps that are read at once."""
_STAMP: Final = re.compile(rb'\{"seq": ?(\d+), ?"time": ?(\d+(?:\.\d+)?)')
_FORMULA: Final = ('=', '+', '-', '@', '\t', '\r')

Row = tuple[int, dict[str, float], int]
"""A step, its values by name, and the number of the newest event they come from."""


@dataclass(frozen=True)
class File:
    """A file to be written: ``name`` is safe on every disk and in every header."""

    name: str
    media_type: str
    pieces: Iterator[bytes]


class RunExport:
    """Files of the runs of a store. Raises ``NotFound`` before the first piece."""

    def __init__(self, database: Database, runs: Runs, results: Results) -> None:
        self._database = database
        self._runs = runs
        self._results = results

    def file(self, run_id: str, format: Format) -> File:
        """The numbers of one run."""
        view = self._runs.get(run_id)
        if format == 'tensorboard':
            # TensorBoard knows its files by their names.
            name = f'events.out.tfevents.{int(view.created_at.timestamp())}.{view.id}'
            return File(name, MEDIA[format], self._tensorboard(view))
        pieces = self._csv((view,), compared=False) if format == 'csv' else self._json((view,), compared=False)
        return File(f'{_slug(view.name) or view.id}-metrics.{format}', MEDIA[format], pieces)

    def compared(self, run_ids: Sequence[str], format: Literal['csv', 'json']) -> File:
        """The numbers of several runs in one file: a row for each step of each run."""
        views = [self._runs.get(id) for id in dict.fromkeys(run_ids)]
        pieces = self._csv(views, compared=True) if format == 'csv' else self._json(views, compared=True)
        return File(f'compared-runs.{format}', MEDIA[format], pieces)

    def find(self, text: str) -> RunView:
        """The run of this id, or the only one of this name. Raises ``NotFound``."""
        named = self._runs.list().rows
        found = [view for view in named if text in (view.id, view.name)]
        if len(found) > 1:
            raise NotFound(f'{len(found)} runs are named "{text}"', hint='Name one by its id: rlvr runs list')
        return found[0] if found else self._runs.get(text)

    # ---------------------------------------------------------------- formats

    def _csv(self, views: Sequence[RunView], *, compared: bool) -> Iterator[bytes]:
        """A column for each series any of the runs has, sorted by name."""
        columns = {view.id: self._runs.metric_names(view.id) for view in views}
        names = sorted({name for known in columns.values() for name in known})
        first = ['run_id', 'run'] if compared else []
        text = io.StringIO()
        table = csv.writer(text, lineterminator='\n')
        table.writerow([*first, 'step', *map(_cell, names)])
        for view in views:
            lead = [view.id, _cell(view.name)] if compared else []
            for rows in self._windows(view.id, columns[view.id]):
                table.writerows(
                    [*lead, step, *(repr(values[name]) if name in values else '' for name in names)]
                    for step, values, _ in rows
                )
                yield _taken(text)
        yield _taken(text)

    def _json(self, views: Sequence[RunView], *, compared: bool) -> Iterator[bytes]:
        """Each run with its configuration, its summary and its series."""
        yield b'[' if compared else b''
        for number, view in enumerate(views):
            yield b',' if number else b''
            about = _dumped(self._about(view))
            yield about[:-1] + b',"series":{'
            for place, name in enumerate(self._runs.metric_names(view.id)):
                points = [(step, values[name]) for rows in self._windows(view.id, (name,)) for step, values, _ in rows]
                series = {'steps': [step for step, _ in points], 'values': [value for _, value in points]}
                yield (b',' if place else b'') + _dumped(name) + b':' + _dumped(series)
            yield b'}}'
        yield b']\n' if compared else b'\n'

    def _tensorboard(self, view: RunView) -> Iterator[bytes]:
        """An event for each step, at the time it was written."""
        began = view.created_at.timestamp()
        yield tensorboard_events.file_header(began)
        clock = _Clock(self._runs.folder(view.id).events, began)
        for rows in self._windows(view.id, self._runs.metric_names(view.id)):
            yield tensorboard_events.records([
                tensorboard_events.scalars(clock.at(seq), step, sorted(values.items())) for step, values, seq in rows
            ])  # fmt: skip
        clock.close()

    def _about(self, view: RunView) -> dict[str, Any]:
        same = {'id', 'name', 'model', 'training_type', 'state', 'reason', 'step', 'total'}
        times = {'created_at', 'started_at', 'ended_at', 'elapsed_s'}
        return {
            'run': view.model_dump(mode='json', include=same | times),
            'settings': view.settings,
            'summary': {'latest': view.latest, 'before': self._held_out(view, 'before')}
            | {'after': self._held_out(view, 'after')},
        }

    def _held_out(self, view: RunView, stage: Literal['before', 'after']) -> dict[str, Any] | None:
        try:
            found = self._results.evaluation(view.id, stage)
        except RunFolderError:
            return None  # A damaged file must not hide the rest of the run.
        return None if found is None else found.model_dump(mode='json')

    # ------------------------------------------------------------------- rows

    def _windows(self, run_id: str, names: Sequence[str]) -> Iterator[list[Row]]:
        """The steps of these series in ascending order, some at once; steps that nothing was measured at are not."""
        after = -1
        while names:
            with self._database.read() as session:
                # From name to name along the primary key: the rows between need not be read.
                query = select(func.min(MetricTable.step)).where(
                    MetricTable.run_id == run_id, col(MetricTable.step) > after
                )
                firsts = [session.exec(query.where(MetricTable.name == name)).one() for name in names]
                first = min((step for step in firsts if step is not None), default=None)
                if first is None:
                    return
                rows = session.exec(
                    select(MetricTable.step, MetricTable.seq, MetricTable.name, MetricTable.value)
                    .where(MetricTable.run_id == run_id, col(MetricTable.name).in_(names))
                    .where(col(MetricTable.step) >= first, col(MetricTable.step) < first + WINDOW)
                ).all()
            steps: dict[int, dict[str, float]] = {}
            newest: dict[int, int] = {}
            for step, seq, name, value in sorted(rows, key=lambda row: (row[0], row[1])):
                steps.setdefault(step, {})[name] = value
                newest[step] = seq
            yield [(step, values, newest[step]) for step, values in steps.items()]
            after = first + WINDOW - 1


class _Clock:
    """When events were written, read along with the rows: their numbers rise as the steps do."""

    def __init__(self, path: Path, began: float) -> None:
        self._file = path.open('rb') if path.is_file() else io.BytesIO()
        self._seq, self._time = 0, began

    def at(self, seq: int) -> float:
        """The time of an event; where the folder does not say, that of one before it."""
        while self._seq < seq and (line := self._file.readline()):
            if found := _STAMP.match(line):
                self._seq, self._time = int(found[1]), float(found[2]) or self._time
        return self._time

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


def _slug(name: str) -> str:
    """What of a name is safe in a file name on every system, and in a header."""
    return re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.')[:60]


def _cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _taken(text: io.StringIO) -> bytes:
    """What was written since the last time."""
    data = text.getvalue().encode('utf-8', 'replace')
    text.seek(0)
    text.truncate()
    return data


def _dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode('utf-8', 'replace')
