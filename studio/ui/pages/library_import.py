"""Importing tasks: a file or pasted text, a preview that names every line, and only then the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from nicegui import events, run, ui

from studio.documents import Documents, ImportReport
from studio.ui import theme
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Icon, Text, chip, field, note, spacer
from studio.ui.components.wording import plural

MAX_BYTES: Final = 64 * 1024**2
_SHOWN: Final = 200
_STATES: Final = {
    'new': ('ok', 'circle-check', 'New'),
    'same': ('', 'equal', 'Here already'),
    'refused': ('bad', 'circle-x', 'Refused'),
}

Done = Callable[[], Awaitable[Any]]


class ImportDrop:
    """A place to drop a file, or to pick one (``pick`` is the script that opens the file picker)."""

    def __init__(self, documents: Documents, done: Done, *, on_text: Callable[[str], Any] | None = None) -> None:
        self._on_text = on_text or (lambda text: preview(documents, text, done))
        with ui.element('div').classes('drop') as zone:
            Icon('upload', 'ic-l')
            Text('Drop a file here', classes='w5 strong')
            Text('.jsonl or .json, up to 64 MB', classes='t3')
            upload = ui.upload(
                on_upload=self._uploaded, on_rejected=self._rejected, auto_upload=True, max_file_size=MAX_BYTES
            )
            upload.props('accept=".jsonl,.json,.txt" flat aria-hidden=true tabindex=-1')
        self.pick = f'() => getElement({upload.id}).pickFiles()'
        zone.on('click', js_handler=self.pick)
        self._upload = upload

    async def _uploaded(self, event: events.UploadEventArguments) -> None:
        data = await event.file.read()
        self._upload.reset()
        try:
            text = data.decode('utf-8-sig')
        except UnicodeDecodeError as error:
            theme.toast(
                'The file is not UTF-8 text', 'bad', detail=f'Byte {error.start} cannot be read. Save it as UTF-8.'
            )
            return
        await self._on_text(text)

    def _rejected(self) -> None:
        theme.toast('The file was not taken', 'bad', detail='A .jsonl or .json file of up to 64 MB is needed.')


def open_import(documents: Documents, done: Done) -> None:
    """Ask for a file or text."""
    with opened_dialog('Import tasks', text='Nothing is stored until you confirm.', size='mid') as dialog:

        async def show(text: str) -> None:
            dialog.close()
            await preview(documents, text, done)

        with ui.element('div').classes('vs vs-3 w-full').style('margin-top: 12px'):
            with ui.element('div').style('height: 132px'):
                ImportDrop(documents, done, on_text=show)
            with field('Or paste it', hint='One task a line: a bare task_spec, or {"task_spec": …, "solutions": […]}'):
                box = ui.textarea().props('outlined dense aria-label="Or paste it" rows=5').classes('code-box')
        with ui.element('div').classes('act'):
            Button('Cancel', on_click=dialog.close)
            Button('Preview', kind='pri', on_click=lambda: show(box.value or ''))


async def preview(documents: Documents, text: str, done: Done) -> None:
    """Show what each line would become, and store the good ones on confirmation."""
    if not text.strip():
        theme.toast('There is nothing to import', 'warn', detail='The file or the text is empty.')
        return
    report = await run.io_bound(documents.import_tasks, text, preview=True)
    if report is None:
        return
    new = report.count('new')
    title = f'Import {plural(new, "task")}?' if new else 'Nothing to import'
    with opened_dialog(
        title, text='Nothing is stored until you confirm. Imported tasks are drafts.', size='wide'
    ) as dialog:

        async def confirm() -> None:
            dialog.close()
            stored = await run.io_bound(documents.import_tasks, text)
            if stored is not None:
                theme.toast(f'{plural(stored.count("new"), "task")} imported as drafts')
                await done()

        _draw_report(report)
        with ui.element('div').classes('act'):
            states: tuple[Literal['new', 'same', 'refused'], ...] = ('new', 'same', 'refused')
            for state in states:
                kind, icon, word = _STATES[state]
                if report.count(state):
                    chip(f'{report.count(state)} {word.lower()}', kind, icon=icon)
            spacer()
            Button('Cancel', on_click=dialog.close)
            if new:
                Button(f'Import {plural(new, "task")}', icon='upload', kind='pri', on_click=confirm)


def _draw_report(report: ImportReport) -> None:
    refused_first = sorted(report.rows, key=lambda row: row.status != 'refused')
    with ui.element('div').classes('report'), ui.element('table').classes('tbl dense').props('aria-label="Lines"'):
        with ui.element('thead'), ui.element('tr'):
            for head in ('Line', 'Result', 'Task', 'Reason'):
                Text(head, 'th')
        with ui.element('tbody'):
            for row in refused_first[:_SHOWN]:
                kind, icon, word = _STATES[row.status]
                reason = (
                    '; '.join(f'{error.loc}: {error.msg}'.removeprefix(': ') for error in row.errors[:3]) or row.reason
                )
                with ui.element('tr'):
                    Text(str(row.line), 'td', 'num t3')
                    with ui.element('td'):
                        chip(word, kind, icon=icon)
                    Text(row.title, 'td', 'ell title').props['title'] = row.title
                    Text(reason, 'td', 'reason').props['title'] = reason
    if len(report.rows) > _SHOWN:
        note(f'{len(report.rows) - _SHOWN} more lines are not shown here; all of them count.')
