"""Success by task and step as a canvas: a cell is a group, hatched where the checker broke, empty if not drawn.

The browser gets the titles of a page of tasks once, and afterwards only the cells that changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nicegui import ui

from studio.runs.heat_grid import HeatView

COLUMNS: Final = (40, 70, 100)
"""How many columns there is room for: cells keep their places while a run grows, until it needs the next."""


class Heatmap(ui.element, component='heatmap.js'):
    """The grid. ``on_open(task, column)`` is called for a click or Enter on a group, ``on_look`` for its words.

    ``on_turn(by)``: the user pressed PageDown (1) or PageUp (-1).
    """

    def __init__(
        self,
        *,
        on_open: Callable[[str, int], Any],
        on_look: Callable[[str, int], str],
        on_turn: Callable[[int], Any],
    ) -> None:
        super().__init__()
        self.classes('hm')
        self._view: HeatView | None = None
        self._ready = False
        self.on('ready', self._on_ready, args=[])
        self.on('open', lambda event: on_open(*self._named(event.args)))
        self.on('look', lambda event: self.run_method('say', event.args, on_look(*self._named(event.args))))
        self.on('turn', lambda event: on_turn(int(event.args)))

    def show(self, view: HeatView) -> None:
        """Draw this page: only what changed is sent where its tasks and columns are the same."""
        before, self._view = self._view, view
        if not self._ready:
            return
        if before is None or _frame(before) != _frame(view):
            self._send(view)
            return
        changed = [
            [number, *_difference(old, new), latest]
            for number, (old, new, latest, known) in enumerate(
                zip(before.cells, view.cells, view.latest, before.latest, strict=True)
            )
            if old != new or latest != known
        ]
        if changed or view.used != before.used:
            self.run_method('patch', {'used': view.used, 'last': view.last, 'rows': changed})

    def _on_ready(self) -> None:
        self._ready = True
        if self._view is not None:
            self._send(self._view)

    def _send(self, view: HeatView) -> None:
        sent = view.model_dump(include={'titles', 'cells', 'latest', 'first', 'last', 'width', 'used'})
        self.run_method('show', sent | {'shown': _room(view)})

    def _named(self, place: list[int]) -> tuple[str, int]:
        row, column = place
        tasks = self._view.tasks if self._view is not None else ()
        return (tasks[row] if 0 <= row < len(tasks) else ''), column


def _frame(view: HeatView) -> tuple[object, ...]:
    """What has to be the same for cells to be changed in place."""
    return view.tasks, view.first, view.width, _room(view)


def _room(view: HeatView) -> int:
    return next((columns for columns in COLUMNS if columns >= view.used), view.used)


def _difference(old: str, new: str) -> tuple[int, str]:
    """Where ``new`` begins to differ, and its letters up to where it no longer does."""
    start = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(old))
    end = len(new)
    while len(new) == len(old) and end > start and new[end - 1] == old[end - 1]:
        end -= 1
    return start, new[start:end]
