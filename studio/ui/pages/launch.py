"""The page that starts a run: tasks, base model, recipe and settings at the left; what it will do at the right."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from nicegui import app, ui
from nicegui import run as background

from studio import samples
from studio.document_views import DocumentQuery, DocumentRow
from studio.run_views import AlreadyStarted, PlanView, RunQuery, RunView
from studio.ui.components.elements import Button, Icon, Text, chip, note, spacer
from studio.ui.components.wording import duration, plural
from studio.ui.layout import Shell
from studio.ui.pages.launch_certificates import TaskSeals
from studio.ui.pages.launch_form import SettingsForm, changed_settings
from studio.ui.pages.launch_models import ModelCards, model_of
from studio.ui.pages.launch_tasks import TaskChoice, open_picker, summary
from studio.ui.theme import toast
from trainer.errors import FieldsError, RlvrError

if TYPE_CHECKING:
    from studio.services import Studio

DRAFT = 'train_draft'
"""Where a half-filled form is kept, so that a reload loses nothing."""


@dataclass(frozen=True)
class Start:
    """What the page opens with. ``measured``: model → seconds of one rollout and the finished run that says so."""

    rows: tuple[DocumentRow, ...]
    measured: dict[str, tuple[float, str]]
    copied: RunView | None
    copied_tasks: tuple[tuple[str, ...], tuple[str, ...]] | None


async def page(shell: Shell, tasks: str = '', copy: str = '', model: str = '') -> None:
    """Draw the page. ``tasks`` and ``model`` pick them by their ids, ``copy`` takes over what a run had."""
    picked = [id for id in tasks.split(',') if id]
    found = await background.io_bound(read_start, shell.studio, copy, picked)
    if found is not None:
        LaunchScreen(shell, found, picked, model)


def read_start(studio: Studio, copy: str, picked: Sequence[str] = ()) -> Start:
    """Read the published tasks, the runs to measure by, and the run to copy."""
    rows = studio.documents.list(DocumentQuery(status='published', sort='title', descending=False, per_page=1000)).rows
    # The list is cut off; what was picked in the library must be in it all the same.
    left = set(picked[:1000]) - {row.id for row in rows}
    rows += tuple(row for row in studio.documents.rows(sorted(left)) if row.status == 'published') if left else ()
    measured = _measured(studio)
    copied, ids = None, None
    if copy:
        try:
            copied = studio.runs.get(copy)
        except RlvrError:  # deleted meanwhile: an ordinary new run
            return Start(rows, measured, None, None)
        frozen = studio.runs.tasks(copy)
        ids = (
            tuple(task.id for task in frozen if task.role == 'train'),
            tuple(task.id for task in frozen if task.role == 'held_out'),
        )
    return Start(rows, measured, copied, ids)


def _measured(studio: Studio) -> dict[str, tuple[float, str]]:
    found: dict[str, tuple[float, str]] = {}
    for run in studio.runs.list(RunQuery(states=('finished',), per_page=20)).rows:
        if run.model not in found and run.elapsed_s and run.elapsed_s > 20:
            rollouts = studio.runs.rollout_count(run.id)
            if rollouts:
                found[run.model] = (run.elapsed_s / rollouts, run.name)
    return found


class LaunchScreen:
    """The page in one tab."""

    def __init__(self, shell: Shell, start: Start, task_ids: list[str], picked_model: str = '') -> None:
        self.studio: Studio = shell.studio
        self.start_with = start
        self.request = uuid4().hex
        self.starting = False
        self.plan: PlanView | None = None
        draft: dict[str, Any] = {} if task_ids or start.copied else dict(app.storage.user.get(DRAFT, {}))
        train, held_out = draft.get('train'), draft.get('held_out')
        values, model, name = draft.get('values', {}), draft.get('model', 'starter'), draft.get('name', '')
        if task_ids:
            train, held_out = task_ids, None
        if start.copied is not None and start.copied_tasks is not None:
            train, held_out = start.copied_tasks
            values, model, name = changed_settings(start.copied.settings), start.copied.model, start.copied.name
        model = picked_model or model
        self.choice = TaskChoice(start.rows, train, held_out)
        self.seals = TaskSeals(self.studio.certificates, self._picked)
        shell.on_leave(self.seals.close)
        self._topbar(shell, name)
        with ui.element('div').classes('main'), ui.element('div').classes('la'):
            with ui.element('div'):
                with self._step('Tasks', 1) as (self.task_mark, head):
                    with head:
                        self.task_chip = ui.element('span')
                        spacer()
                        self.change = Button('Change', icon='pencil', kind='sm', on_click=self._pick)
                    self.task_body = ui.element('div').classes('bd')
                with self._step('Base model', 2) as (self.model_mark, _), ui.element('div').classes('bd'):
                    self.models = ModelCards(model, self._changed)
                with self._step('Recipe', 3) as (self.recipe_mark, _), ui.element('div').classes('bd'):
                    self._recipe()
                with self._step('RL settings', 4) as (self.settings_mark, head):
                    with head:
                        self.changed_text = Text(classes='t3 t-small')
                        spacer()
                        Button('Reset', icon='rotate-ccw', kind='gho sm', on_click=lambda: self.form.reset())
                    with ui.element('div').classes('bd'):
                        self.form = SettingsForm(values, self._changed)
                    with ui.element('details').classes('fold'):
                        Text('More: learning rate, epochs, batch, LoRA, seed, held-out attempts', 'summary')
                        self.form.draw_more()
                    self._locks()
            self._side()
        self._draw_tasks()
        ui.timer(0, self._first, once=True)

    async def _first(self) -> None:
        await self._changed()

    # ------------------------------------------------------------------ frame

    def _topbar(self, shell: Shell, name: str) -> None:
        with shell.topbar('New training run'):
            ui.element('span').classes('vsep')
            self.name = ui.input(value=name, placeholder='Name of the run').props('dense outlined maxlength=200')
            self.name.classes('title-input').props['aria-label'] = 'Name of the run'
            self.name.on('blur', self._changed, args=[])
            Icon('pencil', 'ic-s t3')
            spacer()
            self.saved = Text(classes='t3 t-small nowrap hide-s').props('role=status')

    @contextmanager
    def _step(self, title: str, number: int) -> Iterator[tuple[ui.element, ui.element]]:
        with ui.element('section').classes('stepsec') as section:
            section.props['aria-label'] = title
            ui.element('span').classes('ln')
            mark = ui.element('span').classes('sn')
            with mark:
                Text(str(number))
                Icon('check', 'ic-xs', label='ready')
            with ui.element('div').classes('card'):
                with ui.element('div').classes('hd') as head:
                    Text(title, 'h2')
                yield mark, head

    def _recipe(self) -> None:
        with ui.element('div').classes('recipe'), ui.element('div').classes('rec'):
            switch = ui.element('span').classes('tgl on').style('opacity: .55')
            switch.props('role=switch aria-checked=true aria-disabled=true aria-label=RLVR')
            with ui.element('span').classes('vs vs-0'):
                Text('RLVR', classes='w5')
                self.recipe_text = Text('Agentic GRPO', classes='hint ell')
            Icon('lock', 'ic-s t3', label='Always on')

    def _locks(self) -> None:
        with ui.element('div').classes('locks'):
            Text('Fixed by the studio', classes='t3 t-small')
            with ui.element('span').classes('chip lock'):
                Icon('lock', 'ic-xs')
                self.rate_text = Text()
            for text in ('beta 0.0', 'spot off'):
                chip(text, 'lock', icon='lock')
            spacer()
            with Text('Why these are fixed', classes='t3 t-small'):
                ui.tooltip(
                    'A higher rate makes this model forget how to call tools. Rewards are verified, so no KL term '
                    'holds it to the base model. A run keeps its sandboxes on this machine, so it cannot move.'
                )

    def _side(self) -> None:
        with ui.element('aside').classes('fc card').props('aria-label=Plan'):
            with ui.element('div').classes('hd'):
                Icon('gauge', 'lead')
                Text('Plan', 'h2')
                spacer()
                self.sandbox = Text(classes='hint')
            with ui.element('div').classes('scr'):
                self.side = ui.element('div')
            with ui.element('div').classes('bd vs go'):
                self.needs = ui.element('div').classes('needs').props('role=status')
                self.go = Button(
                    'Start training',
                    icon='play',
                    kind='pri lg blk',
                    key='mod+enter',
                    shortcut='mod⏎',
                    on_click=self._start,
                )
                Text('Runs on this machine. You can close the browser.', classes='hint').style('text-align: center')

    # ------------------------------------------------------------------ tasks

    def _pick(self) -> None:
        open_picker(self.choice, self._picked)

    async def _picked(self) -> None:
        self._draw_tasks()
        await self._changed()

    def _draw_tasks(self) -> None:
        self.task_chip.clear()
        self.change.set_visibility(bool(self.choice.rows))
        with self.task_chip:
            if self.choice.rows:
                chip(f'{len(self.choice.train)} selected', 'acc num')
        self.task_body.clear()
        with self.task_body:
            if self.choice.rows:
                self.seals.draw(self.choice)
                summary(self.choice)
                return
            with ui.element('div').classes('empty').style('padding: 12px 0'):
                Text('There are no published tasks to train on.')
                with ui.element('span').classes('hs'):
                    Button('Load the tutorial tasks', icon='download', on_click=self._load_tutorial)
                    Button('Open the library', kind='gho', on_click=lambda: ui.navigate.to('/'))

    async def _load_tutorial(self) -> None:
        loaded = await background.io_bound(samples.load_tutorial, self.studio.documents)
        if loaded is None:
            return
        fresh = await background.io_bound(read_start, self.studio, '')
        if fresh is not None:
            self.choice = TaskChoice(fresh.rows, *loaded)
            toast(f'{plural(len(loaded[0]), "task")} to train on, {len(loaded[1])} held out')
            await self._picked()

    # ------------------------------------------------------------------- plan

    async def _changed(self) -> None:
        """Plan again, show it, keep the form."""
        model = self.models.picked
        settings, ids = self.form.settings(), self.choice.train_ids
        plan = await background.io_bound(self.studio.runs.draft_plan, model, settings, ids)
        if plan is None:
            return
        self.plan = plan
        self.form.show(plan, model_of(model))
        self._keep()
        self._draw_plan(plan)
        self._draw_needs(plan)

    def _keep(self) -> None:
        values: dict[str, Any] = {**self.form.values}
        if self.form.packages:
            values['pipPackages'] = list(self.form.packages)
        app.storage.user[DRAFT] = {
            'name': self.name.value or '',
            'model': self.models.picked,
            'values': values,
            'train': self.choice.train_ids if self.choice.rows else None,
            'held_out': self.choice.held_out_ids if self.choice.rows else None,
        }
        self.saved.set_text('Draft saved')
        changed = self.form.changed
        self.changed_text.set_text(f'{changed} changed from defaults' if changed else 'defaults')

    def _draw_plan(self, view: PlanView) -> None:
        model = model_of(self.models.picked)
        self.rate_text.set_text(f'learning rate ≤ {model.rate_cap:g}')
        for mark, done in (
            (self.task_mark, bool(self.choice.train)),
            (self.model_mark, not any(error.loc == 'model' for error in view.errors)),
            (self.recipe_mark, True),
            (self.settings_mark, not view.errors and not self.form.refused_packages),
        ):
            mark.classes(add='done') if done else mark.classes(remove='done')
        self.name.props['placeholder'] = self._default_name()
        self.side.clear()
        plan = view.plan
        with self.side:
            if plan is None:
                Text('The plan appears when the settings fit.', 'div', 't3 t-small pad')
                return
            self.recipe_text.set_text(f'Agentic GRPO, LoRA rank {plan.lora_rank}, {plural(plan.steps, "step")}')
            with ui.element('div').classes('sums'):
                _sum('Steps', f'{plan.steps:,}')
                _sum('Per step', f'{plan.rollouts_per_step:,}')
                _sum('Rollouts', f'{plan.steps * plan.rollouts_per_step:,}')
            held_out = len(self.choice.held_out)
            with ui.element('dl').classes('plan'):
                _line('Model', model.title)
                _line('Tasks', f'{len(self.choice.train)}, {held_out} held out')
                _line('A step', f'{plural(plan.groups, "task")}, {plan.generations} attempts each')
                _line('Batch', f'{plan.batch_size:,} rollouts at once, {plan.accumulation} a step')
                _line('Learning rate', f'{plan.learning_rate:g}')
                _line('Epochs', f'{plan.steps * plan.groups / max(1, len(self.choice.train)):.3g}')
                _line('Temperature', f'{plan.temperature:g}')
                _line('LoRA', f'rank {plan.lora_rank}, alpha {plan.lora_alpha}')
                _line('Episode', f'{plan.max_completion_length:,} tokens, {plan.max_turns} tool turns')
                _line('Engine', plan.engine)
                _line('Time', self._time(plan.steps * plan.rollouts_per_step))
            notes = [item for item in view.notes]
            if notes:
                with ui.element('div').classes('vs').style('padding: 4px 12px 12px'):
                    for item in notes:
                        note(item.msg, 'warn', icon='triangle-alert', lead=item.loc.removeprefix('rl.'))

    def _time(self, rollouts: int) -> str:
        """An honest estimate: only where an earlier run of this model was measured, and it says which."""
        if (known := self.start_with.measured.get(self.models.picked)) is None:
            return 'not known before a first run'
        seconds, name = known
        return f'about {duration(rollouts * seconds)}, as "{name[:40]}" ran'

    def _draw_needs(self, view: PlanView) -> None:
        report = self.studio.sandbox.report
        self.sandbox.set_text('' if report is None else f'sandbox: {report.name}')
        blocking: list[tuple[str, str]] = []
        if not self.choice.train:
            blocking.append(('No tasks.', 'Choose at least one task to train on.'))
        for error in view.errors:
            if error.loc != 'tasks':
                blocking.append((error.loc.removeprefix('rl.'), error.msg))
        if self.form.refused_packages:
            blocking.append(('pipPackages', 'Correct or remove the lines that were not added.'))
        if report is not None and not any(row.ok for row in report.rows):
            blocking.append(('No sandbox.', report.fix or 'Settings says how to get one.'))
        self.needs.clear()
        with self.needs:
            for lead, text in blocking[:6]:
                note(text, 'bad', icon='circle-alert', lead=lead)
            if not self.choice.held_out and self.choice.train:
                note('Success before and after cannot be compared.', lead='No held-out tasks.')
            if report is not None and not report.proven and any(row.ok for row in report.rows):
                note(report.fix, 'warn', icon='shield-alert', lead='The sandbox is not proven.')
        if blocking:
            self.go.disable(f'{blocking[0][0]} {blocking[0][1]}')
        else:
            self.go.enable()

    # ------------------------------------------------------------------ start

    def _default_name(self) -> str:
        return f'{model_of(self.models.picked).title}, {plural(len(self.choice.train), "task")}'

    async def _start(self) -> None:
        """Make the run and start it. The same request makes one run, however often the button is pressed."""
        if self.starting:
            return
        self.starting = True
        self.go.disable('Starting')
        self.go.set_text('Starting')
        name = (self.name.value or '').strip() or self._default_name()
        try:
            run = await background.io_bound(
                self.studio.runs.create,
                name,
                self.models.picked,
                self.form.settings(),
                self.choice.train_ids,
                self.choice.held_out_ids,
                request=self.request,
            )
            if run is None:
                return
            # Pressed twice, or in a lost answer's second try: the run is there, so open it.
            with contextlib.suppress(AlreadyStarted):
                await background.io_bound(self.studio.runs.start, run.id)
        except RlvrError as error:
            fields = error.fields if isinstance(error, FieldsError) else ()
            toast(error.message, 'bad', detail=error.hint or '; '.join(field.msg for field in fields[:3]))
            self.request = uuid4().hex
            self.starting = False
            self.go.set_text('Start training')
            await self._changed()
            return
        app.storage.user.pop(DRAFT, None)
        ui.navigate.to(f'/runs/{run.id}')


def _sum(label: str, value: str) -> None:
    with ui.element('div'):
        Text(label, 'div', 'hint')
        Text(value, 'div', 'v')


def _line(name: str, value: str) -> None:
    Text(name, 'dt')
    Text(value, 'dd')
