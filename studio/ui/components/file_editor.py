"""The setup files: a tree at the left, an editor tab for each opened file. Add, rename, delete, drop in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from nicegui import ui

from studio.ui import theme
from studio.ui.components.code_editor import CodeEditor, language_of
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Icon, Text, spacer
from studio.ui.components.fields import Field
from studio.ui.components.file_tree import FileTree, TreeActions, file_icon, focus
from studio.ui.components.uploads import Uploads
from studio.ui.components.wording import plural, size
from trainer.paths import workspace_path

__all__ = ['FileEditor', 'file_icon']

KEPT_TABS: Final = 12
"""Each tab is a code editor in the browser: the oldest is closed when there are more."""


class FileEditor:
    """Draws ``{path: text}``; ``on_change`` gets the whole mapping, ``on_size`` a line about how much it is.

    ``on_undo`` gets what must be there again (``None``: must be gone), because this editor may be drawn anew by then.
    """

    def __init__(
        self,
        files: Mapping[str, str],
        *,
        on_change: Callable[[dict[str, str]], Any],
        on_size: Callable[[str], Any],
        on_undo: Callable[[Mapping[str, str | None]], Any],
        dark: bool = False,
    ) -> None:
        self.files = dict(files)
        self._on_change, self._on_size, self._on_undo, self._dark = on_change, on_size, on_undo, dark
        self._open: dict[str, CodeEditor] = {}
        self._tabs: list[str] = []
        self._current = ''
        uploads = Uploads(self._uploaded)
        with ui.element('div').classes('files') as box:
            box.props['data-drop'] = uploads.drop_target
            with ui.element('div').classes('tree'):
                with ui.element('div').classes('top'):
                    Text('Workspace')
                    spacer()
                    upload = Button(icon='upload', kind='gho icn xs', label='Upload files')
                    upload.on('click', js_handler=uploads.pick)
                    Button(icon='file-plus', kind='gho icn xs', label='New file', on_click=self._ask_new)
                self._tree = FileTree(TreeActions(self.show, self._ask_new, self._ask_rename, self._delete))
            with ui.element('div').classes('panes'):
                self._bar = ui.element('div').classes('tabs').props('role=tablist aria-label="Open files"')
                self._panes = ui.element('div')
                with ui.element('div').classes('no-file empty') as self._empty:
                    Text('Drop files here, or write one.', classes='t3 t-small')
                    Button('New file', icon='file-plus', kind='sm', on_click=self._ask_new)
        if files:
            self.show(min(files, key=_first_to_open))
        self._draw()

    @property
    def editors(self) -> list[CodeEditor]:
        """The editors that are open."""
        return list(self._open.values())

    def show(self, path: str) -> None:
        """Open a file in its tab, or bring its tab to the front."""
        if path not in self._tabs:
            while len(self._tabs) >= KEPT_TABS:
                self._drop_tab(self._tabs[0])
            self._tabs.append(path)
            with self._panes:
                self._open[path] = CodeEditor(
                    self.files[path],
                    label=path,
                    language=language_of(path),
                    dark=self._dark,
                    on_change=lambda text: self._typed(path, text),
                )
        self._current = path
        self._draw_tabs()
        self._tree.mark(path)

    def put(self, changes: Mapping[str, str | None]) -> Any:
        """Have these files as given; ``None`` takes one away. Their tabs show the new text, and undo starts there."""
        for path in changes:
            self._drop_tab(path)
        self.files = {path: text for path, text in self.files.items() if path not in changes}
        added = {path: text for path, text in changes.items() if text is not None}
        self.files |= added
        if added:
            first = min(added, key=_first_to_open)
            self._tree.unfold(first)
            self.show(first)
        return self._changed()

    # ---------------------------------------------------------------------------------------------- changes

    def _typed(self, path: str, text: str) -> Any:
        self.files[path] = text
        self._on_size(self._summary())
        return self._on_change(dict(self.files))

    def _changed(self) -> Any:
        self._draw()
        return self._on_change(dict(self.files))

    def _drop_tab(self, path: str) -> None:
        if path not in self._tabs:
            return
        place = self._tabs.index(path)
        self._tabs.remove(path)
        self._open.pop(path).box.delete()
        if self._current == path:
            self._current = self._tabs[max(0, place - 1)] if self._tabs else ''

    def _close(self, path: str) -> None:
        self._drop_tab(path)
        self._draw_tabs()
        self._tree.mark(self._current)
        focus(self._bar, '[aria-selected="true"]')

    def _add(self, path: str) -> Any:
        result = self.put({path: ''})
        self._open[path].focus()
        return result

    def _rename(self, path: str, name: str) -> Any:
        """Give a file, or with its slash a whole folder, another path; open tabs stay open."""
        moved = {key: name + key.removeprefix(path) for key in self.files if _is_at(key, path)}
        opened = [(moved.get(key, key), key) for key in self._tabs]
        front = moved.get(self._current, self._current)
        for key in moved:
            self._drop_tab(key)
        self.files = {moved.get(key, key): text for key, text in self.files.items()}
        for shown, key in opened:
            if key in moved:
                self.show(shown)
        if front in self.files:
            self.show(front)
        self._tree.unfold(name)
        return self._changed()

    def _delete(self, path: str) -> Any:
        """Take a file or a whole folder away; it can be undone."""
        gone = {key: text for key, text in self.files.items() if _is_at(key, path)}
        for key in gone:
            self._drop_tab(key)
            del self.files[key]
        words = f'{path} deleted' if len(gone) == 1 else f'{path} deleted with {plural(len(gone), "file")}'
        theme.toast(words, undo=lambda: self._on_undo(gone))
        return self._changed()

    def _uploaded(self, files: dict[str, str]) -> Any:
        before = {path: self.files.get(path) for path in files}
        replaced = sum(text is not None for text in before.values())
        result = self.put(files)
        words = f'{plural(len(files), "file")} added' + (f', {replaced} of them replaced' if replaced else '')
        theme.toast(words, undo=lambda: self._on_undo(before))
        return result

    # ---------------------------------------------------------------------------------------------- dialogs

    def _ask_new(self, folder: str = '') -> None:
        self._ask_path('New file', 'Add the file', folder, self._add)

    def _ask_rename(self, path: str) -> None:
        title = 'Rename the folder' if path.endswith('/') else 'Rename the file'
        self._ask_path(title, title, path, lambda name: self._rename(path, name))

    def _ask_path(self, title: str, action: str, path: str, then: Callable[[str], Any]) -> None:
        renamed = path if title != 'New file' else ''
        with opened_dialog(title) as dialog:
            with (
                ui.element('div').classes('vs w-full').style('margin-top: 12px'),
                Field('Path', hint='Relative to the workspace; folders are made as needed.') as field,
            ):
                box = ui.input(value=path, placeholder='src/main.py').props('outlined dense autofocus spellcheck=false')
                box.props['aria-label'] = 'Path'
                box.classes('mono-input')

            async def go() -> None:
                try:
                    name = self._checked_path(box.value or '', renamed)
                except ValueError as error:
                    message = str(error)
                    field.show_error(message[:1].upper() + message[1:])
                    return
                dialog.close()
                result = None if name == renamed else then(name)
                if result is not None:
                    await result

            box.on('keydown.enter.prevent', go)
            with ui.element('div').classes('act'):
                Button('Cancel', on_click=dialog.close)
                Button(action, kind='pri', on_click=go)

    def _checked_path(self, text: str, renamed: str) -> str:
        """The normal form of a path that is free. Raises ``ValueError`` with what to change."""
        is_folder = renamed.endswith('/')
        name = workspace_path(text, folder=is_folder).rstrip('/')
        for other in self.files:
            if renamed and _is_at(other, renamed):
                continue
            if other == name or (is_folder and other.startswith(f'{name}/')):
                raise ValueError(f'{name} is there already')
            if other.startswith(f'{name}/') or name.startswith(f'{other}/'):
                raise ValueError(f'{min(name, other, key=len)} cannot be a file and a folder')
        return f'{name}/' if is_folder else name

    # -------------------------------------------------------------------------------------------------- draw

    def _summary(self) -> str:
        total = sum(len(text.encode('utf-8', 'surrogatepass')) for text in self.files.values())
        return f'{plural(len(self.files), "file")} · {size(total)}' if self.files else 'none'

    def _draw(self) -> None:
        self._on_size(self._summary())
        self._tree.draw(self.files, self._current)
        self._draw_tabs()

    def _draw_tabs(self) -> None:
        self._bar.clear()
        with self._bar:
            for path in self._tabs:
                self._draw_tab(path)
        for path, editor in self._open.items():
            editor.box.set_visibility(path == self._current)
        self._bar.set_visibility(bool(self._tabs))
        self._empty.set_visibility(not self._tabs)

    def _draw_tab(self, path: str) -> None:
        front = path == self._current
        with ui.element('span').classes('tab mono on' if front else 'tab mono').props('role=presentation'):
            with ui.element('button').props(f'type=button role=tab tabindex={0 if front else -1}') as button:
                button.props['aria-selected'] = 'true' if front else 'false'
                button.props['title'] = f'{path} (Delete closes it)'
                button.props['aria-label'] = f'Tab {path}'
                Text(path.rsplit('/', 1)[-1])
            button.on('click', lambda: self._front(path), args=[])
            button.on('keydown.delete', lambda: self._close(path), args=[])
            # A tab list may hold nothing but tabs: the cross is for the mouse, Delete for the keyboard.
            with ui.element('span').classes('btn gho icn z-xs').props('aria-hidden=true') as close:
                Icon('x', 'ic-s')
            close.on('click', lambda: self._close(path), args=[])

    def _front(self, path: str) -> None:
        self.show(path)
        focus(self._bar, '[aria-selected="true"]')


def _is_at(path: str, place: str) -> bool:
    """Whether a path is a file's own, or lies in a folder given with its slash."""
    return path.startswith(place) if place.endswith('/') else path == place


def _first_to_open(path: str) -> tuple[bool, bool, bool, str]:
    """What the task is about comes before its tests and its notes."""
    return 'test' in path, file_icon(path) != 'file-code', path.endswith('__init__.py'), path
