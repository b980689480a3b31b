"""Charts over the steps of a run: the history once and thinned, afterwards new points only; small bars as plain SVG.

Missing is a gap: a step without a value is never joined across and never drawn as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final, Literal, Self

import nicegui.elements.plotly  # noqa: F401  (registers the plotly module that live_chart.js imports)
from nicegui import ui
from pydantic import Field

from trainer.validation import Document

Column = tuple[Sequence[int], Sequence[float]]
"""Steps and values of one metric."""

Format = Literal['share', 'score', 'number', 'seconds', 'tiny']

LIMIT: Final = 1000
"""Points drawn of one series; twice as many, and the chart asks for its history again."""
MAX_BARS: Final = 300
"""Bars drawn beside each other; more steps are merged."""


class Series(Document):
    """One series of a chart. A ``band`` is mean ± spread: its key is ``mean key|spread key``."""

    key: str
    name: str
    color: str = 'c1'
    kind: Literal['line', 'band', 'bar'] = 'line'
    dash: Literal['solid', 'dash', 'dot'] = 'solid'
    format: Format = 'score'
    right: bool = Field(default=False, description='Belongs to the axis at the right.')


class Axis(Document):
    """A vertical axis. Without ``range`` it starts at 0 and grows; ``top`` is the least it shows.

    ``signed``: values may lie below 0.
    """

    tickformat: str = ''
    suffix: str = ''
    range: tuple[float, float] | None = None
    top: float | None = None
    dtick: float | None = None
    signed: bool = False


class ChartSpec(Document):
    """What a chart shows. ``leads``: this chart tells the page when the user zooms (one chart of a group)."""

    title: str
    series: tuple[Series, ...]
    y: Axis = Axis()
    right: Axis | None = None
    marks: bool = Field(default=False, description='Shows checkpoints as triangles.')
    leads: bool = False

    @property
    def bars(self) -> bool:
        """Whether the chart draws bars."""
        return any(series.kind == 'bar' for series in self.series)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics it needs."""
        return tuple(dict.fromkeys(name for series in self.series for name in series.key.split('|')))


