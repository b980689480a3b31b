"""Templates: ready tasks to start from, each with files, a checker and solutions."""

from __future__ import annotations

from nicegui import run, ui

from studio import samples
from studio.services import Studio
from studio.ui.components.elements import CHECKER_ICONS, Button, Icon, Text, checker_chip, chip
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.components.wording import plural
from studio.ui.layout import Shell
from studio.ui.pages.library_start import load_tutorial
from trainer.task import TaskFile


async def page(shell: Shell, studio: Studio) -> None:
    """Draw the gallery."""
    with shell.topbar('Templates', crumbs=[('Tasks', '/')]) as _:
        count = Text('', classes='t3 num')
        ui.element('span').classes('sp')
        Button('Load the tutorial tasks', icon='download', on_click=lambda: _load_tutorial(studio))
    tasks = await run.io_bound(samples.templates)
    if tasks is None:
        return
    count.set_text(str(len(tasks)) if tasks else '')
    _Gallery(studio, tasks)


async def _load_tutorial(studio: Studio) -> None:
    if await load_tutorial(studio):
        ui.navigate.to('/')


class _Gallery:
    """The cards, filtered by checker type."""

    def __init__(self, studio: Studio, tasks: list[TaskFile]) -> None:
        self._studio, self._tasks = studio, tasks
        with ui.element('div').classes('main flush'):
            if not tasks:
                with ui.element('div').classes('nothing empty'):
                    Icon('list', 'ic-l t3')
                    Text('No templates are installed. Start with a blank task, or import your own.')
                    Button('Open the library', kind='sm', on_click=lambda: ui.navigate.to('/'))
                return
            with ui.element('div').classes('filters').props('role=group aria-label=Filters'):
                kinds = {task.task_spec.checker.type for task in tasks}
                choices = [Choice('', 'All', count=len(tasks))]
                choices += [
                    Choice(kind, kind, icon, sum(task.task_spec.checker.type == kind for task in tasks))
                    for kind, icon in CHECKER_ICONS.items()
                    if kind in kinds
                ]
                Segmented(choices, '', label='Checker', on_change=self._draw)
            self._grid = ui.element('div').classes('gallery')
        self._draw('')

    def _draw(self, kind: str) -> None:
        self._grid.clear()
        with self._grid:
            for task in self._tasks:
                if not kind or task.task_spec.checker.type == kind:
                    self._card(task)

    def _card(self, task: TaskFile) -> None:
        spec = task.task_spec
        title = task.title or 'Untitled task'
        with ui.element('section').classes('card sample') as section:
            section.props['aria-label'] = title
            with ui.element('div').classes('bd'):
                with ui.element('div').classes('hs'):
                    Text(title, 'h2', 'ell').props['title'] = title
                    ui.element('span').classes('sp')
                    checker_chip(spec.checker.type)
                Text(spec.prompt, 'p', 'prompt')
                with ui.element('div').classes('hs hs-1 topics'):
                    for topic in task.topics[:3]:
                        chip(topic)
                    ui.element('span').classes('sp')
                    parts = [plural(len(spec.setup_files), 'file'), plural(len(task.solutions), 'solution')]
                    Text(' · '.join(parts), classes='hint num')
            with ui.element('div').classes('foot'):
                button = Button('Use this template', icon='plus', kind='sm')
                button.on('click', lambda: self._use(task), args=[])

    async def _use(self, task: TaskFile) -> None:
        view = await run.io_bound(self._studio.documents.create, task)
        if view is not None:
            ui.navigate.to(f'/tasks/{view.id}')
