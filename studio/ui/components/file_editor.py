"""The setup files: a tree at the left, an editor tab for each opened file. Add, rename, delete, upload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from nicegui import events, ui

from studio.ui import theme
from studio.ui.components.code_editor import CodeEditor, language_of
from studio.ui.components.dialogs import ask, opened_dialog
from studio.ui.components.elements import Button, Icon, Text, spacer
from studio.ui.components.fields import Field
from studio.ui.components.wording import plural, size
from trainer.paths import workspace_path

MAX_UPLOAD_BYTES: Final = 1024**2
_CODE: Final = frozenset({'py', 'sh', 'js', 'c', 'h', 'cpp', 'json', 'sql', 'toml', 'yaml', 'yml', 'html', 'css'})


class FileEditor:
    """Draws ``{path: text}``; ``on_change`` gets the whole mapping, ``on_size`` a line about how much it is."""

    def __init__(
        self,
        files: Mapping[str, str],
        *,
        on_change: Callable[[dict[str, str]], Any],
        on_size: Callable[[str], Any],
        dark: bool = False,
    ) -> None:
        self.files = dict(files)
        self._on_change, self._on_size, self._dark = on_change, on_size, dark
        self._open: dict[str, CodeEditor] = {}
        self._tabs: list[str] = []
        self._current = ''
        with ui.element('div').classes('files'):
            with ui.element('div').classes('tree'):
                with ui.element('div').classes('top'):
                    Text('Workspace')
                    spacer()
                    upload = ui.upload(
                        on_upload=self._uploaded,
                        on_rejected=lambda: theme.toast('The file was not taken', 'bad', detail='Up to 1 MB of text.'),
                        multiple=True,
                        auto_upload=True,
                        max_file_size=MAX_UPLOAD_BYTES,
                    ).classes('hidden')
                    Button(icon='upload', kind='gho icn xs', label='Upload files').on(
                        'click', js_handler=f'() => getElement({upload.id}).pickFiles()'
                    )
                    Button(icon='file-plus', kind='gho icn xs', label='New file', on_click=self._ask_new)
                self._tree = ui.element('ul').props('role=list aria-label="Setup files"')
            with ui.element('div').classes('panes'):
                self._bar = ui.element('div').classes('tabs').props('role=tablist aria-label="Open files"')
                self._panes = ui.element('div')
                with ui.element('div').classes('no-file empty') as self._empty:
                    Text('The workspace starts empty.' if not files else 'Pick a file.', classes='t3 t-small')
                    Button('New file', icon='file-plus', kind='sm', on_click=self._ask_new)
        self._upload = upload
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
        self._draw()

    # ---------------------------------------------------------------------------------------------- changes

    def _typed(self, path: str, text: str) -> Any:
        self.files[path] = text
        self._on_size(self._summary())
        return self._on_change(dict(self.files))

    def _changed(self) -> Any:
        self._draw()
        return self._on_change(dict(self.files))

    def _close(self, path: str) -> None:
        if path in self._tabs:
            place = self._tabs.index(path)
            self._tabs.remove(path)
            self._open.pop(path).box.delete()
            if self._current == path:
                self._current = self._tabs[max(0, place - 1)] if self._tabs else ''
        self._draw()

    def _add(self, path: str, text: str) -> Any:
        self._close(path)
        self.files[path] = text
        self.show(path)
        return self._changed()

    def _rename(self, path: str, name: str) -> Any:
        if name == path:
            return None
        opened = path in self._tabs
        self._close(path)
        self.files = {name if key == path else key: text for key, text in self.files.items()}
        if opened:
            self.show(name)
        return self._changed()

    def _delete(self, path: str) -> Any:
        text = self.files.pop(path)
        self._close(path)
        theme.toast(f'{path} deleted', undo=lambda: self._add(path, text))
        return self._changed()

    async def _uploaded(self, event: events.UploadEventArguments) -> None:
        data = await event.file.read()
        self._upload.reset()
        try:
            text = data.decode('utf-8')
        except UnicodeDecodeError:
            theme.toast(f'{event.file.name} is not UTF-8 text', 'bad', detail='Setup files are text.')
            return
        result = self._add(event.file.name, text)
        if result is not None:
            await result

    # ---------------------------------------------------------------------------------------------- dialogs

    def _ask_new(self) -> None:
        self._ask_path('New file', 'Add the file', '', lambda path: self._add(path, ''))

    def _ask_path(self, title: str, action: str, path: str, then: Callable[[str], Any]) -> None:
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
                    name = workspace_path(box.value or '')
                    if name != path and name in self.files:
                        raise ValueError(f'{name} is there already')
                except ValueError as error:
                    message = str(error)
                    field.show_error(message[:1].upper() + message[1:])
                    return
                dialog.close()
                result = then(name)
                if result is not None:
                    await result

            box.on('keydown.enter.prevent', go)
            with ui.element('div').classes('act'):
                Button('Cancel', on_click=dialog.close)
                Button(action, kind='pri', on_click=go)

    def _ask_delete(self, path: str) -> None:
        if not self.files[path].strip():
            self._delete(path)
            return
        ask(
            f'Delete {path}?',
            'The task starts without this file. Earlier versions keep it.',
            action='Delete the file',
            on_yes=lambda: self._delete(path),
            keep='Keep it',
            icon='trash-2',
        )

    # -------------------------------------------------------------------------------------------------- draw

    def _summary(self) -> str:
        total = sum(len(text.encode('utf-8', 'surrogatepass')) for text in self.files.values())
        return f'{plural(len(self.files), "file")} · {size(total)}' if self.files else 'none'

    def _draw(self) -> None:
        self._on_size(self._summary())
        self._tree.clear()
        with self._tree:
            shown: set[str] = set()
            for path in sorted(self.files, key=_tree_order):
                self._draw_folders(path, shown)
                self._draw_file(path)
        self._bar.clear()
        with self._bar:
            for path in self._tabs:
                self._draw_tab(path)
        for path, editor in self._open.items():
            editor.box.set_visibility(path == self._current)
        self._bar.set_visibility(bool(self._tabs))
        self._empty.set_visibility(not self._tabs)

    def _draw_folders(self, path: str, shown: set[str]) -> None:
        parts = path.split('/')[:-1]
        for depth in range(len(parts)):
            folder = '/'.join(parts[: depth + 1])
            if folder not in shown:
                shown.add(folder)
                with ui.element('li').style(f'--d: {depth}'):
                    Icon('folder-open', 'ic-s')
                    Text(parts[depth])

    def _draw_file(self, path: str) -> None:
        with ui.element('li').style(f'--d: {path.count("/")}') as row:
            if path == self._current:
                row.classes('on')
            with ui.element('button').classes('name').props('type=button') as button:
                button.props['title'] = path
                Icon(file_icon(path), 'ic-s')
                Text(path.rsplit('/', 1)[-1], classes='ell')
            button.on('click', lambda: self.show(path), args=[])
            with ui.element('span').classes('acts'):
                rename = Button(icon='pencil', kind='gho icn xs', label=f'Rename {path}')
                delete = Button(icon='trash-2', kind='gho icn xs', label=f'Delete {path}')
            rename.on(
                'click',
                lambda: self._ask_path('Rename', 'Rename the file', path, lambda name: self._rename(path, name)),
                args=[],
            )
            delete.on('click', lambda: self._ask_delete(path), args=[])

    def _draw_tab(self, path: str) -> None:
        with ui.element('span').classes('tab mono') as tab:
            with ui.element('button').props('type=button role=tab') as button:
                button.props['aria-selected'] = 'true' if path == self._current else 'false'
                button.props['title'] = path
                Text(path.rsplit('/', 1)[-1])
            if path == self._current:
                tab.classes('on')
            button.on('click', lambda: self.show(path), args=[])
            close = Button(icon='x', kind='gho icn xs', label=f'Close {path}')
            close.on('click', lambda: self._close(path), args=[])


def file_icon(path: str) -> str:
    """The icon of a file, by its ending."""
    ending = path.rsplit('.', 1)[-1].lower()
    if ending in _CODE:
        return 'file-code'
    return 'file-text' if ending in ('md', 'txt', 'rst', 'csv', 'log') else 'file'


def _first_to_open(path: str) -> tuple[bool, bool, str]:
    """What the task is about comes before its tests."""
    return 'test' in path, '/' in path, path


def _tree_order(path: str) -> list[tuple[bool, str]]:
    """Folders before files on each level, then by name."""
    parts = path.split('/')
    return [(position == len(parts) - 1, part) for position, part in enumerate(parts)]
