"""A field that shows what is picked and opens a list to look through: for more choices than a menu holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from nicegui import ui

from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Icon, Text
from studio.ui.components.panel import search_box

SHOWN: Final = 100


class ChooseOne(ui.element):
    """A button in the shape of an input. ``on_pick`` gets the key that was picked."""

    def __init__(
        self, choices: Mapping[str, str], value: str, *, label: str, title: str, on_pick: Callable[[str], Any]
    ) -> None:
        super().__init__('button')
        self.classes('inp one').props('type=button aria-haspopup=dialog')
        self._choices, self._on_pick, self._label, self._title = choices, on_pick, label, title
        with self:
            self._picked = Text('', classes='ell sp')
            Icon('chevrons-up-down', 'ic-s')
        self.on('click', self._open, args=[])
        self.show(value)

    def show(self, value: str) -> None:
        """Show a choice without telling anybody."""
        self.value = value
        words = self._choices.get(value, '')
        self._picked.set_text(words)
        self.props['title'] = words
        self.props['aria-label'] = f'{self._label}: {words}'

    def set_enabled(self, on: bool) -> None:
        """Let it be opened, or not."""
        self.props(remove='disabled') if on else self.props('disabled')

    def _open(self) -> None:
        with opened_dialog(self._title, size='mid') as self._dialog:
            with ui.element('div').classes('hs mt-3 w-full'):
                search_box('Find', '', self._draw)
            self._body = ui.element('div').classes('pick').props('role=listbox')
            self._body.props['aria-label'] = self._label
        self._draw('')

    def _draw(self, text: str) -> None:
        words = text.casefold().split()
        fits = [key for key, name in self._choices.items() if all(word in name.casefold() for word in words)]
        self._body.clear()
        with self._body:
            for key in fits[:SHOWN]:
                self._row(key)
            if len(fits) > SHOWN:
                Text(f'{len(fits) - SHOWN:,} more: search to see them.', 'div', 't3 t-small pad')
            if not fits:
                Text('None fits.', 'div', 't3 t-small pad')

    def _row(self, key: str) -> None:
        with ui.element('div').classes('opt').props('role=option tabindex=0') as row:
            row.props['aria-selected'] = 'true' if key == self.value else 'false'
            Text(self._choices[key], classes='ell sp').props['title'] = self._choices[key]
            if key == self.value:
                Icon('check', 'ic-s c-acc')
        row.on('click', lambda: self._pick(key), args=[])
        row.on('keydown.enter', lambda: self._pick(key), args=[])

    async def _pick(self, key: str) -> None:
        self._dialog.close()
        if key == self.value:
            return
        self.show(key)
        with self:
            result = self._on_pick(key)
            if result is not None:
                await result
