"""Charts over the steps of a run: the history once and thinned, afterwards new points only.

Missing is a gap: a step without a value is never joined across and never drawn as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Self

import nicegui.elements.plotly  # noqa: F401  (registers the plotly module that live_chart.js imports)
from nicegui import ui
from pydantic import Field

from studio.runs.series import Column, Line, measured, typical, with_gaps
from studio.runs.views import Bars
from trainer.validation import Document

Format = Literal['share', 'score', 'number', 'seconds', 'tiny']

LIMIT: Final = 2000
"""More points than this, and the chart asks for its history again, thinned."""
MAX_BARS: Final = 700
"""The same for bars."""


class Series(Document):
    """One series of a chart. A ``band`` is mean ± spread: its key is ``mean key|spread key``.

    ``sums``: bars that stand for many steps hold their sum, not their mean.
    """

    key: str
    name: str
    color: str = 'c1'
    kind: Literal['line', 'band', 'bar', 'points'] = 'line'
    dash: Literal['solid', 'dash', 'dot', 'dashdot', 'longdash', 'longdashdot'] = 'solid'
    label: str = Field(default='', description='Stands at the end of the line.')
    format: Format = 'score'
    sums: bool = False
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
    """What a chart shows. ``leads``: this chart tells the page when the user zooms (one chart of a group).

    ``headline``: the number beside the title is the newest value, the sum of all, or the newest stack of bars.
    """

    title: str
    series: tuple[Series, ...]
    y: Axis = Axis()
    right: Axis | None = None
    marks: bool = Field(default=False, description='Shows checkpoints as triangles.')
    leads: bool = False
    overlay: bool = Field(default=False, description='Series of several runs: none of them speaks for all.')
    headline: Literal['last', 'sum', 'stack'] = 'last'
    change: Literal['', 'plain', 'good'] = Field(default='', description='Shows the change; ``good``: up is good.')

    @property
    def bars(self) -> bool:
        """Whether the chart draws bars."""
        return any(series.kind == 'bar' for series in self.series)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics it needs."""
        return tuple(dict.fromkeys(name for series in self.series for name in series.key.split('|')))


class LiveChart(ui.element, component='live_chart.js'):
    """A chart that gets its history once and is then appended to. ``group`` ties charts of one page together.

    It stands in a card of class ``ch`` and keeps what it finds there up to date: ``data-value``, ``data-change``,
    ``data-figure`` (its sentence for screen readers), ``data-none``, and buttons with ``data-series`` that hide one.
    """

    def __init__(
        self,
        spec: ChartSpec,
        *,
        group: str,
        mode: Literal['follow', 'full'] | str = 'follow',
        on_view: Callable[[View], Any] | None = None,
    ) -> None:
        """Draw an empty chart; ``on_view`` is told what the browser shows, at the start and after each change.

        ``mode`` is what it begins with where the tab remembers nothing.
        """
        super().__init__()
        self.spec = spec
        self._props['spec'] = spec.model_dump(mode='json') | {'bars': spec.bars}
        self._props['group'] = group
        self._props['mode'] = mode
        self._last: dict[str, float] = {}
        self._spacing: dict[str, float] = {}
        self._drawn = 0.0
        self._width = 1
        self._waiting: list[tuple[str, tuple[Any, ...]]] = []
        self._ready = False
        self.on('ready', lambda event: self._on_ready(View.model_validate(event.args), on_view))
        if on_view is not None:
            self.on('view', lambda event: on_view(View.model_validate(event.args)))

    def load(self, lines: Mapping[str, Line], bars: Bars | None = None) -> None:
        """Draw this history instead of what is there. The zoom stays."""
        bars = bars or Bars(1, {})
        points: dict[str, Any] = {}
        self._last, self._spacing, self._width = {}, {}, bars.width
        for series in self.spec.series:
            name = series.key.split('|')[0]
            if series.kind == 'bar':
                if column := bars.columns.get(name):
                    self._last[series.key] = (column.numbers[-1] + 1) * bars.width - 1 if column.numbers else -1
                    values = [_short(value) for value in column.values]
                    points[series.key] = {'bins': column.numbers, 'y': values, 'n': column.counts, 'width': bars.width}
            elif name in lines:
                points[series.key] = _band(series, lines) if series.kind == 'band' else _line(lines[name])
                steps = measured(lines[name])[0]
                self._last[series.key] = steps[-1] if steps else -1
                self._spacing[series.key] = typical(steps[-20:])
        self._drawn = max((len(one.get('x', one.get('bins', ()))) for one in points.values()), default=0)
        self._send('load', points)

    def fresh(self, columns: Mapping[str, Column], shared: Sequence[int] = ()) -> list[Any] | None:
        """What ``columns`` add, one entry a series, for the browser; ``None``: nothing.

        Steps that are drawn already are left out, so a step may be handed over twice. A series whose steps are
        ``shared`` does not repeat them.
        """
        found = [self._fresh(series, columns, shared) for series in self.spec.series]
        return found if any(found) else None

    @property
    def last(self) -> float:
        """The newest step that is drawn; -1 where there is none."""
        return max(self._last.values(), default=-1)

    @property
    def is_full(self) -> bool:
        """Whether too many points are drawn: the history should be loaded again."""
        return self._drawn > (MAX_BARS if self.spec.bars else LIMIT)

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

    def toggle(self, key: str) -> None:
        """Hide a series, or show it again."""
        self._send('toggle', key)

    def save_png(self, name: str) -> None:
        """Let the browser save the chart as a picture."""
        self._send('savePng', name)

    def spread(self, added: Mapping[int, list[Any]], shared: Sequence[int]) -> None:
        """Hand what is new to every chart of the group, in one message; keys are element numbers."""
        self._send('spread', {'x': list(shared), 'c': dict(added)})

    def _fresh(self, series: Series, columns: Mapping[str, Column], shared: Sequence[int]) -> dict[str, Any] | None:
        last = self._last.get(series.key, -1.0)
        names = series.key.split('|')
        known = [{s: v for s, v in zip(*columns.get(name, ((), ())), strict=True) if s > last} for name in names]
        steps = [step for step in known[0] if all(step in other for other in known[1:])]
        if not steps:
            return None
        self._drawn += len(steps) / (self._width if series.kind == 'bar' else 1) / len(self.spec.series)
        self._last[series.key] = steps[-1]
        if series.kind == 'bar':
            return _addition(steps, shared, y=[_short(known[0][step]) for step in steps])
        values = [known[0][step] for step in steps]
        x, y = with_gaps((steps, values), last=None if last < 0 else last, spacing=self._spacing.get(series.key))
        if series.kind != 'band':
            return _addition(x, shared, y=[_short(value) for value in y])
        spread = known[1]
        edges = [(None, None) if v is None else _edges(v, spread[int(s)]) for s, v in zip(x, y, strict=True)]
        return _addition(x, shared, lo=[low for low, _ in edges], hi=[high for _, high in edges])

    def _send(self, method: str, *args: Any) -> None:
        # what arrives before the browser has drawn the element would be lost: it waits here
        if self._ready:
            self.run_method(method, *args)
        else:
            self._waiting.append((method, args))

    def _on_ready(self, view: View, on_view: Callable[[View], Any] | None) -> Any:
        self._ready = True
        waiting, self._waiting = self._waiting, []
        for method, args in waiting:
            self.run_method(method, *args)
        # What it returns is handed on, for it may be asynchronous.
        return None if on_view is None else on_view(view)


