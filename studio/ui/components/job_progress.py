"""Work at the side as it goes on: what is being done, how far it is, a way to cancel, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import ui

from studio.side_jobs.views import SideJobView
from studio.ui.components.elements import Button, Text, note
from studio.ui.components.wording import duration


class JobProgress:
    """Draws nothing until there is a job to ``show``."""

    def __init__(self, *, on_cancel: Callable[[], Any], cancelled: str = 'Cancelled. Nothing is left of it.') -> None:
        self._on_cancel = on_cancel
        self._cancelled = cancelled
        self._box = ui.element('div').classes('vs')
        self._key: object = None
        self._text: Text | None = None

    def show(self, job: SideJobView | None) -> None:
        """Show a job as it is now."""
        state = None if job is None else job.state
        key = (job.id, state, job.message) if job is not None else None
        if key != self._key:
            self._key = key
            self._box.clear()
            with self._box:
                self._draw(job)
        if job is not None and job.state == 'running' and self._text is not None:
            self._text.set_text(_line(job))
            share = job.share
            self._meter.style(f'width: {0 if share is None else share:.0%}')
            self._bar.props(f'aria-valuenow={round(100 * (share or 0))}')
            self._bar.set_visibility(share is not None)

    def _draw(self, job: SideJobView | None) -> None:
        self._text = None
        if job is None or job.state == 'done':
            return
        if job.state == 'cancelled':
            note(self._cancelled, icon='circle-stop').props('role=status')
            return
        if job.state == 'failed':
            note(job.hint, 'bad', icon='circle-alert', lead=f'{job.message.rstrip(".")}.').props('role=alert')
            return
        with ui.element('div').classes('hs'):
            self._text = Text(_line(job), classes='t-small num sp ell')
            Button('Cancel', icon='circle-stop', kind='dan sm', on_click=self._on_cancel)
        with (
            ui.element('div').classes('meter').props('role=progressbar aria-valuemin=0 aria-valuemax=100') as self._bar
        ):
            self._bar.props['aria-label'] = 'Progress'
            self._meter = ui.element('i')


def _line(job: SideJobView) -> str:
    return f'{job.text} … {duration(job.elapsed_s)}'
