"""The page of one run: live charts, health, heatmap, events and log, from one look at the store each second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from nicegui import run as background
from nicegui import ui

from studio.errors import NotFound
from studio.runs.views import RunView
from studio.ui.components.before_after import before_after
from studio.ui.components.charts import ChartSpec, View
from studio.ui.components.elements import Button, Icon, Text, spacer
from studio.ui.components.panel import empty, panel
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.components.wording import plural
from studio.ui.layout import Shell
from studio.ui.pages import runs_actions
from studio.ui.pages.compare_pick import address, compare_with
from studio.ui.pages.run_charts import Charts
from studio.ui.pages.run_heat import HeatCard
from studio.ui.pages.run_parts import (
    Events,
    HealthStrip,
    Log,
    MachineCard,
    Outcome,
    Progress,
    StateChip,
    conditions,
    log_link,
    pairs,
    share,
)
from studio.ui.pages.run_reading import Known, Reader, Reading, token_limit
from studio.ui.pages.run_series import HELD_OUT, others
from studio.ui.theme import toast
from trainer.models import MODELS

if TYPE_CHECKING:
    from studio.services import Studio

EXPORTS: Final = {
    'csv': 'Metrics as CSV',
    'json': 'Metrics as JSON, with settings',
    'tensorboard': 'Metrics as TensorBoard events',
}
"""Format → what the menu calls it."""


async def page(shell: Shell, run_id: str) -> None:
    """Draw the page."""
    try:
        view = await background.io_bound(shell.studio.runs.get, run_id)
        limit = None if view is None else await background.io_bound(token_limit, shell.studio, view)
    except NotFound as error:
        with shell.topbar('Run not found', crumbs=[('Runs', '/runs')]):
            pass
        _missing(error)
        return
    if view is not None:
        names = await background.io_bound(shell.studio.runs.metric_names, run_id)
        RunScreen(shell, view, limit, others(names or ()))


class RunScreen:
    """The page of a run in one tab."""

    def __init__(self, shell: Shell, view: RunView, limit: int | None, more: Sequence[ChartSpec]) -> None:
        self.studio: Studio = shell.studio
        self.id = view.id
        self.reader = Reader(self.studio, view.id, tuple(name for spec in more for name in spec.metrics))
        self.known = Known()
        self.recent: dict[str, list[float | None]] = {}
        self.checkpoints: list[int] = []
        self.log_lines: list[str] = []
        self.limit = limit
        self._held_out_shown: tuple[bool, bool] = (False, False)
        self._stopping = False
        self._looking = asyncio.Lock()
        self._topbar(shell, view)
        with ui.element('div').classes('runpage'):
            self._body(view, more)
        self._show_view(view)
        self.timer = ui.timer(1.0, self._tick)

    # ------------------------------------------------------------------ frame

    def _topbar(self, shell: Shell, view: RunView) -> None:
        model = next((model.title for model in MODELS if model.id == view.model), view.model)
        with shell.topbar(view.name, crumbs=[('Runs', '/runs')]):
            self.chip = StateChip()
            Text(model, classes='t3 t-small hide-s nowrap ell')
            with ui.element('a').classes('t-small nowrap').props(f'href="/runs/{view.id}/tasks"') as tasks:
                tasks.props['title'] = 'The tasks as they were when the run was made'
                Text(plural(view.task_count, 'task'))
            spacer()
            self.download = ui.element('a').classes('btn').props(f'href="/adapters/{view.id}/download" download')
            with self.download:
                Icon('download')
                Text('Download adapter')
            self.start_button = Button('Start', icon='play', kind='pri', on_click=self._start)
            self.again = Button(
                'New run from this',
                icon='copy',
                kind='hide-s',
                on_click=lambda: ui.navigate.to(f'/train?copy={self.id}'),
            )
            self.resume_button = Button('Resume', icon='play', on_click=self._resume)
            self.checkpoint_button = Button('Checkpoint', icon='save', kind='hide-s', on_click=self._checkpoint)
            self.checkpoint_button.props['title'] = 'Write a checkpoint when this step is done'
            self.stop_button = Button('Stop', icon='square', kind='dan', on_click=self._stop)
            self._draw_menu()

    def _draw_menu(self) -> None:
        with Button(icon='ellipsis', kind='gho icn', label='More') as more:
            more.props('aria-haspopup=menu')
            with ui.menu().classes('menu').props('auto-close'):
                runs_actions.entry('Compare with…', 'git-compare', self._compare)
                tried = f'/try?run={self.id}'
                runs_actions.entry('Try it', 'message-square-text', lambda: ui.navigate.to(tried))
                again = f'/runs/{self.id}/regrade'
                runs_actions.entry('Re-grade', 'history', lambda: ui.navigate.to(again))
                ui.element('div').classes('menu-line').props('role=separator')
                for format, words in EXPORTS.items():
                    path = f'/runs/{self.id}/metrics.{format}'
                    runs_actions.entry(words, 'download', partial(ui.download.from_url, path))

    def _body(self, view: RunView, more: Sequence[ChartSpec]) -> None:
        with ui.element('div').classes('rh'):
            self.progress = Progress(view.id)
            spacer()
            range_choices = [Choice('follow', 'Follow'), Choice('full', 'Full run')]
            self.range = Segmented(
                range_choices,
                'full' if view.is_final else 'follow',
                label='Range',
                classes='hide-s',
                on_change=lambda mode: self.charts.set_view(mode=mode),
            )
            self.smoothing = Segmented(
                [Choice('raw', 'Raw'), Choice('smooth', 'Smoothed')],
                'raw',
                label='Smoothing',
                on_change=lambda kind: self.charts.set_view(smooth=kind == 'smooth'),
            )
        with ui.element('div').classes('run'):
            self.outcome = Outcome()
            self.held_out = ui.element('div')
            self.held_out.set_visibility(False)
            self.health = HealthStrip(view.id)
            self.charts = Charts(
                view.id,
                mode='full' if view.is_final else 'follow',
                on_view=self._on_view,
                table=lambda names: self.studio.runs.metrics(self.id, names),
                others=more,
            )
            with ui.element('div').classes('bot'):
                self.heat = HeatCard(self.studio, self.reader)
                with ui.element('div').classes('rightcol'):
                    self.machine = MachineCard()
                    with panel('Events', flat=True):
                        self.events = Events()
            with panel('Log', icon='terminal') as head:
                with head:
                    Text('trainer.log', classes='t3 t-small mono')
                    spacer()
                    log_link(self.id)
                self.log = Log()

    # ------------------------------------------------------------------- life

    async def _tick(self) -> None:
        try:
            # Two looks at once would hand the same lines out twice.
            async with self._looking:
                reading = await background.io_bound(self.reader.read)
                if reading is not None:  # else the studio is shutting down
                    self._show(reading)
        except NotFound as error:
            self.timer.cancel()
            toast(error.message, 'warn', detail='It was deleted, here or in another tab.')
            ui.navigate.to('/runs')
            return
        if reading is not None:
            self.timer.interval = 5.0 if reading.quiet else 1.0

    def _show(self, reading: Reading) -> None:
        if reading.lines is not None and reading.bars is not None:
            self.known.load(reading.lines)
            self.charts.load(reading.lines, reading.bars)
        else:
            self.known.extend(reading.columns)
            if not self.charts.append(reading.columns):
                self.reader.reload = True
        if reading.heat is not None:
            self.recent = reading.recent
            self.heat.show(reading.heat)
        self.log_lines = (self.log_lines + reading.log.splitlines())[-50:]
        self.log.add(reading.log)
        self.events.add(reading.events)
        if reading.checkpoints:
            self.checkpoints += reading.checkpoints
            self.charts.set_checkpoints(self.checkpoints)
        self.progress.show(reading.view, reading.rollouts, self.known.series.get(HELD_OUT))
        self.health.show(conditions(reading.view, self.known.series, self.recent, self.limit))
        self.machine.show(reading.machine, reading.view.latest.get('tokens_per_second'))
        self._show_held_out(reading)
        self.outcome.show(reading.view, self.log_lines)
        self._show_view(reading.view)

    def _show_view(self, view: RunView) -> None:
        self.chip.show(view)
        self.start_button.set_visibility(view.can_start)
        self.resume_button.set_visibility(view.is_final and view.state != 'finished')
        self.checkpoint_button.set_visibility(view.state == 'training' and not view.stopping)
        self.stop_button.set_visibility(view.can_stop or view.stopping)
        if view.stopping != self._stopping:  # Else the button would travel with every tick.
            self._stopping = view.stopping
            self.stop_button.off('The trainer is saving what it has' if view.stopping else '')
            self.stop_button.set_text('Stopping' if view.stopping else 'Stop')
        self.again.set_visibility(view.state in ('finished', 'stopped'))
        self.download.set_visibility(view.has_adapter)

    def _show_held_out(self, reading: Reading) -> None:
        shown = (reading.before is not None, reading.after is not None)
        if shown == self._held_out_shown:
            return
        self._held_out_shown = shown
        if reading.before is not None:
            self.charts.set_base(reading.before.mean)
        if reading.after is not None:
            self.held_out.clear()
            self.held_out.set_visibility(True)
            with self.held_out:
                found = pairs(reading.before, reading.after)
                before, after = share(reading.before), share(reading.after)
                before_after(before, after, found, folded=True, on_open=self._open_held_out)

    async def _on_view(self, view: View) -> None:
        self.range.show(view.mode)
        self.smoothing.show('smooth' if view.smooth else 'raw')
        if self.reader.look_at(view):
            await self._tick()

    # ---------------------------------------------------------------- actions

    async def _open_held_out(self, task: str) -> None:
        rows = await background.io_bound(self.studio.runs.rollouts, self.id, task=task, stage='after', limit=1)
        if rows:
            ui.navigate.to(f'/runs/{self.id}/rollouts/{rows[0].id}')
        else:
            toast('The attempts at this task were not recorded', 'warn')

    async def _compare(self) -> None:
        await compare_with(self.studio, [self.id], lambda other: ui.navigate.to(address([self.id, other.id])))

    async def _start(self) -> None:
        self.start_button.disable('Starting')
        await background.io_bound(self.studio.runs.start, self.id)

    async def _stop(self) -> None:
        view = await background.io_bound(self.studio.runs.get, self.id)
        if view is not None and view.can_stop:
            await runs_actions.stop(self.studio, view, self._tick)

    async def _checkpoint(self) -> None:
        view = await background.io_bound(self.studio.runs.get, self.id)
        if view is not None:
            await runs_actions.checkpoint(self.studio, view, self._tick)

    async def _resume(self) -> None:
        view = await background.io_bound(self.studio.runs.get, self.id)
        if view is not None and view.is_final:
            self.timer.interval = 1.0
            await runs_actions.resume(self.studio, view, self._tick)


def _missing(error: NotFound) -> None:
    with empty('circle-alert', error.message, error.hint):
        Button('All runs', on_click=lambda: ui.navigate.to('/runs'))
