"""Make variants of a task: values for its placeholders at the left, every row they give at the right, then the work."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from nicegui import run, ui

from studio.documents.views import DocumentView
from studio.services import Studio
from studio.ui import theme
from studio.ui.components.elements import Button, note, spacer
from studio.ui.components.wording import plural
from studio.ui.layout import Shell
from studio.ui.pages.open_task import open_task
from studio.ui.pages.variants_form import VariantsForm
from studio.ui.pages.variants_preview import VariantsPreview
from studio.ui.pages.variants_progress import VariantsProgress
from studio.variants.placeholders import Spot, spots
from studio.variants.service import Form, Preview, template_of
from trainer.errors import FieldError, TaskError

POLL_S: Final = 0.4
REST_S: Final = 0.35
"""Seconds without a key before the rows are filled in again."""


async def page(shell: Shell, studio: Studio, task_id: str) -> None:
    """Draw the form for a task, or say that it is gone."""
    view = await open_task(shell, studio, task_id)
    if view is not None:
        _Page(shell, studio, view)


class _Page:
    """One tab's form, preview and progress for one task."""

    def __init__(self, shell: Shell, studio: Studio, view: DocumentView) -> None:
        self._studio, self._view = studio, view
        self._variants = studio.variants
        self._preview = Preview()
        self._wanted = self._shown = 0
        self._making = False
        form = self._variants.form(view.id)
        title = view.title.strip() or 'Untitled task'
        with shell.topbar(
            'Make variants', crumbs=[('Tasks', '/'), (title, f'/tasks/{view.id}')], main=f'Variants: {title}'
        ):
            spacer()
            Button('Back to the task', icon='arrow-left', kind='gho hide-s', on_click=self._back)
            self._make = Button('Make variants', icon='layers', kind='pri', key='mod+enter', on_click=self._make_now)
        found = _named(spots(template_of(view)))
        with ui.element('div').classes('main'), ui.element('div').classes('va'):
            with ui.element('div').classes('vs vs-3 form'):
                self._form = VariantsForm(form, found, on_change=self._changed)
            with ui.element('div').classes('vs vs-3 rows'):
                self._progress = VariantsProgress(self._variants, view.id, on_change=self._job_changed)
                self._note = ui.element('div').classes('vs')
                self._rows = VariantsPreview()
        self._rest = ui.timer(REST_S, self._fill_in, once=True)
        self._poll = ui.timer(POLL_S, self._look, immediate=True)
        shell.on_leave(self._leave)
        self._show_state()

    def _leave(self) -> None:
        self._rest.cancel()
        self._poll.cancel()

    def _back(self) -> None:
        ui.navigate.to(f'/tasks/{self._view.id}')

    def _changed(self) -> None:
        """Something was typed: fill in the rows when the keys have rested."""
        self._variants.keep_form(self._view.id, self._form.value)
        self._wanted += 1
        self._rest.cancel()
        with self._rows.box:
            self._rest = ui.timer(REST_S, self._fill_in, once=True)
        self._show_state()

    async def _fill_in(self) -> None:
        wanted, form = self._wanted, self._form.value
        problems: tuple[FieldError, ...] = ()
        try:
            found = await run.io_bound(self._looked_at, form)
        except TaskError as error:
            found, problems = Preview(), error.fields or (FieldError(loc='', msg=error.message),)
        if found is None:
            raise asyncio.CancelledError  # The studio shuts down, and the timer would sleep on.
        if wanted != self._wanted:
            return  # Newer text is on its way.
        self._shown = wanted
        self._preview = found
        self._form.show_problems((*problems, *found.problems), found.columns)
        self._rows.show(found)
        self._show_notes()
        self._show_state()

    def _looked_at(self, form: Form) -> Preview:
        return self._variants.preview(self._view.id, form.recipe())

    def _show_notes(self) -> None:
        self._note.clear()
        with self._note:
            for remark in self._preview.remarks:
                note(remark, 'warn', icon='triangle-alert')

    def _look(self) -> None:
        self._progress.look()

    def _job_changed(self) -> None:
        """What was made, or taken back, changes which rows are here already."""
        self._changed() if not self._progress.is_busy else self._show_state()

    def _show_state(self) -> None:
        """Say on the button what it will do, or why it cannot."""
        good = len(self._preview.good)
        self._make.set_text(f'Make {plural(good, "variant")}' if good else 'Make variants')
        if self._progress.is_busy or self._making:
            self._make.disable('Variants of this task are being made')
        elif self._shown != self._wanted:
            self._make.disable('The rows are being filled in')
        elif self._preview.problems:
            self._make.disable('Solve what is marked first')
        elif not good:
            self._make.disable('There is no row without a problem yet')
        else:
            self._make.enable()

    async def _make_now(self) -> None:
        if self._making or self._progress.is_busy:
            return
        self._making = True
        self._show_state()
        form = self._form.value
        try:
            await run.io_bound(self._begin, form)
        except TaskError as error:
            theme.toast(error.message, 'bad', detail=error.hint)
        finally:
            self._making = False
        self._progress.look()
        self._show_state()

    def _begin(self, form: Form) -> Any:
        return self._variants.make(self._view.id, form.recipe(), publish=form.publish)


def _named(found: tuple[Spot, ...]) -> dict[str, list[Spot]]:
    """The placeholders of a task by name, in reading order; those of the shell are none."""
    names: dict[str, list[Spot]] = {}
    for spot in found:
        if not spot.is_shell:
            names.setdefault(spot.name, []).append(spot)
    return names
