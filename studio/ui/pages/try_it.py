"""Try it: one task, base model and adapter side by side, played in real sandboxes and shown turn by turn."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode
from uuid import uuid4

from nicegui import run as background
from nicegui import ui

from studio.adapters.tryout_views import TryView
from studio.errors import NotFound
from studio.ui.components.choose_one import ChooseOne
from studio.ui.components.elements import Button, Icon, Text, checker_chip, note, spacer
from studio.ui.components.fields import Field
from studio.ui.components.live_episode import LiveEpisode
from studio.ui.components.panel import empty
from studio.ui.components.transcript import long_text
from studio.ui.components.try_strip import TryStrip
from studio.ui.components.try_words import said
from studio.ui.layout import Shell, sandbox_badge
from studio.ui.pages.try_choices import Choices, Limits, limits_of, model_title, packages_of, read_choices, task_of
from trainer.errors import RlvrError
from trainer.tryout_messages import MAX_ATTEMPTS, Side

if TYPE_CHECKING:
    from studio.services import Studio

LOOK_S: Final = 0.15
BASE_ONLY: Final = 'Base model only'
MAX_SEED: Final = 2**31 - 1


async def page(
    shell: Shell, task: str = '', adapter: str = '', run: str = '', model: str = '', seed: str = '', tried: str = ''
) -> None:
    """Draw the page. ``run`` offers a run's frozen tasks and picks its adapter, ``tried`` goes on with a try."""
    choices = await background.io_bound(read_choices, shell.studio, task=task, adapter=adapter, run=run, model=model)
    if choices is None:
        return
    if not choices.tasks:
        _draw_empty(shell)
        return
    await TryScreen(shell, choices, run=run, seed=seed).open(tried)


