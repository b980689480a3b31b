"""The list of runs: state, step, reward and time of each, kept up to date; what can be done with one is in its menu.

Two to six that are ticked (with the mouse, or X and Shift X) can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from nicegui import events, ui
from nicegui import run as background

from studio.runs import health
from studio.runs.comparison import MOST
from studio.runs.views import RunPage, RunQuery, RunView
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Text, spacer
from studio.ui.components.panel import empty, search_box
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.components.wording import ago, duration
from studio.ui.layout import Shell
from studio.ui.pages import runs_actions
from studio.ui.pages.compare_pick import address, compare_with
from studio.ui.pages.run_parts import StateChip
from studio.ui.pages.runs_actions import entry
from studio.ui.pages.runs_queue import QueueCard
from trainer.events import RunState
from trainer.models import MODELS

if TYPE_CHECKING:
    from studio.services import Studio

PER_PAGE: Final = 40
GROUPS: Final[dict[str, tuple[str, tuple[RunState, ...]]]] = {
    'all': ('All', ()),
    'live': ('Live', ('queued', 'preparing', 'cold_start', 'training', 'evaluating')),
    'finished': ('Finished', ('finished',)),
    'ended': ('Ended early', ('stopped', 'failed', 'interrupted')),
}
TITLES: Final = {model.id: model.title for model in MODELS}


async def page(shell: Shell, search: str = '', state: str = 'all', at: int = 1) -> None:
    """Draw the page; what is searched, the filter and the page stand in its address."""
    state = state if state in GROUPS else 'all'
    query = RunQuery(search=search, states=GROUPS[state][1], page=max(1, at), per_page=PER_PAGE)
    found = await background.io_bound(shell.studio.runs.list, query)
    if found is None:
        return
    with shell.topbar('Runs'):
        Text(f'{sum(found.counts.values()):,}', classes='t3 num')
        spacer()
        Button('New run', icon='plus', kind='pri', on_click=lambda: ui.navigate.to('/train'))
    if not found.rows and not search and state == 'all':
        _empty()
        return
    RunsScreen(shell.studio, query, state, found)


class RunsScreen:
    """The table in one tab."""

    def __init__(self, studio: Studio, query: RunQuery, state: str, found: RunPage) -> None:
        self.studio = studio
        self.query = query
        self.state = state
        self.lines: list[_Line] = []
        self.picked: dict[str, None] = {}
        self._pages_shown = (0, 0)
        with ui.element('div').classes('runlist'):
            self.queue = QueueCard(studio, self.refresh)
            with ui.element('div').classes('runbar'):
                search_box('Search runs', self.query.search, lambda text: self._go(search=text))
                choices = [Choice(name, label) for name, (label, _) in GROUPS.items()]
                Segmented(choices, state, label='State', on_change=lambda picked: self._go(state=picked))
                spacer()
                self.compare = Button('Compare', icon='git-compare', kind='sm', key='c', on_click=self._compare)
                self.compare.mark('compare')
                self.unpick = Button(icon='x', kind='gho icn sm', label='Let go of all', key='escape')
                self.unpick.on('click', lambda: self.pick(list(self.picked), False), args=[])
                self.pages = ui.element('span').classes('hs hs-6')
            frame = ui.element('div').classes('card tblbox').props('data-rows')
            # Keys and ranges are told by rows.js.
            frame.on('rows-pick', self._told, js_handler='(event) => emit(event.detail)')
            with frame, ui.element('table').classes('tbl'):
                with ui.element('thead'), ui.element('tr'):
                    for name, kind in (
                        ('', 'pickcol'),
                        ('State', ''),
                        ('Run', ''),
                        ('Model', 'hide-s'),
                        ('Step', 'r'),
                        ('Reward', 'r'),
                        ('Tasks', 'r hide-s'),
                        ('Started', 'hide-s'),
                        ('Duration', 'r'),
                        ('', ''),
                    ):
                        with ui.element('th').classes(kind):
                            Text(name or ('Selected' if kind else 'Actions'), classes='' if name else 'sr')
                self.body = ui.element('tbody')
            self.none = Text('No run fits. Clear the search or the filter.', 'div', 't3 pad')
        self._show(found)
        self._show_picked()
        ui.timer(2.0, self.refresh)

    # ------------------------------------------------------------------ picked

    def pick(self, ids: Sequence[str], on: bool) -> None:
        """Tick runs, or let them go."""
        for id in ids:
            if on:
                self.picked[id] = None
            else:
                self.picked.pop(id, None)
        self._show_picked()

    def _told(self, event: events.GenericEventArguments) -> None:
        self.pick([str(id) for id in event.args['ids']], bool(event.args['on']))

    def _show_picked(self) -> None:
        for line in self.lines:
            line.show_picked(line.id in self.picked)
        count = len(self.picked)
        self.compare.set_text(f'Compare ({count})' if count else 'Compare')
        many = f'At most {MOST} runs can be told apart: let go of {count - MOST}' if count > MOST else ''
        self.compare.off(many or ('' if count > 1 else 'Tick two to six runs (X on a row)'))
        self.unpick.set_visibility(count > 0)

    def _compare(self) -> None:
        ui.navigate.to(address(list(self.picked)))

    async def refresh(self) -> None:
        """Read the page again and bring its lines up to date."""
        found = await background.io_bound(self.studio.runs.list, self.query)
        waiting = await background.io_bound(self.studio.runs.waiting)
        if found is not None and waiting is not None:
            self._show(found)
            self.queue.show(waiting)

    def _show(self, found: RunPage) -> None:
        if [line.id for line in self.lines] != [view.id for view in found.rows]:
            self.body.clear()
            with self.body:
                self.lines = [_Line(self, view) for view in found.rows]
            self._show_picked()
        self._draw_pages(found.total)
        for line, view in zip(self.lines, found.rows, strict=True):
            line.show(view)
        self.none.set_visibility(not found.rows)

    def _draw_pages(self, total: int) -> None:
        last = max(1, -(-total // PER_PAGE))
        if self._pages_shown == (self.query.page, last):
            return
        self._pages_shown = (self.query.page, last)
        self.pages.clear()
        if last == 1:
            return
        with self.pages:
            Text(f'Page {self.query.page} of {last}', classes='t3 t-small num')
            for by, icon, label, key in (
                (-1, 'chevron-left', 'Newer runs', '['),
                (1, 'chevron-right', 'Older runs', ']'),
            ):
                button = Button(icon=icon, kind='icn sm', label=label, key=key)
                to = self.query.page + by
                if 1 <= to <= last:
                    button.on('click', lambda to=to: self._go(at=to), args=[])
                else:
                    button.disable('There are no more')

    async def _go(self, *, search: str | None = None, state: str | None = None, at: int = 1) -> None:
        """Show something else: in place, so that the search box keeps its focus; the address follows."""
        self.state = self.state if state is None else state
        search = self.query.search if search is None else search
        self.query = RunQuery(search=search, states=GROUPS[self.state][1], page=at, per_page=PER_PAGE)
        wanted = {'search': search, 'state': '' if self.state == 'all' else self.state, 'at': '' if at == 1 else at}
        kept = {name: value for name, value in wanted.items() if value}
        address = '/runs' + (f'?{urlencode(kept)}' if kept else '')
        ui.run_javascript(f'history.replaceState(history.state, "", {json.dumps(address)})')
        await self.refresh()


class _Line:
    """One row of the table."""

    def __init__(self, screen: RunsScreen, view: RunView) -> None:
        self.id = view.id
        self._screen = screen
        self._studio = screen.studio
        with ui.element('tr') as self._row:
            with ui.element('td').classes('pickcol'):
                self._box = ui.checkbox(on_change=self._ticked).props('dense')
            with ui.element('td'):
                self._chip = StateChip()
            link = f'href="/runs/{view.id}" data-row="{view.id}"'
            with ui.element('td').classes('grow'), ui.element('a').classes('w5 ell').props(link):
                self._name = Text()
            with ui.element('td').classes('t2 hide-s'):
                Text(TITLES.get(view.model, view.model), classes='ell').props['title'] = view.model
            self._step, self._reward = _cell('r num'), _cell('r num w6')
            with ui.element('td').classes('r num t2 hide-s'):
                Text(f'{view.task_count:,}')
            self._started, self._duration = _cell('t2 hide-s num'), _cell('r num t2')
            with ui.element('td').classes('r'):
                self._menu_button = Button(icon='ellipsis', kind='gho icn sm', label='Menu')
                with self._menu_button, ui.menu().classes('menu').props('auto-close') as self._menu:
                    pass
                self._menu_button.on('click', self._draw_menu, args=[])
        self.show(view)

    def show(self, view: RunView) -> None:
        """Bring the row up to date."""
        self.view = view
        self._chip.show(view)
        self._name.set_text(view.name)
        self._menu_button.props['aria-label'] = f'Menu of {view.name}'
        self._box.props['aria-label'] = f'Select {view.name}'
        self._step.set_text(f'{view.step:,} of {view.total:,}' if view.total else '–')  # noqa: RUF001
        reward = view.latest.get(health.REWARD)
        self._reward.set_text('–' if reward is None else f'{reward:.2f}')  # noqa: RUF001
        self._started.set_text(ago(view.started_at))
        self._duration.set_text(duration(view.elapsed_s))

    def show_picked(self, on: bool) -> None:
        """Show whether the row is ticked."""
        self._box.value = on
        self._row.classes(add='sel') if on else self._row.classes(remove='sel')

    def _ticked(self, event: events.ValueChangeEventArguments[bool | None]) -> None:
        if (self.id in self._screen.picked) != event.value:
            self._screen.pick([self.id], bool(event.value))

    def _draw_menu(self) -> None:
        self._menu.clear()
        view = self.view
        with self._menu:
            entry('Open', 'arrow-right', lambda: ui.navigate.to(f'/runs/{view.id}'))
            if view.can_start:
                entry('Start', 'play', self._start)
            if view.is_final:
                more = view.state == 'finished'
                entry('Resume with more steps' if more else 'Resume', 'play', self._resume)
            if view.state == 'training' and not view.stopping:
                entry('Checkpoint now', 'save', self._checkpoint)
            if view.can_stop:
                entry('Take out of the queue' if view.waiting else 'Stop', 'square', self._stop)
            entry('Rename', 'pencil', self._rename)
            entry('New run from this', 'copy', lambda: ui.navigate.to(f'/train?copy={view.id}'))
            entry('Compare with…', 'git-compare', self._compare_with)
            if view.has_adapter:
                entry('Download adapter', 'download', lambda: ui.download.from_url(f'/adapters/{view.id}/download'))
            if not view.is_active:
                entry('Delete', 'trash-2', self._delete, 'c-bad')

    async def _start(self) -> None:
        await background.io_bound(self._studio.runs.start, self.id)
        await self._screen.refresh()

    async def _stop(self) -> None:
        await runs_actions.stop(self._studio, self.view, self._screen.refresh)

    async def _resume(self) -> None:
        await runs_actions.resume(self._studio, self.view, self._screen.refresh)

    async def _checkpoint(self) -> None:
        await runs_actions.checkpoint(self._studio, self.view, self._screen.refresh)

    async def _compare_with(self) -> None:
        await compare_with(self._studio, [self.id], lambda other: ui.navigate.to(address([self.id, other.id])))

    async def _delete(self) -> None:
        await runs_actions.delete(self._studio, self.view, self._screen.refresh)

    def _rename(self) -> None:
        with opened_dialog('Rename the run', text='Its folder and links stay the same.') as dialog:
            box = ui.input(value=self.view.name).props('outlined dense autofocus maxlength=200').classes('w-full mt-3')
            box.props['aria-label'] = 'Name of the run'

            async def rename() -> None:
                dialog.close()
                await background.io_bound(self._studio.runs.rename, self.id, box.value)
                await self._screen.refresh()

            box.on('keydown.enter', rename, args=[])
            with ui.element('div').classes('act'):
                Button('Cancel', on_click=dialog.close)
                Button('Rename', kind='pri', on_click=rename)


def _cell(classes: str) -> Text:
    with ui.element('td').classes(classes):
        return Text()


def _empty() -> None:
    with empty('activity', 'No runs yet. Pick tasks and start one.', room=120):
        Button('New run', icon='plus', on_click=lambda: ui.navigate.to('/train'))
