"""The runs that wait, in the order in which they will start; buttons and arrow keys move one, with undo."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from nicegui import run as background
from nicegui import ui

from studio.runs.views import RunView
from studio.ui.components.elements import Button, Text, spacer
from studio.ui.components.panel import panel
from studio.ui.components.wording import ago, plural
from studio.ui.pages import runs_actions
from studio.ui.theme import toast

if TYPE_CHECKING:
    from studio.services import Studio

FOCUS: Final = """
(([id, way]) => {
  const row = document.querySelector(`[data-queue="${id}"]`);
  (row?.querySelector(`[data-way="${way}"]:not([disabled])`) ?? row?.querySelector("button:not([disabled])"))?.focus();
})([%s, %s])
"""


class QueueCard:
    """The card in one tab; not there while nothing waits."""

    def __init__(self, studio: Studio, refresh: Callable[[], Awaitable[None]]) -> None:
        self._studio, self._refresh = studio, refresh
        self._client = ui.context.client
        self._shown: tuple[tuple[str, str], ...] = ()
        self._box = ui.element('div').classes('queue')
        self._box.set_visibility(False)

    def show(self, waiting: Sequence[RunView]) -> None:
        """Bring it up to date."""
        shown = tuple((view.id, view.name) for view in waiting)
        if shown == self._shown:
            return
        self._shown = shown
        self._box.clear()
        self._box.set_visibility(bool(waiting))
        with self._box, panel('Queue', icon='list-ordered') as head:
            with head:
                Text(f'{plural(len(waiting), "run")} waiting', classes='t3 t-small num')
                spacer()
                Text('Arrow keys on a button move its run', classes='hint hide-s')
            with ui.element('ol').props('aria-label="Runs that wait, the next one first"'):
                for place, view in enumerate(waiting):
                    self._row(view, place, len(waiting))

    def _row(self, view: RunView, place: int, count: int) -> None:
        with ui.element('li') as row:
            row.props['data-queue'] = view.id
            Text(str(place + 1), classes='n num')
            with ui.element('a').classes('w5 ell').props(f'href="/runs/{view.id}"'):
                Text(view.name)
            Text('starts next' if place == 0 else f'queued {ago(view.queued_at)}', classes='t3 t-small num hide-s')
            with ui.element('span').classes('hs hs-1') as buttons:
                for icon, to, words, end in (
                    ('arrow-up', place - 1, 'Earlier', place == 0),
                    ('arrow-down', place + 1, 'Later', place == count - 1),
                ):
                    button = Button(icon=icon, kind='gho icn sm', label=f'{words}: {view.name}')
                    button.props['data-way'] = words
                    if end:
                        button.disable('It is the first' if place == 0 else 'It is the last')
                    else:
                        button.on('click', lambda to=to, way=words: self._move(view, to, way), args=[])
                out = Button(icon='x', kind='gho icn sm', label=f'Take out: {view.name}')
                out.on('click', lambda: runs_actions.stop(self._studio, view, self._refresh), args=[])
            buttons.on('keydown.up.prevent', lambda: self._move(view, place - 1, 'Earlier'), args=[])
            buttons.on('keydown.down.prevent', lambda: self._move(view, place + 1, 'Later'), args=[])

    async def _move(self, view: RunView, to: int, way: str) -> None:
        if not 0 <= to < len(self._shown):
            return
        before = await background.io_bound(self._studio.runs.move, view.id, to)
        if before is None:
            return
        await self._refresh()

        async def undo() -> None:
            await background.io_bound(self._studio.runs.reorder, before)
            await self._refresh()

        # The row is drawn anew: what is said hangs at the page, and the keyboard stays with the run that was moved.
        with self._client.layout:
            ui.run_javascript(FOCUS % (json.dumps(view.id), json.dumps(way)))
            toast(f'"{view.name[:60]}" starts {"next" if to == 0 else f"as number {to + 1}"}', undo=undo)
