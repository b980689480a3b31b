"""Merging an adapter: precision and place, what it needs, how far it is, and how far the result is from the adapter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from nicegui import run as background
from nicegui import ui

from studio.adapters.use import MERGE, AdapterSource, AdapterUse, Merged, MergePlan
from studio.side_jobs.service import SideJobView
from studio.ui.components.elements import Button, Icon, Text, chip
from studio.ui.components.fields import Field
from studio.ui.components.job_progress import JobProgress
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.components.wording import ago, size
from studio.ui.theme import toast
from trainer.errors import RlvrError
from trainer.merged_model import Dtype

LOOK_S: Final = 0.4
_DTYPES: Final[dict[str, Dtype]] = {'float32': 'float32', 'bfloat16': 'bfloat16'}


class MergeForm:
    """The form and the job in one tab; ``on_made`` is called when a merge has ended well."""

    def __init__(
        self,
        use: AdapterUse,
        source: AdapterSource,
        merged: Sequence[Merged],
        *,
        on_made: Callable[[], Awaitable[None]],
    ) -> None:
        self._use, self._source, self._on_made = use, source, on_made
        self._dtype: Dtype = 'float32'
        self._typed = False
        Text(
            'Writes the adapter into the weights of its base model: one model, ready to be served or converted.',
            'p',
            't2',
        )
        with ui.element('div').classes('form'):
            with Field('Folder', hint='A bare name goes into the data folder.') as self._field:
                self._out = ui.input().props('outlined dense input-class=mono debounce=300')
                self._out.props['aria-label'] = 'Folder'
            with Field('Precision'):
                choices = [Choice(name, name) for name in _DTYPES]
                Segmented(choices, 'float32', label='Precision', on_change=self._pick)
        with ui.element('div').classes('act'):
            self._go = Button('Merge', icon='merge', on_click=self._start)
            self._needs = Text('', classes='t3 t-small num')
        self._progress = JobProgress(on_cancel=self._cancel)
        if merged:
            with ui.element('div').props('aria-label="Merged models"'):
                for one in merged:
                    made_row(one)
        self._out.on_value_change(self._changed)
        self._timer = ui.timer(LOOK_S, self._look, active=False)
        ui.timer(0, self._open, once=True)

    async def _open(self) -> None:
        await self._suggest()
        job = self._latest()
        self._progress.show(job if job is not None and job.state != 'done' else None)
        self._busy(job)

    async def _pick(self, dtype: str) -> None:
        self._dtype = _DTYPES[dtype]
        await (self._plan() if self._typed else self._suggest())

    async def _changed(self) -> None:
        self._typed = str(self._out.value or '').strip() != str(self._suggested)
        await self._plan()

    async def _suggest(self) -> None:
        found = await background.io_bound(self._use.default_target, self._source, self._dtype)
        self._suggested = '' if found is None else str(found)
        self._out.set_value(self._suggested)
        await self._plan()

    async def _plan(self) -> None:
        plan = await background.io_bound(self._use.plan_merge, self._source, str(self._out.value or ''), self._dtype)
        if plan is not None:
            self._field.show_error(plan.problem)
            self._needs.set_text(needs(plan))
            if not self._timer.active:
                self._go.off('See what is wrong with the folder' if plan.problem else '')

    async def _start(self) -> None:
        try:
            job = await background.io_bound(self._use.merge, self._source, str(self._out.value or ''), self._dtype)
        except RlvrError as error:
            self._field.show_error(error.message)
            return
        self._progress.show(job)
        self._busy(job)

    async def _cancel(self) -> None:
        job = self._latest()
        if job is not None:
            await background.io_bound(self._use.jobs.cancel, job.id)

    async def _look(self) -> None:
        job = self._latest()
        self._progress.show(job)
        self._busy(job)
        if job is not None and job.state == 'done':
            toast('Merged', detail=str(job.result.get('folder', '')))
            await self._on_made()
        elif job is not None and job.state != 'running':
            await self._plan()

    def _busy(self, job: SideJobView | None) -> None:
        running = job is not None and job.state == 'running'
        self._timer.active = running
        self._go.off('A merge of this adapter is running' if running else '')

    def _latest(self) -> SideJobView | None:
        return self._use.jobs.latest(MERGE, str(self._source.folder))


def made_row(merged: Merged) -> None:
    """Draw a merged model: where it is, and how far it is from base and adapter."""
    path, words = str(merged.folder), merged.model.drift.words
    with ui.element('div').classes('made'):
        Icon('box', 'ic-s t3')
        with ui.element('div').classes('vs vs-0 ell'):
            Text(merged.folder.name, classes='w5 ell').props['title'] = path
            Text(words, classes='t3 t-micro num ell').props['title'] = words
        chip(merged.model.dtype, 'mono')
        Text(f'{size(merged.size)} · {ago(merged.model.created_at)}', classes='t3 t-small num nowrap')
        Button(
            icon='copy', kind='gho icn xs', label=f'Copy the path of {merged.folder.name}', on_click=lambda: _copy(path)
        )


def needs(plan: MergePlan) -> str:
    """What a merge takes on the disk, and what is free there."""
    free = '' if plan.free is None else f', {size(plan.free)} free'
    return f'Needs {size(plan.needed)}{free}' if plan.needed is not None else f'Needs as much as its base model{free}'


def _copy(text: str) -> None:
    ui.clipboard.write(text)
    toast('Copied')
