"""Exporting tasks: the formats with what each of them holds, as a menu or a dialog, and the download."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from nicegui import run, ui

from studio.documents.transfer import Transfer
from studio.exchange.formats import WRITERS, Writer
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Icon, Text
from studio.ui.components.wording import plural

_HOLDS: Final = {
    'jsonl': ('braces', 'Everything: task_spec, title, topics, notes, solutions. Comes back whole.'),
    'harbor': ('file-archive', 'One folder a task, to run with Harbor in containers. Comes back whole.'),
    'task_spec': ('file', 'The bare task_spec, without title and solutions.'),
    'doc-create': ('upload', 'A request body that publishes the tasks elsewhere; without solutions.'),
}


def draw_export_menu(transfer: Transfer, ids: Callable[[], Sequence[str]]) -> None:
    """Draw the formats as a menu of the button around it; ``ids`` says, when one is picked, of which tasks."""
    with ui.menu().props('anchor="top left" self="bottom left"').classes('menu'):
        for writer in WRITERS:
            icon, holds = _HOLDS[writer.name]
            with ui.menu_item(on_click=lambda chosen=writer: _download(transfer, ids(), chosen)).classes('mi two'):
                _draw_format(writer, icon, holds)


def open_export(transfer: Transfer, ids: Sequence[str]) -> None:
    """Ask for a format and download the latest versions of the tasks in it."""
    what = 'The latest valid version of each.' if len(ids) > 1 else 'Its latest valid version.'
    with opened_dialog(f'Export {plural(len(ids), "task")}', text=what) as dialog:

        async def download(writer: Writer) -> None:
            dialog.close()
            await _download(transfer, ids, writer)

        with ui.element('div').classes('export-formats'):
            for writer in WRITERS:
                icon, holds = _HOLDS[writer.name]
                with ui.element('button').props('type=button').classes('export-format') as button:
                    _draw_format(writer, icon, holds)
                button.on('click', lambda chosen=writer: download(chosen), args=[])
        with ui.element('div').classes('act'):
            Button('Cancel', on_click=dialog.close)


def _draw_format(writer: Writer, icon: str, holds: str) -> None:
    Icon(icon, 't3')
    with ui.element('span').classes('vs vs-0'):
        Text(writer.title, 'b')
        Text(holds, classes='t2')


async def _download(transfer: Transfer, ids: Sequence[str], writer: Writer) -> None:
    content = await run.io_bound(transfer.export, list(ids), writer.name)
    if content is not None:
        name = ('tasks' if len(ids) > 1 else 'task') + writer.suffix
        if writer.name == 'task_spec' and len(ids) > 1:
            name += 'l'
        ui.download.content(content, name, writer.media_type)
