"""What the run page reads at each tick, off the event loop: only what is new since the last one."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from studio.runs.health import Series as HealthSeries
from studio.runs.heat_grid import HeatGrid, HeatView
from studio.runs.meters import Machine
from studio.runs.metric_blocks import RAW_STEPS
from studio.runs.results import EvaluationView
from studio.runs.series import Line, between, joined, measured
from studio.runs.views import Bars, RunView, Series
from studio.ui.components.charts import View
from studio.ui.pages.run_series import LINES, NAMES, PHASES, TOTALS
from trainer.config import resolve
from trainer.errors import ConfigError, RunFolderError
from trainer.events import AnyEvent, Artifact, Resumed

if TYPE_CHECKING:
    from studio.services import Studio

BUCKETS: Final = 300
"""Stretches of a long series of which the lowest and the highest point are drawn."""
TAIL_BYTES: Final = 64 * 1024
MAX_EVENTS: Final = 200
HEAT_S: Final = 2.5
"""How often the heatmap looks for new groups."""
SHOWN: Final = ('state', 'notice', 'artifact', 'resumed')


@dataclass
class Reading:
    """One look at a run. ``lines`` and ``bars`` are its history, ``columns`` an addition to it.

    ``recent``: the newest group means of each task, read with ``heat``.
    """

    view: RunView
    lines: dict[str, Line] | None
    bars: Bars | None
    columns: dict[str, Series]
    events: list[AnyEvent]
    checkpoints: list[int]
    heat: HeatView | None
    recent: dict[str, list[float | None]]
    rollouts: int
    log: str
    before: EvaluationView | None
    after: EvaluationView | None
    machine: Machine | None

    @property
    def quiet(self) -> bool:
        """Whether there is nothing more to come."""
        return self.view.is_final and not self.log and not self.events


@dataclass
class Known:
    """The values health is read from: of each series the first few and the newest, however long the run is."""

    series: dict[str, HealthSeries] = field(default_factory=dict)

    def load(self, lines: dict[str, Line]) -> None:
        """Begin anew with a history."""
        self.series = {}
        for name, line in lines.items():
            steps, values = measured(line)
            self._put(name, list(map(int, steps)), values)

    def extend(self, columns: dict[str, Series]) -> None:
        """Add steps; those that are known already are left out."""
        for name, (steps, values) in columns.items():
            known_steps, known_values = self.series.get(name, ([], []))
            last = known_steps[-1] if known_steps else -1
            fresh = [(step, value) for step, value in zip(steps, values, strict=True) if step > last]
            self._put(
                name, [*known_steps, *(step for step, _ in fresh)], [*known_values, *(value for _, value in fresh)]
            )

    def _put(self, name: str, steps: Sequence[int], values: Sequence[float]) -> None:
        if len(steps) > 600:
            steps, values = [*steps[:20], *steps[-280:]], [*values[:20], *values[-280:]]
        self.series[name] = (steps, values)


@dataclass
class Reader:
    """Remembers what was read. ``reload`` asks for the whole history at the next look.

    ``others``: series that have no chart of their own in ``run_series``. ``window``: the steps the user zoomed to.
    """

    studio: Studio
    run_id: str
    others: tuple[str, ...] = ()
    reload: bool = True
    window: tuple[int, int] | None = None
    heat_page: int = 0
    heat_search: str = ''
    last_step: int = -1
    last_seq: int = 0
    log_offset: int | None = None
    grid: HeatGrid | None = None
    grid_at: float = -math.inf

    def read(self) -> Reading:
        """Look at the run. Raises ``NotFound`` when it is gone."""
        runs = self.studio.runs
        view = runs.get(self.run_id)
        # The newest events alone may not reach back to the first checkpoints.
        artifacts = runs.events(self.run_id, types=('artifact',), limit=1000, newest=True) if not self.last_seq else []
        events = self._events()
        if any(isinstance(event, Resumed) for event in events):
            self.reload, self.grid = True, None  # what came after the checkpoint was taken back
        lines = bars = None
        columns: dict[str, Series] = {}
        if self.reload:
            self.reload = False
            lines, bars = self._history()
            self.last_step = max((int(line[0][-1]) for line in lines.values() if line[0]), default=-1)
        else:
            # A step's values may come in two events, so the newest step is asked for again; charts drop what they have.
            columns = runs.metrics(self.run_id, (*NAMES, *self.others), after_step=max(-1, self.last_step - 1))
            self.last_step = max((steps[-1] for steps, _ in columns.values()), default=self.last_step)
        heat = self._heat(final=view.is_final)
        return Reading(
            view=view,
            lines=lines,
            bars=bars,
            columns=columns,
            events=events,
            checkpoints=[step for event in (*artifacts, *events) if (step := _checkpoint(event)) is not None],
            heat=heat,
            recent=self.grid.recent(3) if heat is not None and self.grid is not None else {},
            rollouts=runs.rollout_count(self.run_id),
            log=self._log(runs.folder(self.run_id).log, final=view.is_final),
            before=self.studio.results.evaluation(self.run_id, 'before'),
            after=self.studio.results.evaluation(self.run_id, 'after'),
            machine=self.studio.meters.latest(self.run_id) if view.is_active else None,
        )

    def look_at(self, view: View) -> bool:
        """Take a range the user picked: a long run is read finer there. Return whether to read again at once."""
        window = None
        if view.mode == 'free' and view.range is not None:
            low, high = sorted(view.range)
            window = (max(0, math.floor(low)), max(1, math.ceil(high)))
        if window == self.window:
            return False
        self.window = window
        if 0 <= self.last_step <= RAW_STEPS:  # every point is drawn
            return False
        self.reload = True  # before anything is known too: the first look may be under way, without this window
        return True

    def page_heat(self, page: int, search: str | None = None) -> HeatView | None:
        """Another page of the heatmap, or other tasks."""
        self.heat_page = page
        if search is not None:
            self.heat_search = search
        return None if self.grid is None else self._heat_view()

    def _history(self) -> tuple[dict[str, Line], Bars]:
        runs, names = self.studio.runs, (*LINES, *self.others)
        window = self.window  # the browser may name another while this reads
        lines = runs.lines(self.run_id, names, buckets=BUCKETS)
        if window is None:
            return lines, runs.bars(self.run_id, TOTALS, PHASES)
        low, high = window
        finer = runs.lines(self.run_id, names, first=low, last=high, buckets=BUCKETS)
        for name, line in finer.items():
            whole = lines.get(name, ([], []))
            older, newer = between(whole, 0, low - 1), between(whole, high + 1, math.inf)
            lines[name] = joined(joined(older, line, reach=math.inf), newer, reach=math.inf)
        return lines, runs.bars(self.run_id, TOTALS, PHASES, first=low, last=high)

    def _heat(self, *, final: bool) -> HeatView | None:
        now = time.monotonic()
        if now - self.grid_at < HEAT_S and not final:
            return None
        self.grid_at = now
        first = self.grid is None
        if self.grid is None:
            self.grid = self.studio.runs.heat_grid(self.run_id)
        if not self.studio.runs.update_heat(self.run_id, self.grid) and not first:
            return None
        return self._heat_view()

    def _heat_view(self) -> HeatView:
        assert self.grid is not None
        view = self.grid.view(self.heat_page, self.heat_search)
        self.heat_page = view.page
        return view

    def _events(self) -> list[AnyEvent]:
        runs = self.studio.runs
        first = self.last_seq == 0
        events = runs.events(self.run_id, after_seq=self.last_seq, limit=MAX_EVENTS, types=SHOWN, newest=first)
        if events:
            self.last_seq = events[-1].seq
        return events

    def _log(self, path: Path, *, final: bool) -> str:
        """What was added to the log, in whole lines; at the first look its tail."""
        if not path.exists():
            return ''
        end = path.stat().st_size
        start = self.log_offset or 0
        cut = end - start > TAIL_BYTES
        if cut:
            start = end - TAIL_BYTES
        with path.open('rb') as file:
            file.seek(start)
            data = file.read(end - start)
        first = data.find(b'\n') + 1 if cut else 0
        last = len(data) if final else max(first, data.rfind(b'\n') + 1)
        self.log_offset = start + last
        lines = data[first:last].decode('utf-8', 'replace').split('\n')
        # A progress bar draws over itself: only what it drew last is a line.
        return '\n'.join(line.rstrip('\r').rpartition('\r')[2] for line in lines)


def token_limit(studio: Studio, view: RunView) -> int | None:
    """Tokens of an episode in this run, as its plan has them; ``None`` where the run folder does not say."""
    try:
        return resolve(studio.runs.folder(view.id).config(), max(1, view.task_count))[1].max_completion_length
    except (ConfigError, RunFolderError):  # made by another version, or by hand
        return None


def _checkpoint(event: AnyEvent) -> int | None:
    """The step of a checkpoint (``checkpoints/step-40``)."""
    if not isinstance(event, Artifact) or 'checkpoint' not in event.path:
        return None
    digits = event.path.rstrip('/').rpartition('-')[2]
    return int(digits) if digits.isdecimal() else None
