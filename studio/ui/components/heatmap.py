"""Success by task and step as one inline SVG: a cell is a group, hatched where the checker broke, empty if not drawn.

The markup is built from numbers and escaped titles only. Where a run has more steps than columns fit, neighbouring
steps share a column and the newest group of the column is the one that opens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from statistics import fmean
from typing import Any, Final

from nicegui import ui

from trainer.validation import Document

MAX_COLUMNS: Final = 90
MIN_COLUMNS: Final = 40
MAX_ROWS: Final = 60
ROW: Final = 15.5
"""Height of a row in pixels, its gap included."""
CELL: Final = 13.0
LEVELS: Final = 7
"""Shades from success 0 to success 1."""


class HeatCell(Document):
    """One group: its mean reward (``None``: nothing was scored), how many attempts broke, and how many there were."""

    mean: float | None
    errors: int = 0
    n: int = 0


class HeatRow(Document):
    """One task with its groups by step."""

    task: str
    title: str
    cells: dict[int, HeatCell]

    @property
    def latest(self) -> HeatCell | None:
        """The newest group."""
        return self.cells[max(self.cells)] if self.cells else None


class Heatmap(ui.element):
    """The grid; ``on_open(step, task)`` is called for a click or Enter on a group."""

    def __init__(self, on_open: Callable[[int, str], Any]) -> None:
        super().__init__('div')
        self.classes('hm')
        self._on_open = on_open
        self._rows: list[HeatRow] = []
        self._order: dict[str, int] = {}
        self._columns = Columns((), 1)
        self._at: tuple[int, int] | None = None
        with self:
            with ui.element('div').classes('heat'):
                self._names = ui.html('', sanitize=False, tag='ul')
                with ui.element('div').classes('scr'):
                    with ui.element('div').classes('hm-svg').props('tabindex=0 role=application') as self._box:
                        self._svg = ui.html('', sanitize=False)
                        self._ring = ui.element('div').classes('hm-ring').style('display: none')
                    self._axis = ui.html('', sanitize=False).classes('hm-ax num').props('aria-hidden=true')
                self._latest = ui.html('', sanitize=False, tag='ul').classes('r')
            self._read = ui.label('').classes('hm-read').props('role=status')
        where = (
            '(e) => { const r = e.currentTarget.getBoundingClientRect();'
            ' emit([(e.clientX - r.left) / r.width, (e.clientY - r.top) / r.height]); }'
        )
        keys = '(e) => { if (!/^(Arrow|Enter)/.test(e.key)) return; e.preventDefault(); emit(e.key); }'
        self._box.on('click', lambda event: self._pick(*event.args, opens=True), js_handler=where)
        self._box.on('mousemove', lambda event: self._pick(*event.args), js_handler=where, throttle=0.1)
        self._box.on('keydown', lambda event: self._key(event.args), js_handler=keys)

    def show(self, rows: Sequence[HeatRow]) -> None:
        """Draw these rows. Their order is by latest success when first shown, then stays."""
        if not self._order:
            rows = sorted(rows, key=lambda row: -_success(row.latest))
        for row in rows:
            self._order.setdefault(row.task, len(self._order))
        self._rows = sorted(rows, key=lambda row: self._order[row.task])[:MAX_ROWS]
        self._columns = Columns.of(self._rows)
        self._names.set_content(names_html(self._rows))
        self._svg.set_content(svg(self._rows, self._columns))
        self._axis.set_content(axis_html(self._columns))
        self._latest.set_content(latest_html(self._rows))
        self._box.props(f'aria-label="{self._label()}"')

    def _label(self) -> str:
        steps = f'steps {self._columns.first} to {self._columns.last}'
        return f'Success by task and step: {len(self._rows)} tasks, {steps}. Arrow keys move, Enter opens.'

    def _pick(self, x: float, y: float, *, opens: bool = False) -> Any:
        row, column = int(y * len(self._rows)), int(x * self._columns.shown)
        if 0 <= row < len(self._rows) and 0 <= column < self._columns.shown:
            self._move(row, column)
            if opens:
                return self._open()
        return None

    def _key(self, key: str) -> Any:
        if key == 'Enter':
            return self._open()
        row, column = self._at or (0, self._columns.used - 1)
        if self._at is not None:
            down, right = {'ArrowDown': (1, 0), 'ArrowUp': (-1, 0), 'ArrowRight': (0, 1)}.get(key, (0, -1))
            row = min(max(row + down, 0), len(self._rows) - 1)
            column = min(max(column + right, 0), self._columns.used - 1)
        if self._rows and column >= 0:
            self._move(row, column)
        return None

    def _move(self, row: int, column: int) -> None:
        self._at = (row, column)
        found = self._columns.newest(self._rows[row], column)
        self._read.set_text(describe(self._rows[row], found))
        self._box.style(f'cursor: {"pointer" if found is not None else "default"}')
        self._ring.style(
            f'display: block; left: {column / self._columns.shown * 100:.3f}%; top: {row * ROW}px;'
            f' width: {86 / self._columns.shown:.3f}%; height: {CELL}px'
        )

    def _open(self) -> Any:
        """Open the chosen group; what ``on_open`` returns is handed on, for it may be asynchronous."""
        if self._at is None:
            return None
        row, column = self._at
        found = self._columns.newest(self._rows[row], column)
        return None if found is None else self._on_open(found, self._rows[row].task)


class Columns:
    """Which steps stand in which column: ``width`` steps each, from the first step on."""

    def __init__(self, steps: Sequence[int], width: int) -> None:
        self.first = steps[0] if steps else 0
        self.last = steps[-1] if steps else 0
        self.width = width
        self.used = (self.last - self.first) // width + 1 if steps else 0
        self.shown = max(MIN_COLUMNS, self.used)

    @classmethod
    def of(cls, rows: Sequence[HeatRow]) -> Columns:
        """Fit all steps of the rows into ``MAX_COLUMNS``."""
        steps = sorted({step for row in rows for step in row.cells})
        span = steps[-1] - steps[0] + 1 if steps else 1
        return cls(steps, -(-span // MAX_COLUMNS))

    def of_step(self, step: int) -> int:
        """The column of a step."""
        return (step - self.first) // self.width

    def steps(self, column: int) -> range:
        """The steps of a column."""
        start = self.first + column * self.width
        return range(start, start + self.width)

    def newest(self, row: HeatRow, column: int) -> int | None:
        """The newest drawn step of a row in a column."""
        return max((step for step in self.steps(column) if step in row.cells), default=None)


def describe(row: HeatRow, step: int | None) -> str:
    """Say a cell in words."""
    if step is None:
        return f'{row.title}: not drawn'
    cell = row.cells[step]
    score = 'nothing scored' if cell.mean is None else f'mean reward {cell.mean:.2f}'
    errors = f', {cell.errors} not scored' if cell.errors else ''
    return f'Step {step}: {row.title}, {score} of {cell.n} attempts{errors}'


def names_html(rows: Sequence[HeatRow]) -> str:
    """The titles at the left, escaped."""
    titles = [escape(row.title) for row in rows]
    return ''.join(f'<li><span class="ell" title="{title}">{title}</span></li>' for title in titles)


def latest_html(rows: Sequence[HeatRow]) -> str:
    """The newest value of every row."""
    return ''.join(f'<li class="num">{_latest(row.latest)}</li>' for row in rows)


def svg(rows: Sequence[HeatRow], columns: Columns) -> str:
    """The cells: one path for each shade and one for the groups in which nothing was scored."""
    pitch = 1000 / columns.shown
    width = pitch * 0.86
    shades: dict[str, list[str]] = {}
    for number, row in enumerate(rows):
        for column, cells in _by_column(row, columns).items():
            box = f'M{column * pitch:.1f} {number * ROW:g}h{width:.1f}v{CELL:g}h-{width:.1f}z'
            shades.setdefault(_shade(cells), []).append(box)
    paths = ''.join(f'<path class="{shade}" d="{"".join(boxes)}"/>' for shade, boxes in sorted(shades.items()))
    height = max(1.0, len(rows) * ROW)
    return (
        f'<svg viewBox="0 0 1000 {height:g}" width="100%" height="{height:g}" preserveAspectRatio="none" '
        f'aria-hidden="true">{HATCH}{paths}</svg>'
    )


def axis_html(columns: Columns) -> str:
    """Step numbers below the columns."""
    every = max(1, round(columns.shown / 30) * 5) * columns.width
    marks = []
    for column in range(columns.shown):
        step = columns.first + column * columns.width
        if column == 0 or step // every != (step - columns.width) // every:
            marks.append(f'<i style="left:{(column + 0.43) / columns.shown * 100:.2f}%">{step}</i>')
    return ''.join(marks)


HATCH: Final = (
    '<defs><pattern id="hm-hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="5" height="5" fill="var(--hatch-bg)"/><rect width="2" height="5" fill="var(--hatch)"/>'
    '</pattern></defs>'
)


def _by_column(row: HeatRow, columns: Columns) -> dict[int, list[HeatCell]]:
    found: dict[int, list[HeatCell]] = {}
    for step, cell in row.cells.items():
        found.setdefault(columns.of_step(step), []).append(cell)
    return found


def _shade(cells: Sequence[HeatCell]) -> str:
    means = [cell.mean for cell in cells if cell.mean is not None]
    if not means:
        return 'err'
    return f'l{min(LEVELS - 1, int(fmean(means) * LEVELS))}'


def _latest(cell: HeatCell | None) -> str:
    if cell is None:
        return ''
    return 'error' if cell.mean is None else f'{cell.mean:.2f}'


def _success(cell: HeatCell | None) -> float:
    return -1.0 if cell is None or cell.mean is None else cell.mean
