"""The workspace of the playground as a tree: what changed is marked, a click shows the difference or reads the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui

from studio.ui.components.elements import Icon, Text
from studio.ui.components.file_editor import file_icon
from studio.ui.pages.playground_dialogs import MARKS
from studio.workspaces.changes import MAX_ENTRIES, UNSEEN, Entry


class WorkspaceTree:
    """Draws the entries; ``on_changed`` gets the path of a changed file, ``on_file`` that of another one."""

    def __init__(self, *, on_changed: Callable[[str], Any], on_file: Callable[[str], Any]) -> None:
        self._on_changed, self._on_file = on_changed, on_file
        with ui.element('div').classes('ws'):
            self._list = ui.element('ul').classes('tree').props('role=list aria-label="Workspace files"')

    def clear(self) -> None:
        """There is no workspace."""
        self._list.clear()

    def show(self, entries: Sequence[Entry]) -> None:
        """Draw what is in the workspace now."""
        self._list.clear()
        with self._list:
            for entry in entries:
                self._draw(entry)
            if not entries:
                Text('empty', 'li', 't3')
            if len(entries) >= MAX_ENTRIES:
                Text(f'… the first {MAX_ENTRIES:,} only', 'li', 't3')

    def _draw(self, entry: Entry) -> None:
        path = entry.path
        with ui.element('li').style(f'--d: {path.count("/")}') as row:
            unseen = entry.is_folder and path.rsplit('/', 1)[-1] in UNSEEN
            row.props['title'] = f'{path}: not looked into' if unseen else path
            if entry.is_folder:
                self._draw_name(entry)
                return
            with ui.element('button').props('type=button').classes('name') as button:
                self._draw_name(entry)
        if entry.mark:
            button.props['aria-label'] = f'{path}: {MARKS[entry.mark].lower()}, show the difference'
            button.on('click', lambda: self._on_changed(path), args=[])
        else:
            button.on('click', lambda: self._on_file(path), args=[])

    def _draw_name(self, entry: Entry) -> None:
        name = entry.path.rsplit('/', 1)[-1]
        folder = 'folder' if name in UNSEEN else 'folder-open'
        Icon(folder if entry.is_folder else file_icon(entry.path), 'ic-s')
        Text(name, classes='ell')
        if entry.mark:
            Text(entry.mark, classes=f'mk {entry.mark.lower()}').props['title'] = MARKS[entry.mark]
