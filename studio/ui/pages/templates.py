"""Templates: ready tasks to begin from, by checker and skill, each with what it teaches and a look inside."""

from __future__ import annotations

from collections import Counter
from typing import Final
from urllib.parse import urlencode

from nicegui import run, ui

from studio.documents import samples
from studio.documents.samples import GalleryItem
from studio.services import Studio
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import CHECKER_ICONS, Button, Icon, Text, checker_chip, chip, note, spacer
from studio.ui.components.segmented import Choice, FilterPill, Segmented
from studio.ui.components.wording import plural
from studio.ui.layout import Shell
from studio.ui.pages.library_start import load_tutorial
from studio.ui.pages.task_parts import show_task_parts

SKILL_ICONS: Final = {
    'First steps': 'flag',
    'Files and folders': 'folder',
    'Text processing': 'file-text',
    'Data formats': 'braces',
    'Fix a bug': 'wrench',
    'Write code': 'file-code',
    'Refactor': 'git-branch',
    'Build and shell': 'terminal',
    'Investigate': 'search',
}


async def page(shell: Shell, studio: Studio, checker: str = '', skill: str = '') -> None:
    """Draw the gallery, filtered as the address says."""
    with shell.topbar('Templates', crumbs=[('Tasks', '/')]) as _:
        count = Text('', classes='t3 num')
        spacer()
        Button('Load the tutorial tasks', icon='download', on_click=lambda: _load_tutorial(studio))
    items = await run.io_bound(samples.gallery)
    if items is None:
        return
    count.set_text(str(len(items)))
    _Gallery(studio, items, checker, skill)


async def _load_tutorial(studio: Studio) -> None:
    if await load_tutorial(studio):
        ui.navigate.to('/')


class _Gallery:
    """The cards, filtered by checker type and skill; the filters are in the address, so a reload keeps them."""

    def __init__(self, studio: Studio, items: tuple[GalleryItem, ...], checker: str, skill: str) -> None:
        self._studio, self._items = studio, items
        skills = {item.skill for item in items}
        self._checker = checker if checker in CHECKER_ICONS else ''
        self._skill = skill if skill in skills else ''
        with ui.element('div').classes('main flush'):
            with ui.element('div').classes('filters').props('role=group aria-label=Filters'):
                choices = [Choice('', 'All', count=len(items))]
                choices += [Choice(kind, kind, icon, 0) for kind, icon in CHECKER_ICONS.items()]
                self._kinds = Segmented(choices, self._checker, label='Checker', on_change=self._pick_checker)
                FilterPill('Skill', self._skills, self._skill, on_change=lambda pill: self._pick_skill(pill.value))
            self._grid = ui.element('div').classes('gallery')
        self._draw()

    def _skills(self) -> list[Choice]:
        counts = Counter(item.skill for item in self._items if self._fits(item, skill=''))
        order = dict.fromkeys(item.skill for item in self._items)
        return [Choice(skill, skill, SKILL_ICONS.get(skill, ''), counts[skill]) for skill in order if counts[skill]]

    def _fits(self, item: GalleryItem, *, checker: str | None = None, skill: str | None = None) -> bool:
        checker = self._checker if checker is None else checker
        skill = self._skill if skill is None else skill
        return (not checker or item.task.task_spec.checker.type == checker) and (not skill or item.skill == skill)

    def _pick_checker(self, checker: str) -> None:
        self._checker = checker
        self._filtered()

    def _pick_skill(self, skill: str) -> None:
        self._skill = skill
        self._filtered()

    def _filtered(self) -> None:
        filters = {name: value for name, value in (('checker', self._checker), ('skill', self._skill)) if value}
        ui.navigate.history.replace('/templates' + (f'?{urlencode(filters)}' if filters else ''))
        self._draw()

    def _draw(self) -> None:
        fitting = [item for item in self._items if self._fits(item, checker='')]
        counts: Counter[str] = Counter(item.task.task_spec.checker.type for item in fitting)
        self._kinds.set_counts({'': len(fitting), **counts})
        self._grid.clear()
        shown = [item for item in self._items if self._fits(item)]
        with self._grid:
            for item in shown:
                self._card(item)
            if not shown:
                with ui.element('div').classes('nothing wide-row'):
                    Icon('list-filter', 'ic-l t3')
                    Text('No template has this checker and this skill.')

    def _card(self, item: GalleryItem) -> None:
        spec, title = item.task.task_spec, item.task.title
        with ui.element('section').classes('card sample') as section:
            section.props['aria-label'] = title
            with ui.element('div').classes('bd'):
                with ui.element('div').classes('hs'):
                    Text(title, 'h2', 'ell').props['title'] = title
                    spacer()
                    checker_chip(spec.checker.type)
                Text(item.teaches, 'p', 'teaches')
                Text(spec.prompt, 'p', 'prompt')
                with ui.element('div').classes('hs hs-1 topics'):
                    chip(item.skill, 'acc', icon=SKILL_ICONS.get(item.skill, 'tag'))
                    spacer()
                    parts = [plural(len(spec.setup_files), 'file'), plural(len(item.task.solutions), 'solution')]
                    Text(' · '.join(parts), classes='hint num')
            with ui.element('div').classes('foot hs hs-1'):
                use = Button('New from template', icon='plus', kind='sm', on_click=lambda: self._use(item))
                use.props['aria-label'] = f'New from template: {title}'
                look = Button('Preview', icon='eye', kind='gho sm', on_click=lambda: self._preview(item))
                look.props['aria-label'] = f'Preview: {title}'

    def _preview(self, item: GalleryItem) -> None:
        spec = item.task.task_spec
        with opened_dialog(item.task.title, text=item.teaches, size='wide') as dialog:
            with ui.element('div').classes('hs hs-1 facts-row'):
                checker_chip(spec.checker.type)
                chip(item.skill, 'acc', icon=SKILL_ICONS.get(item.skill, 'tag'))
                for topic in item.task.topics[:4]:
                    chip(topic)
                chip(f'up to {plural(spec.max_steps, "step")}')
            Text(f'Reward: {spec.checker.reward_sentence()}', 'p', 't2 t-small')
            weakness = spec.checker.weakness()
            if weakness:
                note(weakness, 'warn', icon='triangle-alert')
            show_task_parts(item.task)
            with ui.element('div').classes('act'):
                Button('Close', on_click=dialog.close).props('autofocus')
                Button('New from template', icon='plus', kind='pri', on_click=lambda: self._use(item))

    async def _use(self, item: GalleryItem) -> None:
        view = await run.io_bound(self._studio.documents.create, item.task)
        if view is not None:
            ui.navigate.to(f'/tasks/{view.id}')