class TryScreen:
    """The page in one tab."""

    def __init__(self, shell: Shell, choices: Choices, *, run: str, seed: str) -> None:
        self._shell, self._choices, self._run = shell, choices, run
        self._page = uuid4().hex
        self._there = True
        self._id = ''
        self._view: TryView | None = None
        self._shown = 0
        self._starting = False
        self._told: bool | None = None
        self.task, self.adapter, self.model = choices.task, choices.adapter, choices.model
        self._seed = int(seed) if seed.isdecimal() and int(seed) <= MAX_SEED else 1
        self._columns: dict[Side, LiveEpisode] = {}
        shell.on_leave(self._leave)
        self._draw_bar()
        with ui.element('div').classes('try'):
            self._draw_settings()
            self._notes = ui.element('div').classes('vs')
            self._about = ui.element('div')
            with ui.element('div').classes('trybar'):
                self._status = Text('', classes='t2 t-small').props('role=status')
                self._strip = TryStrip(self._pick_attempt)
            self._trouble = ui.element('div')
            self._body = ui.element('div').classes('trycols')
        self._timer = ui.timer(LOOK_S, self._look, active=False)
        ui.timer(2.0, self._guard, immediate=True)

    async def open(self, tried: str) -> None:
        """Draw the task that is picked, and go on with a try where one is named."""
        await self._picked()
        if tried:
            with contextlib.suppress(NotFound):
                view = self._studio.tryouts.view(tried)
                self._id = tried
                self._attempts.set_value(str(max(len(view.of(side)) for side in self._columns)))
                self._temperature.set_value(f'{view.temperature:g}')
                self._seed_box.set_value(str(view.seed))
                self._show(view)
                self._timer.active = view.is_live
                self._remember()

    @property
    def _studio(self) -> Studio:
        return self._shell.studio

    def _draw_bar(self) -> None:
        name = self._choices.run_name
        crumbs = [('Runs', '/runs'), (name, f'/runs/{self._run}')] if name else [('Adapters', '/adapters')]
        with self._shell.topbar('Try it', crumbs=crumbs):
            spacer()
            self._stop = Button('Stop', icon='circle-stop', kind='dan', on_click=self._stop_now)
            self._next = Button('Next seed', icon='shuffle', on_click=self._next_seed)
            self._go = Button('Run', icon='play', kind='pri', on_click=self._start, key='mod+enter').mark('try-run')
        self._stop.set_visibility(False)
        self._next.disable('Run it once first')

    def _draw_settings(self) -> None:
        choices = self._choices
        with ui.element('section').classes('card tryset').props('aria-label="What to try"'):
            with Field('Task', classes='wide'):
                self._task_box = ChooseOne(
                    choices.tasks, self.task, label='Task', title='Which task?', on_pick=self._changed
                )
            with Field('Adapter') as self._adapter_field:
                options = {'': BASE_ONLY, **{id: version.label for id, version in choices.adapters.items()}}
                self._adapter_box = _select(options, self.adapter, 'Adapter')
            with Field('Base model') as self._model_field:
                self._model_box = _select(choices.models, self.model, 'Base model')
            with Field('Temperature', classes='slim') as self._temperature_field:
                self._temperature = ui.input(value=f'{self._limits().temperature:g}').props('outlined dense')
                self._temperature.mark('try-temperature')
                self._temperature.props['aria-label'] = 'Temperature'
            with Field('Attempts', classes='slim') as self._attempts_field:
                self._attempts = ui.input(value='1').props('outlined dense inputmode=numeric')
                self._attempts.props['aria-label'] = 'Attempts'
            with Field('Seed', classes='slim') as self._seed_field:
                self._seed_box = ui.input(value=str(self._seed)).props('outlined dense inputmode=numeric')
                self._seed_box.props['aria-label'] = 'Seed'
        for box in (self._adapter_box, self._model_box):
            box.on_value_change(self._changed)

    async def _changed(self, _: object = None) -> None:
        self.task, self.adapter = self._task_box.value, self._adapter_box.value or ''
        self.model = self._base() or self._model_box.value or self.model
        await self._picked()

    async def _picked(self) -> None:
        """Show what belongs to the choice: the base model of the adapter, the task's prompt, empty columns."""
        base = self._base()
        if base and self._model_box.value != base:
            self._model_box.set_options({**self._choices.models, base: model_title(base)})
            self._model_box.set_value(base)
        self._model_box.set_enabled(not base)
        warm = self._studio.tryouts.warm(self.model, self._folder())
        self._studio.tryouts.attend(self.model, self._folder(), self._page, lambda: self._there)
        await self._draw_task()
        if self._view is None or not self._view.is_live:
            self._id, self._view = '', None
            self._draw_columns()
            self._strip.clear()
            self._trouble.clear()
            self._say('The model is in memory.' if warm else '')
            self._buttons()
        self._remember()

    async def _draw_task(self) -> None:
        self._about.clear()
        try:
            task = await background.io_bound(task_of, self._studio, self.task)
        except RlvrError as error:
            self._checker = ''
            with self._about:
                note(error.hint or 'Choose another one.', 'warn', icon='triangle-alert', lead=error.message)
            return
        if task is None:
            return
        self._checker = task.task_spec.checker.type
        with self._about, ui.element('details').classes('card trytask'):
            with ui.element('summary'), ui.element('span').classes('hs'):
                Text(task.title or 'Untitled task', 'b', 'w5 ell')
                checker_chip(self._checker)
                Text(' '.join(task.task_spec.prompt.split())[:200], classes='t3 t-small ell')
            long_text(task.task_spec.prompt, 'prose')

    def _draw_columns(self) -> None:
        self._body.clear()
        version = self._choices.adapters.get(self.adapter)
        self._columns = {}
        with self._body:
            self._columns['base'] = LiveEpisode(
                model_title(self.model), 'base model', icon='box', checker=self._checker
            )
            if version is not None:
                self._columns['adapter'] = LiveEpisode(
                    version.label, f'adapter, step {version.step:,}', icon='layers', checker=self._checker
                )
        self._body.classes(add='one') if version is None else self._body.classes(remove='one')
        for column in self._columns.values():
            column.clear('Run it to see what it does.', 'play')

    def _limits(self) -> Limits:
        return limits_of(self.model, self._choices.adapters.get(self.adapter))

    def _base(self) -> str:
        """The base model that the picked adapter belongs to; empty where none is picked or it does not say."""
        version = self._choices.adapters.get(self.adapter)
        return version.model if version is not None else ''

    def _folder(self) -> str:
        version = self._choices.adapters.get(self.adapter)
        return version.path if version is not None else ''

    async def _next_seed(self) -> None:
        with contextlib.suppress(ValueError):
            self._seed_box.set_value(str((int(self._seed_box.value) + 1) % MAX_SEED))
        await self._start()

    async def _start(self) -> None:
        options = self._options()
        if options is None or self._starting or (self._view is not None and self._view.is_live):
            return
        temperature, attempts, self._seed = options
        limits = self._limits()
        self._starting = True
        try:
            task = await background.io_bound(task_of, self._studio, self.task)
            packages = await background.io_bound(packages_of, self._studio, self.task)
            if task is None or packages is None:
                return
            id = await background.io_bound(
                self._studio.tryouts.play,
                task,
                model=self.model,
                adapter=self._folder(),
                attempts=attempts,
                temperature=temperature,
                seed=self._seed,
                tokens=limits.tokens,
                turns=limits.turns,
                packages=packages,
                page=self._page,
                alive=lambda: self._there,
            )
        except RlvrError as error:
            self._show_trouble(error.message, error.hint)
            return
        finally:
            self._starting = False
        if id is None:
            return
        self._id, self._shown, self._view = id, 0, None
        self._trouble.clear()
        self._draw_columns()
        self._remember()
        self._timer.active = True
        self._look()

    def _options(self) -> tuple[float, int, int] | None:
        """Temperature, attempts and seed as typed; ``None`` where one of them is wrong, which is said there."""
        temperature = _number(self._temperature_field, self._temperature.value, float, 0, 2, '0 to 2')
        attempts = _number(self._attempts_field, self._attempts.value, int, 1, MAX_ATTEMPTS, f'1 to {MAX_ATTEMPTS}')
        seed = _number(self._seed_field, self._seed_box.value, int, 0, MAX_SEED, 'a whole number from 0')
        if temperature is None or attempts is None or seed is None:
            return None
        return float(temperature), int(attempts), int(seed)

    async def _stop_now(self) -> None:
        if self._id:
            await background.io_bound(self._studio.tryouts.stop, self._id)
            self._look()

    def _look(self) -> None:
        if not self._id:
            return
        try:
            view = self._studio.tryouts.view(self._id)
        except NotFound:  # The studio was started anew.
            self._id = ''
            self._timer.active = False
            return
        if self._view is None or view.revision != self._view.revision or view.text != self._view.text:
            self._show(view)
        self._timer.active = view.is_live

    def _show(self, view: TryView) -> None:
        self._view = view
        for side, column in self._columns.items():
            attempts = view.of(side)
            if self._shown < len(attempts):
                column.show(attempts[self._shown], view.phase)
        self._strip.show(view, self._shown)
        self._say(said(view))
        if view.phase == 'failed':
            self._show_trouble(view.message, view.hint)
        self._buttons()

    def _pick_attempt(self, number: int) -> None:
        self._shown = number
        for column in self._columns.values():
            column.clear()
        if self._view is not None:
            self._show(self._view)

    def _show_trouble(self, message: str, hint: str) -> None:
        self._trouble.clear()
        with self._trouble, ui.element('div').classes('fail').props('role=alert'):
            Icon('circle-alert')
            with ui.element('div').classes('vs vs-1'):
                Text(message, 'b', 'w6')
                if hint:
                    Text(hint, 'span', 't-small')
                Button('Try again', icon='rotate-cw', kind='sm', on_click=self._start)

    def _say(self, text: str) -> None:
        self._status.set_text(text)

    def _buttons(self) -> None:
        live = self._view is not None and self._view.is_live
        over = self._view is not None and not live
        self._stop.set_visibility(live)
        self._stop.off('It is stopping' if self._view is not None and self._view.phase == 'stopping' else '')
        self._go.set_visibility(not live)
        self._go.set_text('Run again' if over else 'Run')
        self._next.off('' if over else 'Wait until it is over' if live else 'Run it once first')
        for box in (self._task_box, self._adapter_box, self._model_box):
            fixed = live or (box is self._model_box and bool(self._base()))
            box.set_enabled(not fixed)

    def _guard(self) -> None:
        """Say what is in the way: no sandbox, or a run that trains meanwhile."""
        report = self._studio.sandbox.report
        missing = report is not None and sandbox_badge(report).kind == 'bad' and report.name != 'unsafe'
        self._go.off('There is no sandbox to run it in' if missing else '')
        if missing == self._told:
            return
        self._told = missing
        self._notes.clear()
        with self._notes:
            if missing:
                note('Settings say how to get one.', 'bad', icon='shield-alert', lead='There is no sandbox here.')
            if (training := self._choices.training) is not None:
                note(
                    f'"{training.name}" trains on this machine: both are slower meanwhile, and memory may not do for '
                    'both.',
                    icon='activity',
                )

    def _remember(self) -> None:
        """Have the address name what is picked, so that a reload and a link show the same."""
        named = {'task': self.task, 'adapter': self.adapter, 'run': self._run, 'tried': self._id}
        if not self._base():
            named['model'] = self.model
        if self._seed != 1:
            named['seed'] = str(self._seed)
        query = urlencode({name: value for name, value in named.items() if value})
        self._shell.address(f'/try?{query}', step=False)

    def _leave(self) -> None:
        self._there = False


def _select(options: dict[str, str], value: str, label: str) -> ui.select:
    box = ui.select(options, value=value).props('outlined dense options-dense')
    box.props['aria-label'] = label
    return box


def _number(field: Field, text: Any, kind: type[float] | type[int], low: float, high: float, words: str) -> Any:
    try:
        value = kind(str(text).strip())
    except ValueError:
        value = None
    good = value is not None and low <= value <= high
    field.show_error('' if good else words)
    return value if good else None


def _draw_empty(shell: Shell) -> None:
    with shell.topbar('Try it'):
        pass
    with empty('message-square-text', 'No published tasks yet. Publish one to try a model on it.', room=120):
        Button('Open the library', on_click=lambda: ui.navigate.to('/'))
