"""The menu that puts blocks into the column: a line at its end, opened by a click or by ``/``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from studio.ui.components.elements import Icon, Text, kbd


@dataclass(frozen=True)
class Entry:
    """One kind of block; ``why_not`` says why it cannot be added now."""

    title: str
    meaning: str
    icon: str
    add: Callable[[], Any]
    why_not: str = ''


class InsertMenu:
    """Draws the line; ``entries`` is asked each time the menu opens."""

    def __init__(self, entries: Callable[[], Sequence[Entry]]) -> None:
        self._entries = entries
        with ui.element('button').classes('insert') as self.line:
            self.line.props('type=button aria-haspopup=menu data-key=/')
            self.line.props['aria-label'] = 'Add a block'
            Icon('plus')
            Text('Add a block')
            kbd('/')
            self._menu = ui.menu().classes('menu blocks').props('no-parent-event anchor="top left" self="bottom left"')
        self.line.on('click', self._open, args=[])

    def _open(self) -> None:
        self._menu.clear()
        with self._menu:
            for entry in self._entries():
                self._draw(entry)
        self._menu.open()

    def _draw(self, entry: Entry) -> None:
        with ui.menu_item(on_click=None if entry.why_not else entry.add).classes('mi') as item:
            if entry.why_not:
                item.props('disable')
            Icon(entry.icon)
            with ui.element('span').classes('vs vs-0'):
                Text(entry.title, classes='w5')
                Text(entry.why_not or entry.meaning, classes='hint')
