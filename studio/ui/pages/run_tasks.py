"""The tasks of a run as they were when it was made: readable for ever, also after a task was changed or deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nicegui import run as background
from nicegui import ui

from studio.documents.views import DocumentView
from studio.errors import NotFound
from studio.runs.views import RunTask
from studio.services import Studio
from studio.ui import theme
from studio.ui.components.diff_view import draw_changes, spec_changes
from studio.ui.components.elements import Button, Text, checker_chip, chip, note, spacer
from studio.ui.components.markdown_view import markdown_view
from studio.ui.components.panel import empty, facts, panel
from studio.ui.components.wording import plural
from studio.ui.layout import Shell
from studio.ui.pages.editor_solutions import WORDS, step_words
from trainer.errors import RlvrError
from trainer.task import TaskFile

SHOWN_CHARS: Final = 20_000
SHOWN_STEPS: Final = 60
_ROLES: Final = {'train': 'Trained on', 'held_out': 'Held out'}


@dataclass(frozen=True)
class _Reading:
    """The run's tasks, the picked one as it was, and its document as it is now, unless it was deleted."""

    name: str
    tasks: tuple[RunTask, ...]
    frozen: TaskFile
    now: DocumentView | None


async def page(shell: Shell, studio: Studio, run_id: str, task: str = '') -> None:
    """Draw the page; ``task`` is the id of the picked one, or empty for the first."""
    try:
        reading = await background.io_bound(_read, studio, run_id, task)
    except RlvrError as error:
        _draw_missing(shell, run_id, error)
        return
    if reading is None:
        return
    frozen = reading.frozen
    title = frozen.title or 'Untitled task'
    with shell.topbar('Tasks', crumbs=[('Runs', '/runs'), (reading.name, f'/runs/{run_id}')], main=reading.name):
        Text(f'{len(reading.tasks)} as they were when the run was made', classes='t3 t-small hide-s')
        spacer()
        if reading.now is not None:
            Button('Open in the editor', icon='pencil', on_click=lambda: ui.navigate.to(f'/tasks/{frozen.id}'))
        else:
            Button('Make it a task again', icon='copy', on_click=lambda: _make_again(studio, frozen))
    with ui.element('div').classes('main frozen'):
        _draw_list(run_id, reading)
        with ui.element('div').classes('vs vs-3'):
            _draw_head(reading, title)
            _draw_task(frozen)
            _draw_files(frozen)
            _draw_checker(frozen)
            _draw_solutions(frozen)


def _read(studio: Studio, run_id: str, task: str) -> _Reading:
    name = studio.runs.get(run_id).name
    tasks = studio.runs.tasks(run_id)
    picked = task or (tasks[0].id if tasks else '')
    frozen = studio.runs.task(run_id, picked)
    try:
        now: DocumentView | None = studio.documents.get(frozen.id)
    except NotFound:
        now = None
    return _Reading(name, tasks, frozen, now)


async def _make_again(studio: Studio, frozen: TaskFile) -> None:
    made = await background.io_bound(studio.documents.create, frozen)
    if made is not None:
        theme.toast('A draft made from the copy of this run')
        ui.navigate.to(f'/tasks/{made.id}')


def _draw_list(run_id: str, reading: _Reading) -> None:
    with ui.element('nav').classes('card tasklist').props('aria-label="Tasks of the run"'):
        for role, words in _ROLES.items():
            rows = [task for task in reading.tasks if task.role == role]
            if not rows:
                continue
            Text(f'{words} · {len(rows)}', 'h2', 'lbl')
            for row in rows:
                with ui.element('a').classes('row') as link:
                    link.props['href'] = f'/runs/{run_id}/tasks?task={row.id}'
                    if row.id == reading.frozen.id:
                        link.props['aria-current'] = 'page'
                    Text(row.title or 'Untitled task', classes='ell').props['title'] = row.title
                    if row.version:
                        Text(f'v{row.version}', classes='t3 num t-small')


