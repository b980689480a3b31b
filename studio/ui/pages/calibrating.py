"""The dialog that starts a calibration: who attempts the tasks, how often, and how long that will take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from nicegui import run, ui
from pydantic import ValidationError

from studio.calibrations.views import MAX_ATTEMPTS, USUAL_ATTEMPTS, JobView, Who
from studio.ui import theme
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Text, note, spacer
from studio.ui.components.fields import Field
from studio.ui.components.wording import duration, plural
from studio.ui.pages.launch_models import model_of
from trainer.errors import FieldsError, RlvrError
from trainer.models import STARTER, offered_models

if TYPE_CHECKING:
    from studio.services import Studio

BASE: Final = 'None: the base model'
OTHER_MODEL: Final = ('Another model', 'A folder with a saved transformers model, or a hub id: owner/name')
OTHER_ADAPTER: Final = ('Another adapter', 'A folder in PEFT layout')
_OTHER: Final = '\0other'
"""Value of the choice that opens a box to type in; nothing that is typed can be it."""
TEXT: Final = 'Tasks are attempted as in training. Attempts of the same model add up.'


async def open_calibrate(
    studio: Studio, ids: Sequence[str], on_started: Callable[[JobView], Awaitable[Any]], *, who: Who | None = None
) -> None:
    """Ask how to calibrate tasks, and begin; ``who`` is what the dialog opens with, else what was used last."""
    known = await run.io_bound(_read, studio)
    if known is None:
        return
    adapters, last, training, busy = known
    _Dialog(studio, ids, on_started, who or last, adapters, training, busy)


def _read(studio: Studio) -> tuple[dict[str, tuple[str, str]], Who, str, bool]:
    """Adapters by id (their name, their model), who calibrated last, the run that works, whether one is calibrating."""
    adapters = {
        version.id: (f'{version.name} v{version.number}', version.model)
        for named in studio.adapters.list()
        for version in named.versions
    }
    last = next(iter(studio.calibrations.subjects()), None)
    who = Who(model=STARTER.id)
    if last is not None:
        who = (
            Who(model=last.model, adapter_id=last.adapter_id) if last.adapter_id in adapters else Who(model=last.model)
        )
    training = next((found.name for found in studio.runs.working()), '')
    job = studio.calibrations.job()
    return adapters, who, training, job is not None and job.is_active


class _Dialog:
    def __init__(
        self,
        studio: Studio,
        ids: Sequence[str],
        on_started: Callable[[JobView], Awaitable[Any]],
        who: Who,
        adapters: dict[str, tuple[str, str]],
        training: str,
        busy: bool,
    ) -> None:
        self._studio, self._ids, self._on_started, self._adapters = studio, ids, on_started, adapters
        self._tokens = who.tokens
        self._beside: ui.switch | None = None
        with opened_dialog(f'Calibrate {plural(len(ids), "task")}', text=TEXT, size='mid') as dialog:
            with ui.element('div').classes('who-fields'):
                self._draw_who(who)
                with ui.element('div').classes('two-fields'):
                    self._draw_numbers(who)
            with ui.element('div').classes('est-line').props('role=status'):
                self._counted = Text(classes='num')
                spacer()
                self._time = Text(classes='num w5')
            if training:
                with note(f'It waits for "{training[:60]}" to end.', icon='clock'):
                    self._beside = ui.switch('Work beside it').props('dense')
                    self._beside.props['title'] = 'Both get slower, and both need memory'
            with ui.element('div').classes('act'):
                Button('Cancel', on_click=dialog.close)
                self._go = Button('Calibrate', icon='target', kind='pri', on_click=self._start)
                if busy:
                    self._go.disable('Another calibration works: wait for its end, or cancel it')
        self._dialog = dialog
        ui.timer(0, self._reckon, once=True)

    def _draw_who(self, who: Who) -> None:
        models = {model.id: model.title for model in offered_models() if model.supports_rl}
        models.setdefault(who.model, model_of(who.model).title)
        self._model = _Pick('Model', models, who.model, OTHER_MODEL, self._model_changed)
        picked = who.adapter_id or who.adapter
        self._adapter = _Pick('Adapter', self._adapters_of(who.model), picked, OTHER_ADAPTER, self._reckon)

    def _draw_numbers(self, who: Who) -> None:
        with Field('Attempts a task', hint=f'1 to {MAX_ATTEMPTS}; more make the interval narrower') as self._k_field:
            self._k = ui.number(value=USUAL_ATTEMPTS, min=1, max=MAX_ATTEMPTS, precision=0)
            self._k.props('outlined dense hide-bottom-space aria-label="Attempts a task"')
        with Field('Temperature', hint='Empty: the usual one of the model') as self._heat_field:
            self._heat = ui.number(value=who.temperature, min=0.01, max=5, step=0.1)
            self._heat.props('outlined dense hide-bottom-space aria-label=Temperature')
        for box in (self._k, self._heat):
            box.on_value_change(self._reckon)

    def _adapters_of(self, model: str) -> dict[str, str]:
        fitting = {id: name for id, (name, base) in self._adapters.items() if base == model}
        return {'': BASE, **fitting}

    async def _model_changed(self) -> None:
        self._tokens = None
        self._adapter.offer(self._adapters_of(self._model.value))
        await self._reckon()

    def _who(self) -> Who | None:
        """Who is to attempt the tasks; ``None`` where the form does not say, which is shown."""
        adapter = self._adapter.value
        is_known = adapter in self._adapters
        try:
            return Who(
                model=self._model.value,
                adapter='' if is_known else adapter,
                adapter_id=adapter if is_known else None,
                temperature=self._heat.value,
                tokens=self._tokens,
            )
        except ValidationError:
            self._heat_field.show_error('Above 0, at most 5')
            return None

    @property
    def _attempts(self) -> int:
        return int(self._k.value or 0)

    async def _reckon(self) -> None:
        """Say how many attempts there will be, and what they took before."""
        total = len(self._ids) * self._attempts
        self._counted.set_text(f'{len(self._ids):,} × {self._attempts} = {plural(total, "attempt")}')  # noqa: RUF001
        for field in (self._model.field, self._adapter.field, self._k_field, self._heat_field):
            field.show_error('')
        who = self._who()
        each = None if who is None else await run.io_bound(self._studio.calibrations.seconds, who)
        words = 'Time not known yet' if each is None else f'about {duration(each * total)} once it is loaded'
        self._time.set_text(words)

    async def _start(self) -> None:
        who = self._who()
        if who is None:
            return
        self._go.disable('Starting')
        try:
            job = await run.io_bound(
                self._studio.calibrations.start,
                self._ids,
                who,
                k=self._attempts,
                beside_runs=self._beside is not None and bool(self._beside.value),
            )
        except RlvrError as error:
            self._go.enable()
            self._refused(error)
            return
        if job is None:
            return
        self._dialog.close()
        if job.skipped:
            theme.toast(f'{plural(job.skipped, "task")} left out', 'warn', detail='A task needs a valid version first.')
        await self._on_started(job)

    def _refused(self, error: RlvrError) -> None:
        """Say what is wrong at its field, else beside the dialog."""
        fields = {'model': self._model.field, 'adapter': self._adapter.field, 'k': self._k_field}
        for one in error.fields if isinstance(error, FieldsError) else ():
            if one.loc in fields:
                fields[one.loc].show_error(f'{one.msg}. {error.hint}'.strip())
                return
        theme.toast(error.message, 'bad', detail=error.hint)


class _Pick:
    """A list to pick from, whose last choice opens a box for what is not in it: its name, and what goes in there."""

    def __init__(
        self, label: str, options: dict[str, str], value: str, other: tuple[str, str], on_change: Callable[[], Any]
    ) -> None:
        self._other, self._on_change = other, on_change
        known = value in options
        with Field(label) as self.field:
            self._select = ui.select({**options, _OTHER: f'{other[0]}…'}, value=value if known else _OTHER)
            self._select.props(f'outlined dense options-dense hide-bottom-space aria-label={label}')
            self._box = ui.input(value='' if known else value, placeholder=other[1])
            self._box.props('outlined dense hide-bottom-space').props['aria-label'] = f'{other[0]}: {other[1]}'
        self._box.set_visibility(not known)
        self._select.on_value_change(self._picked)
        self._box.on('blur', on_change, args=[])

    @property
    def value(self) -> str:
        """What is picked, or typed."""
        picked = str(self._select.value)
        return str(self._box.value or '').strip() if picked == _OTHER else picked

    def offer(self, options: dict[str, str]) -> None:
        """Offer other choices, and pick the first."""
        self._select.set_options({**options, _OTHER: f'{self._other[0]}…'}, value=next(iter(options)))

    def _picked(self) -> Any:
        self._box.set_visibility(self._select.value == _OTHER)
        return self._on_change()
