"""The version history of a task: every version that was ever valid, to look at and to bring back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from nicegui import run, ui

from studio.documents import Documents, VersionView
from studio.ui import theme
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Text, checker_chip, spacer
from studio.ui.components.wording import ago, plural
from studio.ui.pages.editor_draft import Draft


async def open_history(documents: Documents, draft: Draft, redraw: Callable[[], Any]) -> None:
    """Show the versions; restoring one puts it into the draft, which becomes a new version."""
    versions = await run.io_bound(documents.versions, draft.view.id)
    if versions is None:
        return
    text = 'Every save of a valid, changed spec is a version. Runs keep the copies they were started with.'
    with opened_dialog('Version history', text=text, size='mid') as dialog:
        with ui.element('ol').classes('history'):
            for version in versions:
                _draw(version, draft, dialog, redraw)
            if not versions:
                Text('No version yet: the draft has problems to solve first.', 'li', 't3')
        with ui.element('div').classes('act'):
            spacer()
            Button('Close', on_click=dialog.close)


def _draw(version: VersionView, draft: Draft, dialog: ui.dialog, redraw: Callable[[], Any]) -> None:
    spec = version.task_spec
    with ui.element('li'):
        Text(f'v{version.number}', classes='num w6 n')
        with ui.element('span').classes('vs vs-0 what'):
            Text(' '.join(spec.prompt.split())[:160], classes='ell').props['title'] = spec.prompt[:1000]
            Text(
                f'{ago(version.created_at)} · hash {version.hash[:4]}…{version.hash[-4:]} · '
                f'{plural(len(spec.setup_files), "file")}',
                classes='hint mono',
            )
        checker_chip(spec.checker.type)
        if version.number == draft.view.version:
            Text('current', classes='chip')
            return

        async def restore() -> None:
            dialog.close()
            before = draft.raw
            draft.raw = copy.deepcopy(spec.to_json())
            draft.edited()
            redraw()
            await draft.save()

            def undo() -> None:
                draft.raw = before
                draft.edited()
                redraw()

            theme.toast(f'v{version.number} restored as v{draft.view.version}', undo=undo)

        Button('Restore', icon='rotate-ccw', kind='sm', on_click=restore)
