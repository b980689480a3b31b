"""The command palette (Ctrl K) and the list of keys (?)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nicegui import events, ui

from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Icon, Text, kbd
from studio.ui.components.rail import PLACES

KEYS: Final = (
    ('modK', 'Command palette: everything this page can do'),
    ('N', 'New task'),
    ('/', 'Search on this page; insert a block in the editor'),
    ('G then T R A M S', 'Go to Tasks, Runs, Adapters, Models, Settings'),
    ('mod⏎', 'Run the checker; start training; try a model'),
    ('modS', 'Save now (autosave is on)'),
    ('⏎', 'Open; run the tool call'),
    ('C', 'Certify this task or the selected ones; compare the selected runs'),
    ('X', 'Select the row; Shift X selects up to it'),
    ('J K', 'Next, previous rollout or row; arrows in a table'),
    ('[ ]', 'Previous, next step or page'),
    ('Delete', 'Delete the selected tasks; it can be undone'),
    ('Esc', 'Close, clear selection'),
    ('?', 'This list'),
)


@dataclass(frozen=True)
class Command:
    """One line of the palette: a path to go to, or the number of a button to press (``off``: why it is not pressed)."""

    text: str
    icon: str
    path: str = ''
    press: int = -1
    keys: tuple[str, ...] = ()
    off: str = ''


Find = Callable[[str], Awaitable[list[tuple[str, list[Command]]]]]
"""Answers typed text with groups of commands."""

_PLACES: Final = (
    *(Command(name, icon, path, keys=('G', letter.upper()) if letter else ()) for name, path, icon, letter in PLACES),
    Command('Templates', 'list', '/templates'),
    Command('Tasks that are drafts', 'pencil', '/?status=draft'),
    Command('Tasks that are uncertified', 'circle-dashed', '/?certificate=uncertified'),
    Command('Tasks whose certificate is stale', 'clock', '/?certificate=stale'),
    Command('Tasks whose certificate failed', 'circle-x', '/?certificate=failed'),
)
_PLACES_FIRST: Final = len(PLACES) + 1
_KEY_NAMES: Final = {'mod+enter': 'mod⏎', 'mod+s': 'modS', 'escape': 'Esc', 'delete': 'Delete'}


class Palette:
    """A dialog with one input over everything that fits: what the page can do, where one can go, what is there."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._actions: list[Command] = []
        self._shown: list[Command] = []
        self._rows: list[ui.element] = []
        self._picked = 0
        self._shown_for = ''
        with ui.dialog().props('position=top') as self._dialog, ui.card().classes('pal'):
            self._dialog.props['aria-label'] = 'Command palette'
            with ui.element('div').classes('q'):
                Icon('search', 't3')
                self._input = ui.input(placeholder='Do something, or go to a page, a task or a run')
                self._input.props('borderless dense autofocus role=combobox aria-expanded=true')
                self._input.props['aria-label'] = 'Do something, or go to a page, a task or a run'
                self._input.on_value_change(self._typed)
                kbd('Esc')
            self._list = ui.element('div').classes('list').props('role="listbox" aria-label="Results"')
            self._input.props['aria-controls'] = self._list.html_id
        self._dialog.on('show', lambda: self._input.run_method('focus'))
        self._input.on('keydown.down.prevent', lambda: self._move(1))
        self._input.on('keydown.up.prevent', lambda: self._move(-1))
        self._input.on('keydown.enter.prevent', self._enter, args=[])

    async def open(self, actions: Sequence[Any]) -> None:
        """Show the palette, empty; ``actions`` is what ``assets/js/actions.js`` found on the page."""
        self._actions = list(_read(actions))
        self._input.value = ''
        await self._search('')
        self._dialog.open()

    async def _typed(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        await self._search(event.value or '')

    async def _search(self, text: str) -> None:
        words = text.casefold().split()
        places = _fitting(_PLACES, words) if words else _PLACES[:_PLACES_FIRST]
        groups = [('On this page', _fitting(self._actions, words)), ('Go to', places)]
        groups += await self._find(text.strip())
        if text != (self._input.value or ''):
            return
        self._shown_for = text
        self._shown = [command for _, commands in groups for command in commands]
        self._draw(groups)

    def _draw(self, groups: Sequence[tuple[str, Sequence[Command]]]) -> None:
        self._list.clear()
        self._rows = []
        with self._list:
            for name, commands in groups:
                if commands:
                    with ui.element('div').props('role=group') as group:
                        group.props['aria-label'] = name
                        Text(name, 'div', 'grp').props('aria-hidden=true')
                        for command in commands:
                            self._rows.append(self._row(command, len(self._rows)))
            if not self._shown:
                Text('Nothing fits. Try another word.', 'div', 'none')
        self._pick(0)

    def _row(self, command: Command, index: int) -> ui.element:
        with ui.element('div').classes('mi off' if command.off else 'mi').props('role="option"') as row:
            Icon(command.icon or 'corner-down-right')
            Text(command.text, classes='ell')
            if command.off:
                Text(command.off, classes='why t-small ell')
                row.props('aria-disabled=true')
            with ui.element('span').classes('k'):
                for key in command.keys:
                    kbd(key)
        row.on('click', lambda: self._go(index), args=[])
        return row

    def _pick(self, index: int) -> None:
        self._picked = index
        for number, row in enumerate(self._rows):
            on = number == index
            row.classes(add='on') if on else row.classes(remove='on')
            row.props(f'aria-selected={"true" if on else "false"}')
        if self._rows:
            self._input.props['aria-activedescendant'] = self._rows[index].html_id
            ui.run_javascript(f'{_element(self._rows[index])}?.scrollIntoView({{block: "nearest"}})')

    def _move(self, by: int) -> None:
        if self._rows:
            self._pick((self._picked + by) % len(self._rows))

    async def _enter(self) -> None:
        """Take the picked line, of what is typed now: whoever types fast is ahead of what is shown."""
        text = self._input.value or ''
        if text != self._shown_for:
            await self._search(text)
        self._go(self._picked)

    def _go(self, index: int) -> None:
        if index >= len(self._shown) or self._shown[index].off:
            return
        command = self._shown[index]
        self._dialog.close()
        if command.path:
            ui.navigate.to(command.path)
        else:
            # After the dialog has given the focus back: a button that opens something must keep it.
            ui.run_javascript(f'setTimeout(() => rlvrAct({command.press}), 80)')


def show_keys() -> None:
    """Open the list of keys."""
    with opened_dialog('Keyboard', size='mid'), ui.element('div').classes('keys'):
        with ui.element('dl'):
            for keys, meaning in KEYS:
                with ui.element('dt').classes('hs hs-1'):
                    for key in keys.split():
                        Text(key, classes='t3 t-small') if key == 'then' else kbd(key)
                Text(meaning, 'dd')
        Text('Single letters are off while typing.', 'p', 'hint')


def _read(actions: Sequence[Any]) -> Iterable[Command]:
    for number, found in enumerate(actions):
        key = str(found.get('key', ''))
        shown = _KEY_NAMES.get(key, key.upper())
        icon = re.sub(r'[^a-z0-9-]', '', str(found.get('icon', '')))
        off = str(found.get('off', ''))[:120]
        yield Command(str(found['text'])[:80], icon, press=number, keys=(shown,) if shown else (), off=off)


def _fitting(commands: Iterable[Command], words: Sequence[str]) -> list[Command]:
    """Those with every word; those that begin with the first one come first."""
    fitting = [command for command in commands if all(word in command.text.casefold() for word in words)]
    return sorted(fitting, key=lambda command: not words or not command.text.casefold().startswith(words[0]))


def _element(element: ui.element) -> str:
    return f'document.getElementById("{element.html_id}")'
