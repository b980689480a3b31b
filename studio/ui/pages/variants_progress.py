"""The work of making variants: how far it is, a way to stop, and at its end what was made, certified and failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from nicegui import run, ui

from studio.ui import theme
from studio.ui.components.elements import Button, Icon, Text, chip, spacer
from studio.ui.components.wording import duration, plural
from studio.variants.job import JobView, Made, Outcome
from studio.variants.service import Variants

_SHOWN: Final = 200
_LOOKS: Final[dict[Outcome, tuple[str, str, str]]] = {
    'waiting': ('clock', 't3', 'Waiting'),
    'certifying': ('hourglass', 't2', 'Certifying'),
    'certified': ('badge-check', 'c-ok', 'Certified'),
    'failed': ('badge-x', 'c-bad', 'Failed'),
    'untried': ('circle-dashed', 't3', 'Not tried'),
}


class VariantsProgress:
    """Draws the last job of a task; ``look`` is called a few times a second.

    ``on_change`` is called when a job begins, ends, or is taken back.
    """

    def __init__(self, variants: Variants, task_id: str, *, on_change: Callable[[], Any]) -> None:
        self._variants, self._id, self._on_change = variants, task_id, on_change
        self._seen: JobView | None = None
        with ui.element('section').classes('card job').props('aria-label="Variants being made"') as self._card:
            with ui.element('div').classes('hd'):
                self._icon = Icon('hourglass', 'lead')
                self._title = Text('', 'h2').props('role=status')
                self._eta = Text('', classes='t3 t-small num nowrap')
                spacer()
                self._cancel = Button('Cancel', icon='circle-stop', kind='dan sm', on_click=self._cancel_now)
                self._undo = Button('Undo', icon='rotate-ccw', kind='gho sm', on_click=self._undo_now)
            with ui.element('div').classes('bd vs vs-1'):
                with ui.element('div').classes('meter').props('role=progressbar aria-label="Variants made"') as bar:
                    self._fill = ui.element('i')
                self._bar = bar
                self._counts = ui.element('div').classes('hs hs-1 counts')
                self._reason = Text('', 'p', 'c-bad t-small')
            self._list = ui.element('ul').classes('variants made').props('role=list aria-label="Made variants"')
        self._card.set_visibility(False)

    @property
    def is_busy(self) -> bool:
        """Whether variants are being made."""
        return self._seen is not None and self._seen.is_active

    def look(self) -> None:
        """Bring the card up to date."""
        job = self._variants.job(self._id)
        if job is None or job == self._seen:
            return
        before, self._seen = self._seen, job
        self._card.set_visibility(not job.is_undone)
        self._draw(job)
        if before is None or before.made != job.made or before.state != job.state:
            self._draw_list(job)
        if before is None or (before.is_active, before.is_undone) != (job.is_active, job.is_undone):
            self._on_change()

    def _draw(self, job: JobView) -> None:
        tried, total = job.count('certified', 'failed'), len(job.made)
        icon = {'running': 'hourglass', 'done': 'circle-check', 'cancelled': 'circle-stop', 'stopped': 'circle-alert'}
        self._icon.set(icon[job.state])
        self._title.set_text(_said(job, tried, total))
        left = f'about {duration(job.eta_s)} left' if job.is_active and job.eta_s is not None else ''
        self._eta.set_text(' · '.join(part for part in (job.step, left) if part))
        self._cancel.set_visibility(job.is_active)
        self._undo.set_visibility(not job.is_active and job.count() > 0)
        self._bar.props(f'aria-valuemin=0 aria-valuemax={total} aria-valuenow={tried}')
        self._bar.set_visibility(job.is_active)
        self._fill.style(f'width: {100 * tried / max(total, 1):.1f}%')
        self._counts.clear()
        with self._counts:
            chip(f'{job.count()} made', 'info', icon='layers')
            chip(f'{job.count("certified")} certified', 'ok', icon='badge-check')
            chip(f'{job.count("failed")} failed', 'bad' if job.count('failed') else '', icon='badge-x')
            untried = job.count('untried')
            if untried:
                chip(f'{untried} not tried', '', icon='circle-dashed')
            topic = self._topic()
            if topic and job.count():
                with ui.element('a').props(f'href="/?topic={quote(topic)}"').classes('t-small'):
                    Text('Open them in the library')
        self._reason.set_text(job.reason)
        self._reason.set_visibility(bool(job.reason))

    def _topic(self) -> str:
        return self._variants.topic(self._id)

    def _draw_list(self, job: JobView) -> None:
        self._list.clear()
        # What failed comes first: it is what is left to do.
        rows = sorted((one for one in job.made if one.id), key=lambda one: (one.outcome != 'failed', one.number))
        with self._list:
            for one in rows[:_SHOWN]:
                with ui.element('li'):
                    _draw_made(one)
            if len(rows) > _SHOWN:
                Text(f'… and {len(rows) - _SHOWN:,} more in the library', 'li', 't3 t-small pad')

    def _cancel_now(self) -> None:
        self._cancel.disable('Ending what runs')
        self._variants.cancel(self._id)
        self._cancel.enable()

    async def _undo_now(self) -> None:
        count = await run.io_bound(self._variants.undo, self._id)
        if count is None:
            return
        self.look()

        async def redo() -> None:
            await run.io_bound(self._variants.redo, self._id)
            self.look()

        theme.toast(f'{plural(count, "variant")} deleted', undo=redo)


def _said(job: JobView, tried: int, total: int) -> str:
    if job.state == 'running':
        return f'Making variants: {tried} of {total} done'
    made, certified, failed = job.count(), job.count('certified'), job.count('failed')
    words = f'{plural(made, "variant")} made, {certified} certified, {failed} failed'
    return {'done': words, 'cancelled': f'Cancelled: {words}', 'stopped': f'Stopped: {words}'}[job.state]


def _draw_made(one: Made) -> None:
    icon, colour, word = _LOOKS[one.outcome]
    with ui.element('a').props(f'href="/tasks/{one.id}"'):
        Text(str(one.number), classes='n num t3')
        Icon(icon, f'ic-s {colour}', label=word)
        with ui.element('span').classes('what'):
            Text(one.title, classes='ell w5')
            if one.reason:
                Text(one.reason, classes='t-micro why ' + ('c-bad' if one.outcome == 'failed' else 'c-warn'))
        chip('Published' if one.is_published else 'Draft', 'ok' if one.is_published else 'out')
        Icon('chevron-right', 'ic-s t3')
