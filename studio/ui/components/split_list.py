"""A list of things at the left, and the one that is picked at the right: for dialogs that let one look through many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from nicegui import ui

Thing = TypeVar('Thing')


class SplitList(Generic[Thing]):
    """Draws both; each row is a button, ``draw_row`` fills it and ``draw`` shows the thing that was picked."""

    def __init__(
        self,
        things: Sequence[Thing],
        *,
        label: str,
        draw_row: Callable[[Thing], Any],
        draw: Callable[[Thing], Any],
        picked: int = 0,
    ) -> None:
        self._things, self._draw = things, draw
        self._buttons: list[ui.element] = []
        with ui.element('div').classes('split'):
            with ui.element('ul').props('role=list') as rows:
                rows.props['aria-label'] = label
            self._box = ui.element('div').classes('picked')
        for number, thing in enumerate(things):
            with rows, ui.element('li'), ui.element('button').props('type=button') as button:
                draw_row(thing)
            button.on('click', lambda number=number: self.pick(number), args=[])
            self._buttons.append(button)
        if things:
            self.pick(picked)

    def pick(self, number: int) -> None:
        """Show another thing."""
        for position, button in enumerate(self._buttons):
            button.props['aria-current'] = 'true' if position == number else 'false'
        self._box.clear()
        with self._box:
            self._draw(self._things[number])
