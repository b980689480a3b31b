"""Picking a run to compare with: a dialog with the newest runs, or those that fit what is typed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from nicegui import run as background
from nicegui import ui

from studio.runs import health
from studio.runs.views import RunQuery, RunView
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Icon, Text
from studio.ui.components.panel import search_box
from studio.ui.components.wording import ago
from studio.ui.pages.run_parts import StateChip

if TYPE_CHECKING:
    from studio.services import Studio

OFFERED: Final = 12


def address(ids: Collection[str], **more: str) -> str:
    """Where runs are compared; whoever has the link sees the same."""
    kept = ''.join(f'&{name}={quote(value, safe=",/")}' for name, value in more.items() if value)
    return f'/compare?runs={",".join(ids)}{kept}'


async def compare_with(studio: Studio, ids: Collection[str], on_pick: Callable[[RunView], Any]) -> None:
    """Let one more run be picked beside ``ids``."""
    with opened_dialog('Compare with…', text='The newest runs come first.', size='mid') as dialog:
        with ui.element('div').classes('pickrun'):
            search_box('Find a run', '', lambda text: show(text))
            rows = ui.element('div').classes('rows').props('role=list')
        with ui.element('div').classes('act'):
            Button('Cancel', on_click=dialog.close)

    async def show(text: str) -> None:
        query = RunQuery(search=text, per_page=OFFERED + len(ids))
        found = await background.io_bound(studio.runs.list, query)
        if found is None or dialog.is_deleted:
            return
        rows.clear()
        with rows:
            fitting = [view for view in found.rows if view.id not in ids][:OFFERED]
            for view in fitting:
                _row(view, pick)
            if not fitting:
                Text('No other run fits.' if text else 'There is no other run yet.', 'div', 't3 pad')

    def pick(view: RunView) -> Any:
        dialog.close()
        return on_pick(view)

    await show('')


def _row(view: RunView, pick: Callable[[RunView], Any]) -> None:
    with ui.element('div').props('role=listitem'), ui.element('button').classes('pk').props('type=button') as button:
        with ui.element('span').classes('vs vs-0 sp'):
            Text(view.name, classes='w5 ell')
            Text(f'{view.model} · {ago(view.created_at)}', classes='t3 t-small ell')
        reward = view.latest.get(health.REWARD)
        Text('' if reward is None else f'{reward:.2f}', classes='num w6').props['title'] = 'Last reward'
        StateChip().show(view)
        Icon('plus', 'ic-s t3')
    button.on('click', lambda: pick(view), args=[])
