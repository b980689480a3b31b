"""Opens a task for the pages that belong to one, or says that it is gone."""

from __future__ import annotations

from nicegui import run, ui

from studio.documents.views import DocumentView
from studio.errors import NotFound
from studio.services import Studio
from studio.ui.components.elements import Button
from studio.ui.components.panel import empty
from studio.ui.layout import Shell
from studio.ui.pages.editor_draft import save_open_drafts


async def open_task(shell: Shell, studio: Studio, task_id: str) -> DocumentView | None:
    """Return a task as it stands with what open tabs hold of it; ``None`` where the page is drawn or gone already."""
    await save_open_drafts(task_id)
    try:
        view: DocumentView | None = await run.io_bound(studio.documents.get, task_id)
    except NotFound:
        _draw_missing(shell)
        return None
    return view


def _draw_missing(shell: Shell) -> None:
    with shell.topbar('Task not found', crumbs=[('Tasks', '/')]):
        pass
    with empty('file-x', 'There is no task at this address.', 'It may have been deleted in another tab.'):
        Button('All tasks', on_click=lambda: ui.navigate.to('/'))
