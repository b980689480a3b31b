"""Success by task and step of a run of any size: kept up to date by what is new, shown a page of tasks at a time.

A cell is the group of a task at a step. Where a run has more steps than columns fit, neighbouring steps share a column;
the newest group of the column is the one that opens.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from trainer.validation import Document

MAX_COLUMNS: Final = 100
ROWS: Final = 24
"""Tasks on a page."""
LEVELS: Final = 7
"""Shades from success 0 to success 1."""
NOT_DRAWN, ERROR, LOST = '.', 'e', '~'


class Cell(NamedTuple):
    """One group, or some: the sum of its rewards, how many were scored, attempts, and how many were errors."""

    total: float
    scored: int
    n: int
    errors: int

    def plus(self, other: Cell) -> Cell:
        """Both together."""
        return Cell(self.total + other.total, self.scored + other.scored, self.n + other.n, self.errors + other.errors)

    @property
    def mean(self) -> float | None:
        """Mean reward; ``None`` where nothing was scored."""
        return self.total / self.scored if self.scored else None


class Row(NamedTuple):
    """What is new of one task at one step."""

    task: str
    step: int
    cell: Cell


class HeatView(Document):
    """A page of the grid. ``cells``: a text for each task with a letter for each column.

    Letters: ``.`` not drawn, ``e`` nothing scored, ``0`` to ``6`` the mean, ``a`` to ``g`` the same with some errors,
    ``~`` a column in which nothing of any task was written.
    """

    tasks: tuple[str, ...]
    titles: tuple[str, ...]
    cells: tuple[str, ...]
    latest: tuple[str, ...]
    first: int
    last: int
    width: int
    used: int
    page: int
    pages: int
    found: int
    total: int


class HeatGrid:
    """All groups of a run. ``add`` may run in another thread than the readers; numbers only grow."""

    def __init__(self, titles: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._titles = dict(titles)
        self._cells: dict[str, dict[int, Cell]] = {}
        self._order: dict[str, int] = {}
        self._columns: set[int] = set()
        self.first, self.last = 0, -1
        self.last_seq = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Count new attempts in."""
        with self._lock:
            self._add(rows)

    def title(self, task: str) -> str:
        """The title of a task."""
        return self._titles.get(task, '') or task

    @property
    def width(self) -> int:
        """Steps in a column."""
        return max(1, -(-(self.last - self.first + 1) // MAX_COLUMNS))

    def view(self, page: int = 0, search: str = '') -> HeatView:
        """A page of the tasks whose titles have all these words."""
        with self._lock:
            return self._view(page, search)

    def newest(self, task: str, column: int) -> int | None:
        """The newest step of a task in a column that has a group."""
        start = self.first + column * self.width
        known = self._cells.get(task, {})
        return next((step for step in reversed(range(start, start + self.width)) if step in known), None)

    def describe(self, task: str, column: int) -> str:
        """Say a cell in words."""
        first, width = self.first, self.width
        start, end = first + column * width, first + (column + 1) * width - 1
        where = f'Step {start}' if start == end else f'Steps {start} to {min(end, self.last)}'
        known = self._cells.get(task, {})
        steps = [step for step in range(start, end + 1) if step in known]
        if not steps:
            return f'{where}: {self.title(task)}, not drawn'
        cell = _merged(known[step] for step in steps)
        score = 'nothing scored' if cell.mean is None else f'mean reward {cell.mean:.2f}'
        errors = f', {cell.errors} not scored' if cell.errors else ''
        opens = '' if start == end else f'. Opens step {steps[-1]}'
        return f'{where}: {self.title(task)}, {score} of {cell.n} attempts{errors}{opens}'

    def recent(self, count: int) -> dict[str, list[float | None]]:
        """Means of the newest groups of each task by title, oldest first."""
        with self._lock:
            return {
                self.title(task): [cell.mean for _, cell in sorted(cells.items())[-count:]]
                for task, cells in self._cells.items()
            }

    def _add(self, rows: Sequence[Row]) -> None:
        for task, step, cell in rows:
            known = self._cells.setdefault(task, {})
            known[step] = known[step].plus(cell) if step in known else cell
        steps = [step for _, step, _ in rows]
        if steps:
            self.first = min(steps) if self.last < 0 else min(self.first, *steps)
            self.last = max(self.last, *steps)
            self._columns.update(steps)
        # By latest success when first seen; then the order stays, for rows must not jump under a pointer.
        fresh = [task for task in self._cells if task not in self._order]
        for task in sorted(fresh, key=lambda task: (-_success(self._newest(task)), self.title(task))):
            self._order[task] = len(self._order)

    def _view(self, page: int, search: str) -> HeatView:
        words = search.casefold().split()
        found = [task for task in self._order if all(word in self.title(task).casefold() for word in words)]
        pages = max(1, -(-len(found) // ROWS))
        page = min(max(0, page), pages - 1)
        tasks = found[page * ROWS : (page + 1) * ROWS]
        width, used = self.width, 0
        if self.last >= 0:
            used = (self.last - self.first) // width + 1
        drawn = {(step - self.first) // width for step in self._columns}
        blank = ''.join(NOT_DRAWN if column in drawn else LOST for column in range(used))
        return HeatView(
            tasks=tuple(tasks),
            titles=tuple(map(self.title, tasks)),
            cells=tuple(self._letters(task, width, blank) for task in tasks),
            latest=tuple(_latest(self._newest(task)) for task in tasks),
            first=self.first,
            last=self.last,
            width=width,
            used=used,
            page=page,
            pages=pages,
            found=len(found),
            total=len(self._order),
        )

    def _letters(self, task: str, width: int, blank: str) -> str:
        by_column: dict[int, list[Cell]] = {}
        for step, cell in self._cells[task].items():
            by_column.setdefault((step - self.first) // width, []).append(cell)
        letters = list(blank)
        for column, cells in by_column.items():
            letters[column] = _letter(_merged(cells))
        return ''.join(letters)

    def _newest(self, task: str) -> Cell:
        cells = self._cells[task]
        return cells[max(cells)]


def _merged(cells: Iterable[Cell]) -> Cell:
    return Cell(*map(sum, zip(*cells, strict=True)))


def _letter(cell: Cell) -> str:
    if cell.mean is None:
        return ERROR
    level = min(LEVELS - 1, int(cell.mean * LEVELS))
    return 'abcdefg'[level] if cell.errors else str(level)


def _latest(cell: Cell) -> str:
    return 'error' if cell.mean is None else f'{cell.mean:.2f}'


def _success(cell: Cell) -> float:
    return -1.0 if cell.mean is None else cell.mean
