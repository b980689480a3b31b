"""The tree of the setup files: folders that fold, and for each entry what can be done with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from nicegui import ui

from studio.ui.components.elements import Button, Icon, Text

_CODE: Final = frozenset({'py', 'sh', 'js', 'c', 'h', 'cpp', 'json', 'sql', 'toml', 'yaml', 'yml', 'html', 'css'})


@dataclass(frozen=True)
class TreeActions:
    """What the tree calls: each gets a path, that of a folder ends with a slash."""

    show: Callable[[str], Any]
    add: Callable[[str], Any]
    rename: Callable[[str], Any]
    delete: Callable[[str], Any]


class FileTree:
    """Draws a list of paths; which folders are folded is kept over a redraw, and so is the focus."""

    def __init__(self, actions: TreeActions) -> None:
        self._actions = actions
        self._folded: set[str] = set()
        self._paths: tuple[str, ...] = ()
        self._rows: dict[str, ui.element] = {}
        self._box = ui.element('ul').props('role=list aria-label="Setup files"')

    def draw(self, paths: Collection[str], current: str) -> None:
        """Show these files; ``current`` is the one in the front tab."""
        self._paths = tuple(sorted(paths, key=_order))
        self._box.clear()
        self._rows.clear()
        with self._box:
            shown: set[str] = set()
            for path in self._paths:
                self._draw_folders(path, shown)
                if not self._is_inside_folded(path):
                    self._draw_file(path)
        self.mark(current)

    def mark(self, current: str) -> None:
        """Show which file is in the front tab."""
        for path, row in self._rows.items():
            row.classes(add='on') if path == current else row.classes(remove='on')

    def unfold(self, path: str) -> None:
        """Open every folder above a path."""
        self._folded = {folder for folder in self._folded if not path.startswith(folder)}

    def _draw_folders(self, path: str, shown: set[str]) -> None:
        parts = path.split('/')[:-1]
        for depth in range(len(parts)):
            folder = '/'.join(parts[: depth + 1]) + '/'
            if folder in shown or self._is_inside_folded(folder.rstrip('/')):
                continue
            shown.add(folder)
            folded = folder in self._folded
            with self._row(folder, depth) as name:
                name.props(f'aria-expanded={"false" if folded else "true"}')
                Icon('folder' if folded else 'folder-open', 'ic-s')
                Text(parts[depth], classes='ell')
            name.on('click', lambda folder=folder: self._fold(folder), args=[])
            self._draw_actions(folder, f'folder {folder}')

    def _draw_file(self, path: str) -> None:
        with self._row(path, path.count('/')) as name:
            Icon(file_icon(path), 'ic-s')
            Text(path.rsplit('/', 1)[-1], classes='ell')
        name.on('click', lambda: self._actions.show(path), args=[])
        self._draw_actions(path, path)

    def _row(self, path: str, depth: int) -> ui.element:
        with ui.element('li').style(f'--d: {depth}') as row:
            name = ui.element('button').classes('name').props('type=button')
            name.props['title'] = path
        row.props['data-folder'] = path if path.endswith('/') else path.rpartition('/')[0]
        self._rows[path] = row
        return name

    def _draw_actions(self, path: str, words: str) -> None:
        with self._rows[path], ui.element('span').classes('acts'):
            if path.endswith('/'):
                add = Button(icon='file-plus', kind='gho icn xs', label=f'New file in {words}')
                add.on('click', lambda: self._actions.add(path), args=[])
            rename = Button(icon='pencil', kind='gho icn xs', label=f'Rename {words}')
            rename.on('click', lambda: self._actions.rename(path), args=[])
            delete = Button(icon='trash-2', kind='gho icn xs', label=f'Delete {words}')
            delete.on('click', lambda: self._actions.delete(path), args=[])

    def _fold(self, folder: str) -> None:
        self._folded ^= {folder}
        current = next((path for path, row in self._rows.items() if 'on' in row.classes), '')
        self.draw(self._paths, current)
        focus(self._rows[folder], 'button')

    def _is_inside_folded(self, path: str) -> bool:
        return any(path.startswith(folder) for folder in self._folded)


def focus(element: ui.element, inside: str = '') -> None:
    """Put the cursor into an element that was just drawn, or into the first thing that fits ``inside`` it."""
    # By its client: what called this may have been drawn anew, and then has no place of its own.
    element.client.run_javascript(f'rlvrFocus({element.id}, {json.dumps(inside)})')


def file_icon(path: str) -> str:
    """The icon of a file, by its ending."""
    ending = path.rsplit('.', 1)[-1].lower()
    if ending in _CODE:
        return 'file-code'
    return 'file-text' if ending in ('md', 'txt', 'rst', 'csv', 'log') else 'file'


def _order(path: str) -> list[tuple[bool, str]]:
    """Folders before files on each level, then by name."""
    parts = path.split('/')
    return [(position == len(parts) - 1, part) for position, part in enumerate(parts)]
