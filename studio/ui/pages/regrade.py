"""Grading a run's final workspaces again: choose what and with which checker, watch it, see what flipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from nicegui import run as background
from nicegui import ui
from pydantic import ValidationError

from studio.ui.components.diff_view import draw_changes, spec_changes
from studio.ui.components.elements import Button, Icon, Text, note, spacer
from studio.ui.components.panel import empty, panel
from studio.ui.components.segmented import Choice, FilterPill, Segmented
from studio.ui.components.wording import plural, size
from studio.ui.layout import Shell
from studio.ui.pages.regrade_results import RegradeResults
from studio.workspaces.regrade_views import Asked, Choices, RegradeView, Results, Source
from trainer.errors import RlvrError
from trainer.task import TaskSpec

if TYPE_CHECKING:
    from studio.services import Studio

RESULTS: Final[dict[Results, str]] = {'': 'All', 'passed': 'Passed', 'not_passed': 'Failed', 'error': 'Errors'}
SOURCES: Final[dict[Source, str]] = {'frozen': 'Of the run', 'library': 'Of the library, as it is now'}


@dataclass(frozen=True)
class _Reading:
    name: str
    choices: Choices
    view: RegradeView | None


async def page(
    shell: Shell, run_id: str, task: str = '', source: str = '', results: str = '', rollouts: str = ''
) -> None:
    """Draw the page; what the address asks for and cannot be is left out."""
    try:
        reading = await background.io_bound(_read, shell.studio, run_id)
    except RlvrError as error:
        with shell.topbar('Re-grade', crumbs=[('Runs', '/runs')]):
            pass
        with empty('circle-alert', error.message):
            Button('All runs', on_click=lambda: ui.navigate.to('/runs'))
        return
    if reading is None:
        return
    with shell.topbar('Re-grade', crumbs=[('Runs', '/runs'), (reading.name, f'/runs/{run_id}')], main=reading.name):
        Text('What was earned stays as it was recorded', classes='t3 t-small hide-s')
    RegradeScreen(shell, run_id, reading, read_asked(task, source, results, rollouts, reading))


def read_asked(task: str, source: str, results: str, rollouts: str, reading: _Reading) -> Asked:
    """What an address asks for, as far as it can be; without it, what was asked for last."""
    if not any((task, source, results, rollouts)) and reading.view is not None:
        return reading.view.asked
    picked = tuple(int(id) for id in rollouts.split(',') if id.isascii() and id.isdecimal())[:10_000]
    known = {one.id for one in reading.choices.tasks}
    given = {
        'source': source or 'frozen',
        'results': results,
        'rollouts': picked,
        'task': task if task in known else '',
    }
    try:
        return Asked.model_validate(given)
    except ValidationError:
        return Asked(task=given['task'] if isinstance(given['task'], str) else '', rollouts=picked)


def _read(studio: Studio, run_id: str) -> _Reading:
    name = studio.runs.get(run_id).name
    return _Reading(name, studio.regrades.choices(run_id), studio.regrades.view(run_id))


class RegradeScreen:
    """The page in one tab."""

    def __init__(self, shell: Shell, run_id: str, reading: _Reading, asked: Asked) -> None:
        self._shell, self._studio, self._id = shell, shell.studio, run_id
        self._choices, self._asked = reading.choices, asked
        with ui.element('div').classes('main regrade'):
            with ui.element('div').classes('vs vs-3 what'):
                self._draw_form()
            with ui.element('div').classes('vs vs-3 came'):
                self._results = RegradeResults(self._studio, run_id, on_state=self._working)
        self._results.show(reading.view)

    def _draw_form(self) -> None:
        choices = self._choices
        with (
            panel('What to grade', icon='history', label='What to grade'),
            ui.element('div').classes('pad-card vs vs-3'),
        ):
            self._kept = Text(
                f'{choices.kept:,} of {plural(choices.recorded, "rollout")} still have their final workspace, '
                f'{size(choices.bytes)} on disk.',
                'p',
                't2 t-small',
            )
            if choices.why_none:
                note(choices.why_none, 'info')
            titles = {one.title or one.id: one.id for one in choices.tasks}
            names = {id: title for title, id in titles.items()}
            with ui.element('div').classes('hs wrap'):
                self._task = FilterPill(
                    'Task',
                    lambda: [Choice(title, title, count=self._kept_of(id)) for title, id in titles.items()],
                    names.get(self._asked.task, ''),
                    on_change=lambda pill: self._set(task=titles.get(pill.value, '')),
                )
                Segmented(
                    [Choice(value, label) for value, label in RESULTS.items()],
                    self._asked.results,
                    label='Recorded result',
                    on_change=lambda picked: self._set(results=cast('Results', picked)),
                )
                if self._asked.rollouts:
                    self._draw_picked()
            Text('Checker', classes='lbl')
            Segmented(
                [Choice(value, label) for value, label in SOURCES.items()],
                self._asked.source,
                label='Checker',
                on_change=lambda picked: self._set(source=cast('Source', picked)),
            )
            self._about = ui.element('div').classes('vs').props('role=status')
            with ui.element('div').classes('hs'):
                self._start = Button('Re-grade', icon='play', kind='pri', key='mod+enter', on_click=self._begin)
                self._why = Text('', classes='t3 t-small')
        self._difference = ui.element('div')
        self._draw_about()
        ui.timer(0, self._draw_difference, once=True)

    def _draw_picked(self) -> None:
        with ui.element('span').classes('pill on') as pill:
            Text(f'{plural(len(self._asked.rollouts), "rollout")} picked').classes('in')
            with ui.element('button').props('type=button aria-label="All rollouts"').classes('in') as cross:
                Icon('x', 'ic-xs')

        async def clear() -> None:
            pill.set_visibility(False)
            await self._set(rollouts=())

        cross.on('click', clear, args=[])

    def _kept_of(self, task: str) -> int:
        return next((one.kept for one in self._choices.tasks if one.id == task), 0)

    async def _set(self, **changes: object) -> None:
        self._asked = self._asked.model_copy(update=changes)
        self._draw_about()
        await self._draw_difference()

    def _draw_about(self) -> None:
        """Say what the chosen checkers are, and whether there is anything to grade with them."""
        asked = self._asked
        tasks = [one for one in self._choices.tasks if one.kept and asked.task in ('', one.id)]
        self._about.clear()
        with self._about:
            if asked.source == 'frozen':
                Text('The checkers as they were when the run was made: a steady one says the same again.', 'p', 'hint')
                usable = tasks
            else:
                usable = [one for one in tasks if not one.obstacle]
                changed = sum(one.is_changed for one in usable)
                Text(f'{changed} of {plural(len(tasks), "task")} changed since the run was made.', 'p', 'hint')
                for one in [one for one in tasks if one.obstacle][:5]:
                    note(f'It cannot be graded: {one.obstacle}.', 'warn', icon='ban', lead=f'{one.title or one.id}.')
                left = sum(bool(one.obstacle) for one in tasks) - 5
                if left > 0:
                    Text(f'and {plural(left, "more task")} that cannot be graded', 'p', 't3 t-small')
        why = ''
        if not tasks:
            why = 'No final workspace of this task is kept' if asked.task else 'No final workspace is kept'
        elif not usable:
            why = 'None of these tasks can be graded with the library'
        self._start.off(why or self._busy)
        self._why.set_text(why)

    _busy = ''

    def _working(self, is_active: bool) -> None:
        self._busy = 'It is being graded' if is_active else ''
        self._draw_about()

    async def _draw_difference(self) -> None:
        """Show how the checker of the picked task differs from the run's."""
        self._difference.clear()
        asked = self._asked
        if asked.source != 'library' or not asked.task:
            return
        specs = await background.io_bound(self._studio.regrades.specs, self._id, asked.task)
        if specs is None or asked != self._asked:
            return
        frozen, now = specs
        with self._difference, panel('What changed in the checker', icon='git-compare') as head:
            with head:
                spacer()
                if now is not None:
                    edit = f'/tasks/{asked.task}'
                    Button('Edit', icon='pencil', kind='gho sm', on_click=lambda: ui.navigate.to(edit))
            with ui.element('div').classes('pad-card'):
                if now is None:
                    Text('The task is not in the library any more.', 'p', 't3')
                else:
                    draw_changes(spec_changes(_graded_by(frozen), _graded_by(now)), nothing='Nothing.')

    async def _begin(self) -> None:
        self._start.disable('Starting')
        try:
            view = await background.io_bound(self._studio.regrades.start, self._id, self._asked)
        finally:
            self._draw_about()
        self._results.show(view)


def _graded_by(spec: TaskSpec) -> dict[str, object]:
    """What of a task decides a verdict."""
    whole = spec.to_json()
    return {name: whole[name] for name in ('checker', 'setup_files') if name in whole}
