"""The dialog that fills the launch page from a run: its model, settings and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import run as background
from nicegui import ui

from studio.runs.views import RunPage, RunQuery, RunView
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Text, spacer
from studio.ui.components.panel import search_box
from studio.ui.components.wording import ago, plural
from studio.ui.pages.run_parts import StateChip

if TYPE_CHECKING:
    from studio.services import Studio

SHOWN: Final = 30
"""Runs listed at once; a search finds the others."""


async def open_copy(studio: Studio) -> None:
    """Open the dialog."""
    found = await background.io_bound(studio.runs.list, RunQuery(per_page=SHOWN))
    if found is not None:
        _CopyDialog(studio, found)


class _CopyDialog:
    """The dialog in one tab."""

    def __init__(self, studio: Studio, found: RunPage) -> None:
        self._studio = studio
        text = 'Model, settings and tasks of the run replace what is in the form.'
        with opened_dialog('Copy from a run', text=text, size='mid') as self._dialog:
            with ui.element('div').classes('hs mt-3 w-full'):
                search_box('Search runs', '', self._find)
            self._body = ui.element('div').classes('pick')
            with ui.element('div').classes('act'):
                self._more = Text(classes='t3 t-small num')
                spacer()
                Button('Cancel', on_click=self._dialog.close)
        self._draw(found)

    async def _find(self, text: str) -> None:
        found = await background.io_bound(self._studio.runs.list, RunQuery(search=text, per_page=SHOWN))
        if found is not None:
            self._draw(found)

    def _draw(self, found: RunPage) -> None:
        self._body.clear()
        with self._body:
            for view in found.rows:
                self._row(view)
            if not found.rows:
                Text('No run fits.' if found.counts else 'There are no runs yet.', 'div', 't3 t-small pad')
        left = found.total - len(found.rows)
        self._more.set_text(f'{left:,} more: search to see them' if left else '')

    def _row(self, view: RunView) -> None:
        with ui.element('button').props('type=button').classes('copyrow') as row:
            with ui.element('span').classes('vs vs-0'):
                Text(view.name, classes='w5 ell').props['title'] = view.name
                Text(f'{view.model}, {plural(view.task_count, "task")}, {ago(view.created_at)}', classes='hint ell')
            StateChip().show(view)
        row.props['aria-label'] = f'Copy {view.name}'
        row.on('click', lambda: self._copy(view.id), args=[])

    def _copy(self, id: str) -> None:
        self._dialog.close()
        ui.navigate.to(f'/train?copy={id}')
