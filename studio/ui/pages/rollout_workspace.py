"""The final workspace of a rollout: its files to be read, all of it as a zip, or why it is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import run as background
from nicegui import ui

from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Icon, Text, note, spacer
from studio.ui.components.panel import panel
from studio.ui.components.plain_text import visible
from studio.ui.components.transcript import long_text
from studio.ui.components.wording import plural, size
from studio.ui.pages.playground_tree import WorkspaceTree
from studio.ui.theme import toast
from studio.workspaces.changes import Entry
from studio.workspaces.final import WorkspaceView
from trainer.errors import RlvrError

if TYPE_CHECKING:
    from studio.services import Studio

SHOWN: Final = 300


def workspace_card(studio: Studio, run_id: str, rollout_id: int, view: WorkspaceView) -> None:
    """Draw the card; a file opens in a dialog."""
    with panel('Final workspace', icon='folder') as head:
        if view.why_not:
            Text(view.why_not, 'p', 't3 t-small pad')
            return
        files = sum(not entry.is_folder and entry.mark != 'D' for entry in view.entries)
        with head:
            spacer()
            Text(f'{plural(files, "file")}, {size(view.size)}', classes='t3 t-small num nowrap')
            with ui.element('a').classes('btn gho icn z-sm') as link:
                link.props['href'] = f'/runs/{run_id}/rollouts/{rollout_id}/workspace.zip'
                link.props['download'] = True
                link.props['aria-label'] = link.props['title'] = 'Download as zip'
                Icon('download', 'ic-s')

        async def show(path: str) -> None:
            entry = next(entry for entry in view.entries if entry.path == path)
            await _show(studio, run_id, rollout_id, entry)

        with ui.element('div').classes('kept'):
            WorkspaceTree(on_changed=show, on_file=show).show(view.entries[:SHOWN])
            if len(view.entries) > SHOWN:
                Text(f'… and {len(view.entries) - SHOWN:,} more, all in the zip', 'p', 't3 t-small pad')
        for line in view.left_out[:3]:
            note(f'{visible(line)}. Without it this rollout cannot be graded again.', 'warn', lead='Not kept:')
        if len(view.left_out) > 3:
            Text(f'and {len(view.left_out) - 3:,} more not kept', 'p', 't3 t-small pad')


async def _show(studio: Studio, run_id: str, rollout_id: int, entry: Entry) -> None:
    if entry.mark == 'D':
        toast(f'{entry.path} was deleted by the episode', 'warn')
        return
    try:
        found = await background.io_bound(studio.workspaces.read, run_id, rollout_id, entry.path)
    except RlvrError as error:
        toast(error.message, 'bad')
        return
    if found is None:
        return
    with opened_dialog(visible(found.path), text=found.note, size='wide') as dialog:
        if found.text:
            with ui.element('div').classes('kept-file').props('role=region tabindex=0') as box:
                box.props['aria-label'] = f'Content of {visible(found.path)}'
                long_text(found.text, 'code')
        with ui.element('div').classes('act'):
            Button('Close', on_click=dialog.close).props('autofocus')