def _draw_head(reading: _Reading, title: str) -> None:
    frozen, now = reading.frozen, reading.now
    version = f'Version {frozen.version}' if frozen.version else 'Copy'
    with ui.element('section').classes('card pad-card').props('aria-label="This copy"'):
        with ui.element('div').classes('hs'):
            Text(title, 'h2', 'w6')
            chip(version, icon='lock')
            checker_chip(frozen.task_spec.checker.type)
        Text(f'hash {frozen.task_spec.hash}', 'p', 'hint mono ell')
        if now is None:
            note('This run keeps its copy.', 'info', icon='info', lead='The task was deleted since.')
        elif now.hash != frozen.task_spec.hash:
            lead = f'The task was changed since; it is at v{now.version} now.'
            note('What changed is listed below.', 'info', icon='history', lead=lead)
            with ui.element('details').classes('since').props('open'):
                Text('Changed since this run', 'summary')
                draw_changes(spec_changes(frozen.task_spec.to_json(), now.draft), nothing='Nothing.')


def _draw_task(frozen: TaskFile) -> None:
    spec = frozen.task_spec
    with panel('RL Task', icon='list-checks'), ui.element('div').classes('pad-card vs vs-3'):
        with ui.element('div').classes('marked'):
            markdown_view(spec.prompt)
        with ui.element('details'):
            Text('Source, byte for byte', 'summary')
            _pre(spec.prompt)
        facts(('Environment', spec.env), ('Max steps', str(spec.max_steps)))
        for number, command in enumerate(spec.setup_commands, 1):
            Text(f'Setup command {number}', classes='lbl')
            _pre(command)


def _draw_files(frozen: TaskFile) -> None:
    files = frozen.task_spec.setup_files
    if not files:
        return
    with panel('Setup files', icon='folder') as head:
        with head:
            Text(plural(len(files), 'file'), classes='t3 t-small')
        with ui.element('div').classes('pad-card vs'):
            for path, text in sorted(files.items()):
                with ui.element('details'):
                    Text(path, 'summary', 'mono')
                    _pre(text)


def _draw_checker(frozen: TaskFile) -> None:
    checker = frozen.task_spec.checker
    with panel('RL Checker', icon='scale'), ui.element('div').classes('pad-card vs'):
        Text(checker.reward_sentence(), 'p', 't2')
        for name, value in checker.config.model_dump(mode='json', exclude_defaults=True).items():
            Text(name, classes='lbl mono')
            text = '\n'.join(map(str, value)) if isinstance(value, list) else str(value)
            _pre(text) if text else Text('none', 'p', 't3 t-small')


def _draw_solutions(frozen: TaskFile) -> None:
    for solution in frozen.solutions:
        with panel(solution.name or WORDS[solution.kind][0], icon='video'), ui.element('ol').classes('steps'):
            for number, step in enumerate(solution.steps[:SHOWN_STEPS], 1):
                what, extra = step_words(step)
                with ui.element('li'):
                    Text(str(number), classes='i')
                    Text(step.tool, classes='chip mono')
                    Text(what, classes='mono ell').props['title'] = what[:2000]
                    Text(extra, classes='t3 num')
            if len(solution.steps) > SHOWN_STEPS:
                Text(f'… {len(solution.steps) - SHOWN_STEPS} more steps', 'li', 't3')


def _pre(text: str) -> None:
    with ui.element('div').classes('frozen-text'):
        Text(text[:SHOWN_CHARS], 'pre', 'code').props('tabindex=0')
        if len(text) > SHOWN_CHARS:
            Text(f'… {len(text) - SHOWN_CHARS:,} more characters', 'p', 't3 t-small')


def _draw_missing(shell: Shell, run_id: str, error: RlvrError) -> None:
    with shell.topbar('Tasks', crumbs=[('Runs', '/runs')]):
        pass
    with empty('circle-alert', error.message, error.hint):
        Button('Open the run', on_click=lambda: ui.navigate.to(f'/runs/{run_id}'))
