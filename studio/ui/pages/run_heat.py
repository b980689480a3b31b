"""The card with the heatmap on the page of a run: its pages of tasks, a search among them, and opening a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import run as background
from nicegui import ui

from studio.runs.heat_grid import ROWS, HeatView
from studio.ui.components.elements import Button, Text, spacer
from studio.ui.components.heatmap import Heatmap
from studio.ui.components.panel import panel
from studio.ui.pages.run_reading import Reader

if TYPE_CHECKING:
    from studio.services import Studio


class HeatCard:
    """The card, drawn into the current slot."""

    def __init__(self, studio: Studio, reader: Reader) -> None:
        self._studio = studio
        self._reader = reader
        self._paged = ''
        with panel('Success by task and step', flat=True) as head:
            with head:
                Text('Pick a cell to open its group', classes='t3 t-small hide-s')
                spacer()
                _legend()
            with ui.element('div').classes('hm-bar') as self._bar:
                self._draw_bar()
            self._bar.set_visibility(False)
            self._none = Text('No group has ended yet.', 'div', 't3 t-small pad')
            # An element that is hidden itself is not listened to, and would miss that its browser side is ready.
            self._box = ui.element('div')
            with self._box:
                self._heat = Heatmap(on_open=self._open, on_look=self._describe, on_turn=self._turn)
            self._box.set_visibility(False)

    def show(self, view: HeatView) -> None:
        """Bring it up to date."""
        if view.total:
            self._none.set_text('No task fits.')
        self._none.set_visibility(not view.found)
        self._box.set_visibility(bool(view.found))
        self._heat.show(view)
        self._bar.set_visibility(view.total > ROWS)
        paged = f'{view.page * ROWS + 1:,} to {view.page * ROWS + len(view.tasks):,} of {view.found:,} tasks'
        if paged != self._paged:
            self._paged = paged
            self._range.set_text(paged if view.found else '')
            self._before.off('' if view.page else 'There are no more')
            self._after.off('' if view.page + 1 < view.pages else 'There are no more')

    def _draw_bar(self) -> None:
        box = ui.input(placeholder='Find a task').props('borderless dense debounce=200').classes('inp')
        box.props['aria-label'] = 'Find a task in the heatmap'
        box.on_value_change(lambda event: self._find(event.value or ''))
        spacer()
        self._range = Text(classes='t3 t-small num')
        self._before = Button(icon='chevron-left', kind='icn xs', label='Tasks before', on_click=lambda: self._turn(-1))
        self._after = Button(icon='chevron-right', kind='icn xs', label='Tasks after', on_click=lambda: self._turn(1))

    async def _turn(self, by: int) -> None:
        await self._show_page(self._reader.heat_page + by, None)

    async def _find(self, text: str) -> None:
        await self._show_page(0, text)

    async def _show_page(self, page: int, search: str | None) -> None:
        view = await background.io_bound(self._reader.page_heat, page, search)
        if view is not None:
            self.show(view)

    def _describe(self, task: str, column: int) -> str:
        grid = self._reader.grid
        return '' if grid is None or not task else grid.describe(task, column)

    async def _open(self, task: str, column: int) -> None:
        grid, run_id = self._reader.grid, self._reader.run_id
        step = grid.newest(task, column) if grid is not None else None
        if step is None:
            return
        group = await background.io_bound(self._studio.runs.group, run_id, step, task)
        if group:
            ui.navigate.to(f'/runs/{run_id}/rollouts/{group[0].id}')


def _legend() -> None:
    with ui.element('span').classes('leg'):
        Text('0')
        with ui.element('span').classes('ramp'):
            for level in range(7):
                ui.element('i').style(f'background: var(--h{level})')
        Text('1')
    for mark, text in (('hat', 'error'), ('nil', 'not drawn')):
        with ui.element('span').classes('leg'):
            ui.element('i').classes(mark)
            Text(text)
