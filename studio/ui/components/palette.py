"""The command palette (Ctrl K) and the list of keys (?)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from nicegui import events, ui

from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Icon, Text, kbd
from studio.ui.components.rail import PLACES

FindTasks = Callable[[str], Awaitable[list[tuple[str, str]]]]
"""Answers typed text with (title, path) of tasks."""

KEYS: Final = (
    ('modK', 'Command palette'),
    ('N', 'New task'),
    ('/', 'Search on this page'),
    ('G then T R A M S', 'Go to Tasks, Runs, Adapters, Models, Settings'),
    ('mod⏎', 'Run the checker; start training'),
    ('modS', 'Save now (autosave is on)'),
    ('⏎', 'Open; run the tool call'),
    ('C', 'Certify this task, or the selected ones'),
    ('X', 'Select the row under the pointer'),
    ('J K', 'Next, previous rollout or row'),
    ('[ ]', 'Previous, next step'),
    ('Esc', 'Close, clear selection'),
    ('?', 'This list'),
)


NEW_TASK: Final = 'new'


@dataclass(frozen=True)
class Command:
    """One line of the palette."""

    text: str
    path: str
    icon: str
    keys: tuple[str, ...] = ()


_COMMANDS: Final = (
    Command('New task', NEW_TASK, 'plus', ('N',)),
    Command('Templates', '/templates', 'list'),
    *(Command(name, path, icon, ('G', letter.upper()) if letter else ()) for name, path, icon, letter in PLACES),
)


class Palette:
    """A dialog with one input: pages and tasks that fit, moved through by arrow keys."""

    def __init__(self, find_tasks: FindTasks, new_task: Callable[[], Awaitable[None]]) -> None:
        self._find_tasks, self._new_task = find_tasks, new_task
        self._shown: list[Command] = []
        self._picked = 0
        with ui.dialog().props('position=top no-refocus') as self._dialog, ui.card().classes('pal'):
            self._dialog.props['aria-label'] = 'Command palette'
            with ui.element('div').classes('q'):
                Icon('search', 't3')
                self._input = ui.input(placeholder='Go to a page or a task').props(
                    'borderless dense autofocus aria-label="Go to a page or a task"'
                )
                self._input.on_value_change(self._typed)
                kbd('Esc')
            self._list = ui.element('div').classes('list').props('role="listbox" aria-label="Results"')
        self._dialog.on('show', lambda: self._input.run_method('focus'))
        self._input.on('keydown.down.prevent', lambda: self._move(1))
        self._input.on('keydown.up.prevent', lambda: self._move(-1))
        self._input.on('keydown.enter.prevent', lambda: self._go(self._picked))

    async def open(self) -> None:
        """Show the palette, empty."""
        self._input.value = ''
        await self._search('')
        self._dialog.open()

    async def _typed(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        await self._search(event.value or '')

    async def _search(self, text: str) -> None:
        words = text.casefold().split()
        places = [command for command in _COMMANDS if all(word in command.text.casefold() for word in words)]
        tasks = [Command(title, path, 'file-text') for title, path in await self._find_tasks(text.strip())]
        if text != (self._input.value or ''):
            return
        self._shown = [*places, *tasks]
        self._picked = 0
        self._draw(len(places))

    def _draw(self, places: int) -> None:
        self._list.clear()
        with self._list:
            for index, command in enumerate(self._shown):
                if index in (0, places):
                    Text('Go to' if index < places else 'Tasks', 'div', 'grp')
                with ui.element('div').classes('mi').props('role="option"') as row:
                    Icon(command.icon)
                    Text(command.text, classes='ell')
                    with ui.element('span').classes('k'):
                        for key in command.keys:
                            kbd(key)
                row.on('click', lambda index=index: self._go(index), args=[])
                row.classes('on') if index == self._picked else None
            if not self._shown:
                Text('Nothing fits. Try another word.', 'div', 'none')

    def _move(self, by: int) -> None:
        rows = [row for row in self._list.default_slot.children if 'mi' in row.classes]
        if not rows:
            return
        self._picked = (self._picked + by) % len(rows)
        for index, row in enumerate(rows):
            row.classes(add='on') if index == self._picked else row.classes(remove='on')

    async def _go(self, index: int) -> None:
        if index >= len(self._shown):
            return
        self._dialog.close()
        path = self._shown[index].path
        if path == NEW_TASK:
            await self._new_task()
        else:
            ui.navigate.to(path)


def show_keys() -> None:
    """Open the list of keys."""
    with opened_dialog('Keyboard'), ui.element('div').classes('keys'):
        with ui.element('dl'):
            for keys, meaning in KEYS:
                with ui.element('dt'):
                    kbd(keys)
                Text(meaning, 'dd')
        Text('Single letters are off while typing.', 'p', 'hint')
