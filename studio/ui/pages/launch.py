"""The page that starts a run: tasks, base model, recipe and settings at the left; what it will do at the right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from nicegui import app, ui
from nicegui import run as background

from studio.calibrations.views import Who
from studio.documents import samples
from studio.runs.views import AlreadyStarted
from studio.ui.components.elements import Button, Icon, Text, chip, note, spacer
from studio.ui.components.wording import plural
from studio.ui.layout import Shell
from studio.ui.pages.calibration_strip import CalibrationStrip
from studio.ui.pages.launch_certificates import TaskSeals
from studio.ui.pages.launch_copy import open_copy
from studio.ui.pages.launch_forecast import Signal
from studio.ui.pages.launch_form import SettingsForm, changed_settings
from studio.ui.pages.launch_locks import Recipe, draw_locks
from studio.ui.pages.launch_measure import Measure
from studio.ui.pages.launch_models import ModelCards, model_of
from studio.ui.pages.launch_plan import draw_plan
from studio.ui.pages.launch_ready import Need, Standing, blocking, standing, warnings
from studio.ui.pages.launch_start import Start, read_start
from studio.ui.pages.launch_tasks import TaskChoice, open_picker, summary
from studio.ui.theme import toast
from trainer.errors import FieldsError, RlvrError

if TYPE_CHECKING:
    from studio.services import Studio

DRAFT = 'train_draft'
"""Where a half-filled form is kept, so that a reload loses nothing."""


async def page(shell: Shell, tasks: str = '', copy: str = '', model: str = '') -> None:
    """Draw the page. ``tasks`` and ``model`` pick them by their ids, ``copy`` takes over what a run had."""
    picked = [id for id in tasks.split(',') if id]
    found = await background.io_bound(read_start, shell.studio, copy, picked)
    if found is not None:
        LaunchScreen(shell, found, picked, model)


class LaunchScreen:
    """The page in one tab."""

    def __init__(self, shell: Shell, start: Start, task_ids: list[str], picked_model: str = '') -> None:
        self.shell = shell
        self.studio: Studio = shell.studio
        self.starting = False
        self.now: Standing | None = None
        draft: dict[str, Any] = {} if task_ids or start.copied else dict(app.storage.user.get(DRAFT, {}))
        # Two tabs on one draft are one wish: what they start is one run (see _request).
        self.draft_id = str(draft.get('id') or uuid4().hex)
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
        self.measure = Measure(self.studio, self._measured)
        self.signal = Signal(
            self.studio,
            self._counted,
            use=lambda size: self.form.put('numGenerations', str(size)),
            leave_out=self._leave_out,
        )
        shell.on_leave(self.seals.close)
        shell.on_leave(self.measure.close)
        self._topbar(shell, name)
        self._say_what_is_gone(start)
        with ui.element('div').classes('main'), ui.element('div').classes('la'):
            with ui.element('div'):
                with self._step('Tasks', 1) as (self.task_mark, head):
                    with head:
                        self.task_chip = ui.element('span')
                        spacer()
                        self.change = Button('Change', icon='pencil', kind='sm', on_click=self._pick)
                    self.task_body = ui.element('div').classes('bd')
                    self.strip = CalibrationStrip(shell, self.studio, self._counted, classes='in-card')
                with self._step('Base model', 2) as (self.model_mark, head):
                    with head:
                        spacer()
                        with ui.element('a').classes('t-small').props('href=/models'):
                            Text('All models')
                    with ui.element('div').classes('bd'):
                        self.models = ModelCards(model, self._changed, gpu=start.gpu)
                self.form = SettingsForm(values, self._changed, self._typed)
                with self._step('Recipe', 3) as (self.recipe_mark, _), ui.element('div').classes('bd'):
                    self.recipe = Recipe(self.form)
                with self._step('RL settings', 4) as (self.settings_mark, head):
                    with head:
                        self.changed_text = Text(classes='t3 t-small')
                        spacer()
                        Button('Reset', icon='rotate-ccw', kind='gho sm', on_click=lambda: self.form.reset())
                    with ui.element('div').classes('bd'):
                        self.form.draw_rl()
                    self.form.draw_more()
                    self.rate_text = draw_locks()
            self._side()
        self._draw_tasks()
        ui.timer(0, self._first, once=True)

    async def _first(self) -> None:
        await self._changed()
        # From here on the draft is what counts: a reload must not bring back what the address had picked.
        self.shell.address('/train', step=False)

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
            Button('Copy from a run', icon='copy', kind='gho', on_click=lambda: open_copy(self.studio))

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

    def _side(self) -> None:
        with ui.element('aside').classes('fc card').props('aria-label=Plan'):
            with ui.element('div').classes('hd'):
                Icon('gauge', 'lead')
                Text('Plan', 'h2')
                spacer()
                self.sandbox = Text(classes='hint')
            with ui.element('div').classes('scr'):
                self.signal.place()
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
        open_picker(self.choice, self._picked, self.signal.tiers)

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
                self.signal.place_tiers()
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

    def _say_what_is_gone(self, start: Start) -> None:
        """Tasks of the copied run that cannot be trained on any more are named, not dropped in silence."""
        if start.copied is None or start.copied_tasks is None:
            return
        known = {row.id for row in start.rows}
        gone = [id for ids in start.copied_tasks for id in ids if id not in known]
        if gone:
            toast(f'{plural(len(gone), "task")} of that run left out', 'warn', detail='Deleted, or not published now.')

    # ------------------------------------------------------------------- plan

    async def _changed(self) -> None:
        """Look at how things stand, show it, keep the form."""
        found = await background.io_bound(
            standing,
            self.studio,
            self.models.picked,
            self.form.settings(),
            self.choice.train_ids,
            self.choice.held_out_ids,
        )
        if found is None:
            return
        self.now = found
        await self._read_signal(found)
        self.form.show(found.view, found.model)
        self._keep()
        self._draw_marks(found)
        self._draw_side(found)
        self._draw_needs(found)

    async def _read_signal(self, now: Standing) -> None:
        plan = now.view.plan
        if plan is not None:
            who = Who(model=now.model.id, temperature=plan.temperature, tokens=plan.max_completion_length)
            await self.signal.read(self.choice.rows, self.choice.train_ids, who)
            self.signal.resize(plan.generations, cold_start=self.form.cold_start)

    async def _counted(self) -> None:
        """More attempts at tasks are counted, or a calibration was started."""
        await self.strip.look()
        self.signal.forget()
        if self.now is not None:
            await self._read_signal(self.now)

    async def _leave_out(self, ids: Sequence[str]) -> None:
        for id in ids:
            self.choice.put(id, 'out')
        await self._picked()

    def _typed(self) -> None:
        """The forecast follows the group size while it is typed."""
        self._keep()
        if (size := self.form.typed('numGenerations')).isdecimal() and len(size) < 3:
            self.signal.resize(int(size), cold_start=self.form.cold_start)

    async def _measured(self) -> None:
        """The measuring run is further, or has ended."""
        if self.measure.busy and self.now is not None:
            self._draw_side(self.now)
        else:
            await self._changed()

    def _keep(self) -> None:
        app.storage.user[DRAFT] = {
            'id': self.draft_id,
            'name': self.name.value or '',
            'model': self.models.picked,
            'values': self.form.draft(),
            'train': self.choice.train_ids if self.choice.rows else None,
            'held_out': self.choice.held_out_ids if self.choice.rows else None,
        }
        self.saved.set_text('Draft saved')
        changed = self.form.changed
        self.changed_text.set_text(f'{changed} changed from defaults' if changed else 'defaults')

    def _draw_marks(self, now: Standing) -> None:
        view = now.view
        self.rate_text.set_text(f'learning rate ≤ {now.model.rate_cap:g}')
        wrong = {error.loc.split('.')[0] for error in view.errors}
        for mark, done in (
            (self.task_mark, bool(self.choice.train)),
            (self.model_mark, 'model' not in wrong and not self.models.problem and now.model.supports_rl),
            (self.recipe_mark, 'coldStart' not in wrong),
            (self.settings_mark, not wrong - {'model', 'tasks', 'coldStart'} and not self.form.refused_packages),
        ):
            mark.classes(add='done') if done else mark.classes(remove='done')
        self.name.props['placeholder'] = self._default_name()
        self.recipe.show(view.plan, self._solutions())

    def _draw_side(self, now: Standing) -> None:
        self.side.clear()
        self.measure.off = 'Correct the settings first' if now.view.errors or not self.choice.train else ''
        if now.working and len(now.working) >= now.places:
            self.measure.off = 'Another run works on this machine now'
        self.measure.wants(self.models.picked, self.form.settings(), self.choice.train_ids)
        with self.side:
            draw_plan(now, train=len(self.choice.train), held_out=len(self.choice.held_out), measure=self.measure.draw)

    def _draw_needs(self, now: Standing) -> None:
        report = self.studio.sandbox.report
        self.sandbox.set_text('' if report is None else f'sandbox: {report.name}')
        train, held_out = len(self.choice.train), len(self.choice.held_out)
        missing = blocking(
            now,
            train=train,
            solutions=self._solutions(),
            cold_start=self.form.cold_start,
            refused_packages=self.form.refused_packages,
            model_problem=self.models.problem,
            sandbox=report,
        )
        self.needs.clear()
        with self.needs:
            for need in missing[:6]:
                _say(need, 'bad', 'circle-alert')
            for need in warnings(now, train=train, held_out=held_out, sandbox=report):
                _say(need, 'warn' if need.link == '/settings' or 'Memory' in need.lead else '', 'info')
        if self.starting:
            return
        self.go.off(f'{missing[0].lead} {missing[0].text}' if missing else '')

    def _solutions(self) -> int:
        """How many of the training tasks have a solution to learn from."""
        return sum(row.solution_count > 0 for row in self.choice.rows if row.id in self.choice.train)

    # ------------------------------------------------------------------ start

    def _default_name(self) -> str:
        return f'{model_of(self.models.picked).title}, {plural(len(self.choice.train), "task")}'

    def _request(self, name: str) -> str:
        """The key of this wish: the same draft, unchanged, is the same run, whichever tab or click asks for it."""
        wish = [name, self.models.picked, self.form.settings(), self.choice.train_ids, self.choice.held_out_ids]
        return f'{self.draft_id}-{hashlib.sha256(json.dumps(wish).encode()).hexdigest()[:16]}'

    async def _start(self) -> None:
        """Make the run and start it. The same request makes one run, however often the button is pressed."""
        if self.starting or self.models.problem:  # typed this moment: the button has not been told yet
            return
        self.starting = True
        self.go.disable('Starting')
        self.go.set_text('Starting')
        name = (self.name.value or '').strip() or self._default_name()
        told = False
        try:
            run = await background.io_bound(
                self.studio.runs.create,
                name,
                self.models.picked,
                self.form.settings(),
                self.choice.train_ids,
                self.choice.held_out_ids,
                request=self._request(name),
            )
            if run is None:
                return
            try:
                await background.io_bound(self.studio.runs.start, run.id)
            except AlreadyStarted:
                told = True  # pressed twice, here or in another tab: the run is there, so open it
        except RlvrError as error:
            fields = error.fields if isinstance(error, FieldsError) else ()
            toast(error.message, 'bad', detail=error.hint or '; '.join(field.msg for field in fields[:3]))
            self.starting = False
            self.go.set_text('Start training')
            await self._changed()
            return
        app.storage.user.pop(DRAFT, None)
        if told:
            toast(f'"{run.name}" was started already', 'warn', detail='This is it. Start the form again for another.')
        ui.navigate.to(f'/runs/{run.id}')


def _say(need: Need, kind: str, icon: str) -> None:
    with note(need.text, kind, icon=icon, lead=need.lead):
        if need.link:
            with ui.element('a').classes('t-small nowrap').props(f'href="{need.link}"'):
                Text('Open')