class LiveChart(ui.element, component='live_chart.js'):
    """A chart that gets its history once and is then appended to. ``group`` ties charts of one page together."""

    def __init__(
        self,
        spec: ChartSpec,
        *,
        group: str,
        mode: Literal['follow', 'full'] | str = 'follow',
        on_view: Callable[[str, bool], Any] | None = None,
    ) -> None:
        """Draw an empty chart; ``on_view(mode, smooth)`` is told what the browser shows (``follow|full|free``).

        ``mode`` is what it begins with where the tab remembers nothing.
        """
        super().__init__()
        self.spec = spec
        self.figure: ui.element = self
        """The element that speaks for the chart: it carries ``role=img`` and a sentence."""
        self._props['spec'] = spec.model_dump(mode='json') | {'bars': spec.bars}
        self._props['group'] = group
        self._props['mode'] = mode
        self._last: dict[str, int] = {}
        self._spacing = 1.0
        self._count = 0
        self._merged = False
        self._waiting: list[tuple[str, tuple[Any, ...]]] = []
        self._ready = False
        self.on('ready', lambda event: self._on_ready(event.args, on_view))
        if on_view is not None:
            self.on('view', lambda event: on_view(event.args['mode'], event.args['smooth']))

    def load(self, columns: Mapping[str, Column]) -> None:
        """Draw this history instead of what is there. The zoom stays."""
        points = _points(self.spec, columns)
        shown = [steps for series in self.spec.series for steps, _ in [columns.get(series.key.split('|')[0], ((), ()))]]
        self._last = {s.key: steps[-1] for s, steps in zip(self.spec.series, shown, strict=True) if steps}
        # what comes next is as far apart as the newest steps, which are never thinned
        self._spacing = min((typical(steps[-20:]) for steps in shown if len(steps) > 1), default=1.0)
        self._count = max((len(steps) for steps in shown), default=0)
        self._merged = self.spec.bars and any(steps[-1] - steps[0] >= MAX_BARS for steps in shown if steps)
        self._send('load', points)

    def append(self, columns: Mapping[str, Column]) -> bool:
        """Draw new points. ``False``: too many are drawn, load the thinned history again.

        Steps that are drawn already are left out, so a step may be handed over twice.
        """
        columns = self._fresh(columns)
        fresh = max((len(columns[name][0]) for name in self.spec.metrics if name in columns), default=0)
        if not fresh:
            return True
        self._count += fresh
        if self._count > (MAX_BARS if self.spec.bars else 2 * LIMIT) or self._merged:
            return False
        points = _points(self.spec, columns, last=self._last, spacing=self._spacing)
        for series in self.spec.series:
            if points.get(series.key, {}).get('x'):
                self._last[series.key] = points[series.key]['x'][-1]
        self._send('append', points)
        return True

    def _fresh(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        fresh: dict[str, Column] = {}
        for series in self.spec.series:
            for name in series.key.split('|'):
                steps, values = columns.get(name, ((), ()))
                last = self._last.get(series.key, -1)
                kept = [(step, value) for step, value in zip(steps, values, strict=True) if step > last]
                if kept:
                    fresh[name] = ([step for step, _ in kept], [value for _, value in kept])
        return fresh

    def set_view(self, *, mode: str | None = None, smooth: bool | None = None) -> Self:
        """Change what all charts of the group show."""
        change: dict[str, Any] = {} if mode is None else {'mode': mode, 'range': None}
        if smooth is not None:
            change['smooth'] = smooth
        self._send('setView', change)
        return self

    def set_levels(self, levels: Sequence[tuple[float, str, str]]) -> None:
        """Draw dashed lines across, each ``(value, text, colour token)``."""
        self._send('setLevels', [{'y': value, 'text': text, 'color': color} for value, text, color in levels])

    def set_marks(self, steps: Sequence[int]) -> None:
        """Mark checkpoints."""
        self._send('setMarks', list(steps))

    def save_png(self, name: str) -> None:
        """Let the browser save the chart as a picture."""
        self._send('savePng', name)

    def _send(self, method: str, *args: Any) -> None:
        # what arrives before the browser has the chart library would be lost: it waits here
        if self._ready:
            self.run_method(method, *args)
        else:
            self._waiting.append((method, args))

    def _on_ready(self, view: Mapping[str, Any], on_view: Callable[[str, bool], Any] | None) -> None:
        self._ready = True
        waiting, self._waiting = self._waiting, []
        for method, args in waiting:
            self.run_method(method, *args)
        if on_view is not None:
            on_view(view['mode'], view['smooth'])


def typical(steps: Sequence[int]) -> float:
    """The usual distance between logged steps."""
    return median(after - before for before, after in pairwise(steps)) if len(steps) > 1 else 1.0


def with_gaps(
    column: Column, *, last: int | None = None, spacing: float | None = None
) -> tuple[list[float], list[float | None]]:
    """Steps and values with a ``None`` in every lost stretch; ``last`` is the step drawn before this column.

    A thinned column is uneven: it keeps two points of each stretch, so up to two stretches may lie between neighbours.
    """
    steps, values = column
    usual = spacing or typical(steps)
    even = len(steps) < 2 or usual <= min(after - before for before, after in pairwise(steps))
    limit = usual * 1.5 if even else 4.5 * (steps[-1] - steps[0]) / (len(steps) - 1)
    x: list[float] = []
    y: list[float | None] = []
    before = last
    for step, value in zip(steps, values, strict=True):
        if before is not None and step - before > limit:
            x.append((before + step) / 2)
            y.append(None)
        x.append(step)
        y.append(round(value, 6))
        before = step
    return x, y


def band(mean: Column, spread: Column) -> tuple[list[int], list[float], list[float]]:
    """Steps, lower and upper edge of mean ± spread; only where both are known (a thinned spread: the nearest)."""
    known = dict(zip(*spread, strict=True))
    near = sorted(known)
    steps: list[int] = []
    low: list[float] = []
    high: list[float] = []
    position = 0
    reach = typical(near) if len(near) > 2 else 0.0
    for step, value in zip(*mean, strict=True):
        while position + 1 < len(near) and abs(near[position + 1] - step) <= abs(near[position] - step):
            position += 1
        found = known.get(step)
        if found is None and near and reach > 1 and abs(near[position] - step) <= reach:
            found = known[near[position]]
        if found is not None:
            steps.append(step)
            low.append(max(0.0, value - found))
            high.append(min(1.0, value + found))
    return steps, low, high


def binned(column: Column, limit: int, *, total: bool = False) -> tuple[list[int], list[float], int]:
    """Merge neighbouring steps so that at most ``limit`` bars are left; return steps, means (or sums) and the width."""
    steps, values = column
    if not steps:
        return [], [], 1
    width = max(1, -(-(steps[-1] - steps[0] + 1) // limit))
    groups: dict[int, list[float]] = {}
    for step, value in zip(steps, values, strict=True):
        groups.setdefault((step - steps[0]) // width, []).append(value)
    starts = [steps[0] + number * width + (width - 1) // 2 for number in groups]
    return starts, [sum(group) / (1 if total else len(group)) for group in groups.values()], width


def _points(
    spec: ChartSpec,
    columns: Mapping[str, Column],
    *,
    last: Mapping[str, int] | None = None,
    spacing: float | None = None,
) -> dict[str, Any]:
    points: dict[str, Any] = {}
    before = last or {}
    for series in spec.series:
        names = series.key.split('|')
        if any(name not in columns for name in names):
            continue
        column = columns[names[0]]
        if series.kind == 'band':
            steps, low, high = band(column, columns[names[1]])
            x, hi = with_gaps((steps, high), last=before.get(series.key), spacing=spacing)
            _, lo = with_gaps((steps, low), last=before.get(series.key), spacing=spacing)
            points[series.key] = {'x': x, 'lo': lo, 'hi': hi}
        elif series.kind == 'bar':
            steps, values, width = (
                binned(column, MAX_BARS, total=series.format == 'number')
                if not last
                else (list(column[0]), list(column[1]), 1)
            )
            points[series.key] = {'x': steps, 'y': [round(value, 4) for value in values], 'width': 0.88 * width}
        else:
            x, y = with_gaps(column, last=before.get(series.key), spacing=spacing)
            points[series.key] = {'x': x, 'y': y}
    return points