class View(Document):
    """What a browser shows of a group of charts: newest steps, all, or a ``range`` the user picked (``free``)."""

    mode: str
    smooth: bool
    range: tuple[float, float] | None = None


def append_all(charts: Sequence[LiveChart], columns: Mapping[str, Column]) -> bool:
    """Add new points to every chart in one message. ``False``: too many are drawn, load the history again."""
    longest = max((steps for steps, _ in columns.values()), key=len, default=())
    shared = [step for step in longest if step > charts[0].last]
    added = {chart.id: fresh for chart in charts if (fresh := chart.fresh(columns, shared)) is not None}
    if added:
        charts[0].spread(added, shared)
    return not any(chart.is_full for chart in charts)


def band(mean: Line, spread: Line) -> tuple[list[float], list[float | None], list[float | None]]:
    """Steps, lower and upper edge of mean ± spread, cut to 0 to 1; where the spread was thinned, the nearest counts."""
    near, values = measured(spread)
    known = dict(zip(near, values, strict=True))
    reach = typical(near) if len(near) > 2 else 0.0
    x: list[float] = []
    low: list[float | None] = []
    high: list[float | None] = []
    position = 0
    for step, value in zip(*mean, strict=True):
        while position + 1 < len(near) and abs(near[position + 1] - step) <= abs(near[position] - step):
            position += 1
        found = known.get(step)
        if found is None and near and reach > 1 and abs(near[position] - step) <= 2 * reach:
            found = values[position]
        if value is not None and found is None:
            continue
        edges = (None, None) if value is None or found is None else _edges(value, found)
        x.append(step)
        low.append(edges[0])
        high.append(edges[1])
    return x, low, high


def _band(series: Series, lines: Mapping[str, Line]) -> dict[str, Any]:
    mean, spread = series.key.split('|')
    x, low, high = band(lines[mean], lines.get(spread, ([], [])))
    return {'x': x, 'lo': low, 'hi': high}


def _line(line: Line) -> dict[str, Any]:
    return {'x': line[0], 'y': [_short(value) for value in line[1]]}


def _edges(mean: float, spread: float) -> tuple[float | None, float | None]:
    return _short(max(0.0, mean - spread)), _short(min(1.0, mean + spread))


def _addition(x: Sequence[float], shared: Sequence[int], **columns: Any) -> dict[str, Any]:
    return columns if list(x) == list(shared) else {'x': list(x), **columns}


def _short(value: float | None) -> float | None:
    """Four digits are more than a screen shows."""
    if value is None:
        return None
    short = float(f'{value:.4g}')
    return int(short) if short.is_integer() else short
