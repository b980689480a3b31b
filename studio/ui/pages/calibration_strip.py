"""The strip that says how far a calibration is, with a way to cancel it, and what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from nicegui import app, run, ui

from studio.calibrations.views import JobView
from studio.ui.components.elements import Button, Icon, Text, spacer
from studio.ui.components.wording import duration, plural

if TYPE_CHECKING:
    from studio.services import Studio
    from studio.ui.layout import Shell

POLL_S: Final = 1.0
SEEN: Final = 'calibration_seen'
"""The last calibration whose end this browser was told of and does not want to see again."""
_ICONS: Final = {
    'waiting': 'clock',
    'running': 'target',
    'done': 'circle-check',
    'cancelled': 'circle-stop',
    'failed': 'circle-alert',
    'interrupted': 'triangle-alert',
}


class CalibrationStrip:
    """Shows the newest calibration of the studio; ``on_counted`` is called when more tasks are counted."""

    def __init__(
        self, shell: Shell, studio: Studio, on_counted: Callable[[], Awaitable[Any]], *, classes: str = ''
    ) -> None:
        self._calibrations, self._on_counted = studio.calibrations, on_counted
        self._seen: JobView | None = None
        self._followed = ''
        with ui.element('div').classes(f'strip {classes}').props('role=group aria-label=Calibration') as self._strip:
            self._icon = Icon('target', 'ic-s')
            self._title = Text(classes='what num').props('role=status')
            with ui.element('div').classes('meter').props('role=progressbar aria-label="Attempts made"') as self._bar:
                self._fill = ui.element('i')
            self._more = Text(classes='more-words num ell')
            spacer()
            self._go_on = Button('Go on', icon='play', kind='sm', on_click=self._resume)
            self._cancel = Button('Cancel', icon='circle-stop', kind='dan sm', on_click=self._end)
            self._close = Button(icon='x', kind='gho icn sm', label='Dismiss', on_click=self._dismiss)
        self._strip.set_visibility(False)
        timer = ui.timer(POLL_S, self.look)
        shell.on_leave(timer.cancel)

    @property
    def is_busy(self) -> bool:
        """Whether a calibration works."""
        return self._seen is not None and self._seen.is_active

    async def look(self) -> None:
        """Bring the strip up to date."""
        job = await run.io_bound(self._calibrations.job)
        if job is None or job == self._seen or self._strip.is_deleted:
            return
        before, self._seen = self._seen, job
        if job.is_active:
            self._followed = job.id
        self._draw(job)
        if before is not None and (before.id, before.tried, before.state) != (job.id, job.tried, job.state):
            await self._on_counted()

    def _draw(self, job: JobView) -> None:
        self._strip.set_visibility(job.is_active or self._is_news(job))
        self._icon.set(_ICONS[job.state])
        self._strip.classes(add='bad') if job.state == 'failed' else self._strip.classes(remove='bad')
        self._title.set_text(_title(job))
        self._more.set_text(_more(job))
        self._more.props['title'] = _more(job)
        self._bar.set_visibility(job.is_active)
        share = job.checked / job.total if job.total else 0.0
        self._bar.props(f'aria-valuemin=0 aria-valuemax={job.total} aria-valuenow={job.checked}')
        self._fill.style(f'width: {share:.1%}')
        self._cancel.set_visibility(job.is_active)
        self._close.set_visibility(not job.is_active)
        self._go_on.set_visibility(not job.is_active and job.left > 0)

    def _is_news(self, job: JobView) -> bool:
        """Whether this browser wants to know of a calibration that ended: it saw it at work, or it broke meanwhile."""
        if app.storage.user.get(SEEN) == job.id:
            return False
        return self._followed == job.id or job.state in ('failed', 'interrupted')

    async def _end(self) -> None:
        self._cancel.disable('Ending what runs')
        await run.io_bound(self._calibrations.cancel)
        self._cancel.enable()
        await self.look()

    async def _resume(self) -> None:
        if self._seen is None:
            return
        self._go_on.disable('Starting')
        try:
            await run.io_bound(self._calibrations.go_on, self._seen.id)
        finally:
            self._go_on.enable()
        await self.look()

    def _dismiss(self) -> None:
        if self._seen is not None:
            app.storage.user[SEEN] = self._seen.id
        self._strip.set_visibility(False)


def _title(job: JobView) -> str:
    who, of = job.subject.title, f'{job.tried:,} of {plural(job.tasks, "task")}'
    return {
        'waiting': f'Calibration with {who}: {of}',
        'running': f'Calibrating with {who}: {of}',
        'done': f'{plural(job.tasks, "task")} calibrated with {who}',
        'cancelled': f'Calibration cancelled: {of} counted',
        'failed': f'Calibration failed: {of} counted',
        'interrupted': f'Calibration interrupted: {of} counted',
    }[job.state]


def _more(job: JobView) -> str:
    """What is done now and how long it takes, or why it ended."""
    errors = f'{plural(job.errors, "error")} not counted' if job.errors else ''
    if not job.is_active:
        reason = f'{job.reason}. {job.hint}' if job.hint else job.reason
        return ' · '.join(part for part in (reason, errors) if part)
    attempting = f'{job.checked:,} of {job.total:,} attempts' if job.text == 'Attempting' else job.text
    left = f'about {duration(job.eta_s)} left' if job.eta_s is not None else ''
    return ' · '.join(part for part in (attempting, left, errors) if part)
