"""The page of one run: live charts, health, heatmap, events and log, from one look at the store each second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import run as background
from nicegui import ui

from studio.document_views import NotFound
from studio.run_views import HeatRow, RunView, Series
from studio.ui.components import heatmap
from studio.ui.components.before_after import before_after
from studio.ui.components.dialogs import ask
from studio.ui.components.elements import Button, Icon, Text, spacer
from studio.ui.components.heatmap import Heatmap
from studio.ui.components.panel import panel
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.components.wording import plural
from studio.ui.layout import Shell
from studio.ui.pages.run_charts import Charts
from studio.ui.pages.run_parts import (
    Events,
    HealthStrip,
    Log,
    MachineCard,
    Outcome,
    Progress,
    StateChip,
    conditions,
    pairs,
    share,
)
from studio.ui.pages.run_reading import Reader, Reading, table, token_limit
from studio.ui.theme import toast
from trainer.events import Artifact
from trainer.models import MODELS

if TYPE_CHECKING:
    from studio.services import Studio


async def page(shell: Shell, run_id: str) -> None:
    """Draw the page."""
    try:
        view = await background.io_bound(shell.studio.runs.get, run_id)
        limit = None if view is None else await background.io_bound(token_limit, shell.studio, view)
    except NotFound as error:
        with shell.topbar('Run', crumbs=[('Runs', '/runs')]):
            pass
        _missing(error)
        return
    if view is not None:
        RunScreen(shell, view, limit)


class RunScreen:
    """The page of a run in one tab."""

    def __init__(self, shell: Shell, view: RunView, limit: int | None) -> None:
        self.studio: Studio = shell.studio
        self.id = view.id
        self.reader = Reader(self.studio, view.id)
        self.columns: dict[str, Series] = {}
        self.rows: list[HeatRow] = []
        self.checkpoints: list[int] = []
        self.log_lines: list[str] = []
        self.limit = limit
        self._held_out_shown: tuple[bool, bool] = (False, False)
        self._topbar(shell, view)
        with ui.element('div').classes('runpage'):
            self._body(view)
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
            self.stop_button = Button('Stop', icon='square', kind='dan', on_click=self._stop)

    def _body(self, view: RunView) -> None:
        with ui.element('div').classes('rh'):
            self.progress = Progress()
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
            self.health = HealthStrip()
            self.charts = Charts(
                view.id,
                mode='full' if view.is_final else 'follow',
                on_view=self._on_view,
                table=lambda: table(self.studio, self.id),
            )
            with ui.element('div').classes('bot'):
                self._heat_card()
                with ui.element('div').classes('rightcol'):
                    self.machine = MachineCard()
                    with panel('Events', flat=True):
                        self.events = Events()
            with panel('Log', icon='terminal') as head:
                with head:
                    Text('trainer.log', classes='t3 t-small mono')
                self.log = Log()

    def _heat_card(self) -> None:
        with panel('Success by task and step', flat=True) as head:
            with head:
                Text('Pick a cell to open its group', classes='t3 t-small hide-s')
                spacer()
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
            self.no_groups = Text('No group has ended yet.', 'div', 't3 t-small pad')
            self.heat = Heatmap(self._open_group)
            self.heat.set_visibility(False)

    # ------------------------------------------------------------------- life

    async def _tick(self) -> None:
        try:
            reading = await background.io_bound(self.reader.read)
        except NotFound as error:
            self.timer.cancel()
            toast(error.message, 'warn', detail='It was deleted, here or in another tab.')
            ui.navigate.to('/runs')
            return
        if reading is None:  # the studio is shutting down
            return
        self._show(reading)
        if reading.view.is_final and not reading.log and not reading.events:
            self.timer.interval = 5.0
        else:
            self.timer.interval = 1.0

    def _show(self, reading: Reading) -> None:
        if reading.whole:
            self.columns = dict(reading.columns)
            self.charts.load(reading.columns)
        else:
            self._extend(reading.columns)
            if not self.charts.append(reading.columns):
                self.reader.reload = True
        if reading.rows is not None:
            self._show_heat(reading.rows)
        self.log_lines = (self.log_lines + reading.log.splitlines())[-50:]
        self.log.add(reading.log)
        self.events.add(reading.events)
        marks = [_step_of(event.path) for event in reading.events if isinstance(event, Artifact)]
        if fresh := [step for step in marks if step is not None]:
            self.checkpoints += fresh
            self.charts.set_checkpoints(self.checkpoints)
        self.progress.show(reading.view, reading.rollouts)
        self.health.show(conditions(reading.view, self.columns, self.rows, self.limit))
        self.machine.show(reading.machine, reading.view.latest.get('tokens_per_second'))
        self._show_held_out(reading)
        self.outcome.show(reading.view, self.log_lines)
        self._show_view(reading.view)

    def _show_view(self, view: RunView) -> None:
        self.chip.show(view)
        self.start_button.set_visibility(view.can_start)
        self.stop_button.set_visibility(view.can_stop or view.stopping)
        if view.stopping:
            self.stop_button.disable('The trainer is saving what it has')
            self.stop_button.set_text('Stopping')
        self.again.set_visibility(view.state in ('finished', 'stopped'))
        self.download.set_visibility(view.has_adapter)

    def _extend(self, columns: dict[str, Series]) -> None:
        for name, (steps, values) in columns.items():
            known_steps, known_values = self.columns.get(name, ([], []))
            last = known_steps[-1] if known_steps else -1
            fresh = [(step, value) for step, value in zip(steps, values, strict=True) if step > last]
            self.columns[name] = (
                known_steps + [step for step, _ in fresh],
                known_values + [value for _, value in fresh],
            )

    def _show_heat(self, rows: list[HeatRow]) -> None:
        self.rows = rows
        self.no_groups.set_visibility(not rows)
        self.heat.set_visibility(bool(rows))
        self.heat.show(
            [
                heatmap.HeatRow(
                    task=row.task,
                    title=row.title,
                    cells={
                        cell.step: heatmap.HeatCell(mean=cell.mean, errors=cell.errors, n=cell.n) for cell in row.cells
                    },
                )
                for row in rows
            ]
        )

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

    def _on_view(self, mode: str, smooth: bool) -> None:
        self.range.show(mode)
        self.smoothing.show('smooth' if smooth else 'raw')

    # ---------------------------------------------------------------- actions

    async def _open_group(self, step: int, task: str) -> None:
        group = await background.io_bound(self.studio.runs.group, self.id, step, task)
        if group:
            ui.navigate.to(f'/runs/{self.id}/rollouts/{group[0].id}')

    async def _open_held_out(self, task: str) -> None:
        rows = await background.io_bound(self.studio.runs.rollouts, self.id, task=task, stage='after', limit=1)
        if rows:
            ui.navigate.to(f'/runs/{self.id}/rollouts/{rows[0].id}')
        else:
            toast('The attempts at this task were not recorded', 'warn')

    async def _start(self) -> None:
        self.start_button.disable('Starting')
        await background.io_bound(self.studio.runs.start, self.id)

    async def _stop(self) -> None:
        view = await background.io_bound(self.studio.runs.get, self.id)
        if view is None or not view.can_stop:
            return
        text = 'The adapter of the last finished step is kept. Rollouts in progress are dropped.'
        if view.waiting:
            text = 'It has not begun. Nothing is lost but its place in the queue.'
        ask(
            f'Stop the run at step {view.step}?',
            text,
            action='Stop the run',
            keep='Keep training',
            icon='square',
            on_yes=self._really_stop,
        )

    async def _really_stop(self) -> None:
        self.stop_button.disable('Stopping')
        await background.io_bound(self.studio.runs.stop, self.id)
        self.studio.supervisor.wake()


def _missing(error: NotFound) -> None:
    with ui.element('div').classes('empty').style('padding: 96px 16px'):
        Icon('circle-alert', 'ic-l')
        Text(error.message)
        Text(error.hint, classes='t3 t-small')
        Button('All runs', on_click=lambda: ui.navigate.to('/runs'))


def _step_of(path: str) -> int | None:
    """The step in the name of a checkpoint folder (``checkpoints/step-40``)."""
    if 'checkpoint' not in path:
        return None
    digits = path.rstrip('/').rpartition('-')[2]
    return int(digits) if digits.isdigit() else None
