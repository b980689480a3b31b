"""Importing tasks: files that are dropped, picked or pasted; a preview that names every row; only then the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from nicegui import events, run, ui

from studio.documents.transfer import Plan, Receipt, Result, Transfer
from studio.exchange.pool import Incoming
from studio.ui import theme
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Icon, Text, field
from studio.ui.components.uploads import cleared_when_done
from studio.ui.components.wording import plural
from studio.ui.pages.import_preview import ImportPreview

MAX_BYTES: Final = 64 * 1024**2
ACCEPTED: Final = '.jsonl,.json,.ndjson,.txt,.zip'
FORMATS: Final = 'JSONL, JSON, Harbor, OpenAI graders'

Done = Callable[[], Awaitable[Any]]
OnFiles = Callable[[Sequence[Incoming]], Awaitable[Any]]


class ImportDrop:
    """A place to drop files, or to pick them (``pick`` is the script that opens the file picker)."""

    def __init__(self, transfer: Transfer, done: Done, *, on_files: OnFiles | None = None) -> None:
        self._on_files = on_files or (lambda files: preview(transfer, files, done))
        with ui.element('div').classes('drop') as zone:
            Icon('upload', 'ic-l')
            self._lead = Text('Drop files here', classes='w5 strong')
            Text(FORMATS, classes='t3')
            Text('Several at once, up to 64 MB; a folder as a zip', classes='t3')
            upload = ui.upload(
                multiple=True,
                on_multi_upload=self._uploaded,
                on_rejected=self._rejected,
                auto_upload=True,
                max_total_size=MAX_BYTES,
            )
            upload.props(f'accept="{ACCEPTED}" flat aria-hidden=true tabindex=-1')
        self.pick = f'() => getElement({upload.id}).pickFiles()'
        zone.on('click', js_handler=self.pick)
        cleared_when_done(upload)
        self._zone = zone

    async def _uploaded(self, event: events.MultiUploadEventArguments) -> None:
        files = [Incoming(file.name, await file.read()) for file in event.files]
        self._lead.set_text(f'Reading {plural(len(files), "file")}…')
        self._zone.props('aria-busy=true')
        try:
            await self._on_files(files)
        finally:
            self._lead.set_text('Drop files here')
            self._zone.props(remove='aria-busy')

    def _rejected(self) -> None:
        theme.toast(
            'The files were not taken',
            'bad',
            detail=f'{ACCEPTED.replace(",", ", ")} can be imported, up to 64 MB at once.',
        )


def open_import(transfer: Transfer, done: Done) -> None:
    """Ask for files or text."""
    with opened_dialog('Import tasks', text='Nothing is stored until you confirm.', size='mid') as dialog:

        async def show(files: Sequence[Incoming]) -> None:
            if await preview(transfer, files, done):
                dialog.close()

        with ui.element('div').classes('vs vs-3 w-full').style('margin-top: 12px'):
            with ui.element('div').style('height: 140px'):
                drop = ImportDrop(transfer, done, on_files=show)
            with ui.element('div'):
                Button('Choose files', icon='folder-open', kind='sm').on('click', js_handler=drop.pick)
            with field(
                'Or paste it',
                hint='One task a line, a /doc/create body, or a grader followed by its rows. '
                'The format is recognised by what is in it.',
            ):
                box = ui.textarea().props('outlined dense aria-label="Or paste it" rows=5').classes('code-box')
        with ui.element('div').classes('act'):
            Button('Cancel', on_click=dialog.close)
            Button('Preview', kind='pri', on_click=lambda: show([_pasted(box.value)]))


async def preview(transfer: Transfer, files: Sequence[Incoming], done: Done) -> bool:
    """Show what each row would become and store the good ones on confirmation; false where there is nothing to show."""
    if not any(file.data.strip() for file in files):
        theme.toast('There is nothing to import', 'warn', detail='The file or the text is empty.')
        return False
    plan = await run.io_bound(transfer.plan, files)
    if plan is None:
        return False
    if not plan.rows:
        theme.toast('There is nothing to import', 'warn', detail='No task was found in it.')
        return False
    client = ui.context.client

    async def told(receipt: Receipt) -> None:
        # What was clicked is gone by now, with the dialog it was in or the page below: speak at the page itself.
        with client.layout:
            await done()
            _tell(transfer, plan, receipt, done)

    ImportPreview(transfer, plan, told)
    return True


def _tell(transfer: Transfer, plan: Plan, receipt: Receipt, done: Done) -> None:
    """Say what was stored, and offer to take it back."""
    client = ui.context.client

    async def undo() -> None:
        left = await run.io_bound(transfer.undo, receipt)
        with client.layout:
            if left:
                detail = f'Changed since, and left as they are: {", ".join(left[:5])}'
                theme.toast(f'{plural(len(left), "task")} could not be taken back', 'warn', detail=detail)
            else:
                theme.toast('Import undone')
            await done()

    stored = receipt.count('added', 'version', 'copy')
    words: dict[Result, str] = {'added': 'new', 'version': 'new version', 'copy': 'copy', 'kept': 'kept as it was'}
    counts = [(receipt.count(result), word) for result, word in words.items()]
    detail = ', '.join(f'{count} {word}' for count, word in counts if count)
    left = receipt.count('left')
    if left:
        detail += f'. {plural(left, "task")} changed elsewhere since the preview, and left alone'
    cut = '' if len(receipt.rows) == len(plan.rows) else ' until you stopped it'
    kind = 'warn' if left else 'ok'
    theme.toast(f'{plural(stored, "task")} imported{cut}', kind, detail=detail, undo=undo if stored else None)


def _pasted(text: str | None) -> Incoming:
    # Half a character must be refused by name, not become a question mark.
    return Incoming('', (text or '').encode('utf-8', 'surrogatepass'))
