"""The page that compares two to six runs: their series in one chart each, what differs, task by task what changed.

Its address says all of it (runs, series, smoothing, which settings), so a link to it can be sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nicegui import run as background
from nicegui import ui

from studio.runs.comparison import MOST, ComparedTask, Difference
from studio.runs.results import EvaluationView
from studio.runs.views import Bars, RunView
from studio.ui.components.charts import ChartSpec, LiveChart, View, append_all
from studio.ui.components.elements import Button, Icon, Text, note, spacer
from studio.ui.components.panel import empty, panel
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.components.wording import plural
from studio.ui.layout import Shell
from studio.ui.pages.compare_parts import ConfigurationTable, RunsTable
from studio.ui.pages.compare_pick import address, compare_with
from studio.ui.pages.compare_reading import Reader, Reading
from studio.ui.pages.compare_series import chosen, keyed_columns, keyed_lines, specs
from studio.ui.pages.compare_tasks import CHANGE, TasksTable
from studio.ui.pages.run_series import REWARD
from studio.ui.theme import toast
from trainer.errors import RunFolderError

if TYPE_CHECKING:
    from studio.services import Studio

Evaluations = list[tuple[EvaluationView | None, EvaluationView | None]]


async def page(
    shell: Shell, runs: str = '', series: str = '', smooth: str = '', settings: str = '', sort: str = ''
) -> None:
    """Draw the page; everything that was picked stands in its address."""
    ids = [id for id in dict.fromkeys(runs.split(',')) if id]
    seen = await background.io_bound(shell.studio.comparison.views, ids)
    if seen is None:
        return
    views, gone = seen
    with shell.topbar('Compare', crumbs=[('Runs', '/runs')], main=' · '.join(view.name for view in views)[:80]):
        Text(plural(len(views), 'run'), classes='t3 nowrap')
        spacer()
        if len(views) > 1:
            _draw_export(shell, [view.id for view in views])
    with ui.element('div').classes('run'):
        _say_what_is_missing(len(gone), len(ids), left=len(views))
        if len(views) < 2:
            await _draw_too_few(shell, views)
            return
        found = await background.io_bound(_read, shell.studio, views)
        if found is not None:
            screen = CompareScreen(shell, views, *found, wanted=series.split(','), smooth=smooth == '1')
            screen.draw(only_differences=settings != 'all', sort=sort)


class CompareScreen:
    """The page in one tab."""

    def __init__(
        self,
        shell: Shell,
        views: list[RunView],
        known: dict[str, int],
        evaluations: Evaluations,
        differences: tuple[Difference, ...],
        tasks: tuple[ComparedTask, ...],
        *,
        wanted: Sequence[str],
        smooth: bool,
    ) -> None:
        self._shell, self._studio, self.views = shell, shell.studio, views
        self._known, self._evaluations, self._differences, self._tasks = known, evaluations, differences, tasks
        self._usual = chosen(known, ())
        self._names = chosen(known, wanted)
        self._smooth, self._all_settings = smooth, False
        self._charts: list[LiveChart] = []
        self._reader = Reader(self._studio, self._ids, self._names)
        self._looking = asyncio.Lock()

    @property
    def _ids(self) -> list[str]:
        return [view.id for view in self.views]

    def draw(self, *, only_differences: bool, sort: str) -> None:
        """Draw all of it, and begin to look."""
        self._all_settings = not only_differences
        live = any(not view.is_final for view in self.views)
        with panel('Runs', icon='git-compare') as head:
            with head:
                spacer()
                add = Button('Add a run', icon='plus', kind='sm', key='a', on_click=self._add)
                if len(self.views) >= MOST:
                    add.disable(f'At most {MOST} runs can be told apart')
            with ui.element('div').classes('tblbox'):
                self._table = RunsTable(self.views, self._evaluations, on_remove=self._remove)
        with ui.element('div').classes('cmpbar'):
            self._draw_series_menu()
            spacer()
            self._range = Segmented(
                [Choice('follow', 'Follow'), Choice('full', 'Full run')],
                'full',
                label='Range',
                on_change=lambda mode: self._set_view(mode=mode),
            )
            self._range.set_visibility(live)
            self._smoothing = Segmented(
                [Choice('raw', 'Raw'), Choice('smooth', 'Smoothed')],
                'smooth' if self._smooth else 'raw',
                label='Smoothing',
                on_change=lambda kind: self._set_view(smooth=kind == 'smooth'),
            )
        self._frame = ui.element('div').classes('charts')
        self._draw_charts()
        with ui.element('div').classes('cmpbot' if len(self.views) > 3 else 'cmpbot two'):
            self._by_task = TasksTable(self._tasks, len(self.views), sort=sort, on_sort=lambda _: self._say_address())
            ConfigurationTable(self._differences, only=only_differences, on_switch=self._switch_settings)
        self._timer = ui.timer(1.0, self._tick)

    # ------------------------------------------------------------------ charts

    def _draw_charts(self) -> None:
        self._charts = []
        self._frame.clear()
        with self._frame:
            for place, spec in enumerate(specs(self._names, self.views, self._known)):
                self._draw_chart(spec, 'hero tall' if place == 0 else 'tall' if place < 3 else '')
            if not self._names:
                with ui.element('div').classes('card nothing empty'):
                    Icon('chart-line', 'ic-l t3')
                    Text('None of these runs has measured anything yet.')
        if self._charts:
            self._charts[0].set_view(smooth=self._smooth)

    def _draw_chart(self, spec: ChartSpec, classes: str) -> None:
        name = REWARD if spec.title == 'Reward' else spec.title
        count = self._known[name]
        with panel(spec.title, classes=f'ch {classes}', flat=True) as head:
            with head:
                if name == REWARD:
                    Text(REWARD, classes='t3 t-micro mono')
                spacer()
                if count < len(self.views):
                    Text(f'in {count} of {len(self.views)} runs', classes='t3 t-micro')
            with ui.element('div').classes('fig').props('role=img data-figure') as figure:
                figure.props['aria-label'] = f'{spec.title} by step: no data yet'
                on_view = self._on_view if spec.leads else None
                group = f'compare:{",".join(self._ids)}'
                self._charts.append(LiveChart(spec, group=group, mode='full', on_view=on_view))
            with ui.element('div').classes('none').props('data-none'):
                Text('Not measured yet')

    def _draw_series_menu(self) -> None:
        with Button('Series', icon='chart-line', kind='sm') as button:
            self._count = Text(f'{len(self._names)} of {len(self._known)}', classes='t3 num')
            Icon('chevron-down', 'ic-xs')
            button.props('aria-haspopup=dialog')
            # The closed menu holds nothing: items that nobody asked for would have to travel with the page.
            with ui.menu().props('role=dialog aria-label=Series').classes('menu') as menu:
                rows = ui.element('div').classes('menu-rows')

        def fill() -> None:
            rows.clear()
            with rows:
                Button('The usual ones', kind='gho sm', on_click=lambda: self._choose_usual(menu))
                for name, count in self._known.items():
                    text = name if count == len(self.views) else f'{name} ({count} of {len(self.views)} runs)'
                    box = ui.checkbox(text, value=name in self._names).props('dense').classes('mi')
                    box.on_value_change(lambda event, name=name: self._toggle(name, bool(event.value)))

        menu.on('before-show', fill, args=[])
        if self._shared:
            return
        Text('No series is in all of these runs: each chart shows those that have it.', classes='t3 t-small')

    @property
    def _shared(self) -> bool:
        return not self._known or any(count == len(self.views) for count in self._known.values())

    async def _toggle(self, name: str, on: bool) -> None:
        kept = [*self._names, name] if on else [one for one in self._names if one != name]
        await self._choose(kept or [name])

    async def _choose_usual(self, menu: ui.menu) -> None:
        menu.close()
        await self._choose(self._usual)

    async def _choose(self, names: Sequence[str]) -> None:
        self._names = list(dict.fromkeys(names))
        self._count.set_text(f'{len(self._names)} of {len(self._known)}')
        self._reader.names, self._reader.reload = self._names, True
        self._draw_charts()
        self._say_address()
        await self._tick()

    # ------------------------------------------------------------------ looking

    async def _tick(self) -> None:
        # Two looks at once would hand the same steps out twice.
        async with self._looking:
            reading = await background.io_bound(self._reader.read)
            if reading is None:  # the studio is shutting down
                return
            if reading.gone:
                self._timer.cancel()
                toast('One of these runs was deleted', 'warn', detail='Here or in another tab. The others stay.')
                ui.navigate.to(address([view.id for view in reading.views], **self._kept()))
                return
            self._show(reading)
        self._timer.interval = 1.0 if reading.is_live else 5.0

    def _show(self, reading: Reading) -> None:
        self.views = reading.views
        self._table.show(reading.views)
        self._range.set_visibility(reading.is_live)
        if reading.lines is not None:
            lines = keyed_lines(reading.lines)
            for chart in self._charts:
                chart.load(lines, Bars(1, {}))
        elif self._charts and not append_all(self._charts, keyed_columns(reading.columns)):
            self._reader.reload = True

    # ------------------------------------------------------------------ address

    def _on_view(self, view: View) -> None:
        self._range.show(view.mode)
        self._smoothing.show('smooth' if view.smooth else 'raw')
        if view.smooth != self._smooth:
            self._smooth = view.smooth
            self._say_address()

    def _set_view(self, *, mode: str | None = None, smooth: bool | None = None) -> None:
        if self._charts:
            self._charts[0].set_view(mode=mode, smooth=smooth)

    def _switch_settings(self, only: bool) -> None:
        self._all_settings = not only
        self._say_address()

    def _say_address(self) -> None:
        self._shell.address(address(self._ids, **self._kept()), step=False)

    def _kept(self) -> dict[str, str]:
        """What of the address is not the runs; what is as usual is left out."""
        series = '' if self._names == self._usual else ','.join(self._names)
        shown = 'all' if self._all_settings else ''
        sort = self._by_task.sort.replace(f'-{CHANGE}', '')
        return {'series': series, 'smooth': '1' if self._smooth else '', 'settings': shown, 'sort': sort}

    async def _add(self) -> None:
        def add(view: RunView) -> None:
            ui.navigate.to(address([*self._ids, view.id], **self._kept()))

        await compare_with(self._studio, self._ids, add)

    def _remove(self, number: int) -> None:
        ids = [id for place, id in enumerate(self._ids) if place != number]
        ui.navigate.to(address(ids, **self._kept()))


def _read(
    studio: Studio, views: Sequence[RunView]
) -> tuple[dict[str, int], Evaluations, tuple[Difference, ...], tuple[ComparedTask, ...]]:
    """What stands still; called off the event loop."""
    service = studio.comparison
    evaluations = [(_evaluation(studio, view.id, 'before'), _evaluation(studio, view.id, 'after')) for view in views]
    known = service.series([view.id for view in views])
    return known, evaluations, service.configuration(views), service.tasks(views)


def _evaluation(studio: Studio, id: str, stage: Any) -> EvaluationView | None:
    try:
        return studio.results.evaluation(id, stage)
    except RunFolderError:
        return None  # A damaged file must not hide the other runs; the page of the run says it.


def _say_what_is_missing(gone: int, named: int, *, left: int) -> None:
    if gone:
        text = f'{plural(gone, "run")} of this link {"is" if gone == 1 else "are"} not here: deleted, or of another '
        note(f'{text}studio.{" The others are compared." if left > 1 else ""}', 'warn', icon='triangle-alert')
    if named > MOST:
        note(f'The link names {named} runs: the first {MOST} are compared.', 'warn', icon='triangle-alert')


async def _draw_too_few(shell: Shell, views: Sequence[RunView]) -> None:
    ids = [view.id for view in views]

    async def pick() -> None:
        await compare_with(shell.studio, ids, lambda view: ui.navigate.to(address([*ids, view.id])))

    if views:
        text, hint = f'"{views[0].name}" is the only run here.', 'A comparison takes two to six runs.'
    else:
        text = 'There is nothing to compare yet.'
        hint = 'Pick two to six runs in the list, or one here and another beside it.'
    with empty('git-compare', text, hint):
        Button('Add a run' if views else 'Pick a run', icon='plus', kind='pri', on_click=pick)


def _draw_export(shell: Shell, ids: Sequence[str]) -> None:
    async def copy() -> None:
        path = await ui.run_javascript('window.location.href')
        ui.clipboard.write(str(path))
        toast('Link copied')

    Button('Copy link', icon='link', kind='gho hide-s', on_click=copy)
    with Button('Export', icon='download') as button:
        Icon('chevron-down', 'ic-xs')
        button.props('aria-haspopup=menu')
        with ui.menu().classes('menu').props('auto-close'):
            for format, words in (('csv', 'CSV, a row for each step of each run'), ('json', 'JSON, with settings')):
                path = f'/compare/metrics.{format}?runs={",".join(ids)}'
                with ui.menu_item(on_click=lambda path=path: ui.download.from_url(path)).classes('mi'):
                    Icon('file-text', 'ic-s')
                    Text(words)
