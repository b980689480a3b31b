"""Pushing an adapter or a merged model to a hub, with a token that is used for this push and kept nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nicegui import run as background
from nicegui import ui

from studio.adapters.snippets import serving_name
from studio.adapters.use import PUSH, AdapterSource, AdapterUse, Merged
from studio.side_jobs.service import SideJobView
from studio.ui.components.elements import Button, Icon, Text, note
from studio.ui.components.fields import Field
from studio.ui.components.job_progress import JobProgress
from trainer.errors import ConfigError, RlvrError

LOOK_S: Final = 0.4
CANCELLED: Final = 'Cancelled. The repository may be there already, without the files.'


class PushForm:
    """The form and the job in one tab."""

    def __init__(self, use: AdapterUse, source: AdapterSource, merged: Sequence[Merged]) -> None:
        self._use, self._source = use, source
        what = {str(source.folder): f'The adapter, {source.name}'}
        what |= {str(one.folder): f'Merged: {one.folder.name} ({one.model.dtype})' for one in merged}
        with Field('What'):
            self._what = ui.select(what, value=str(source.folder)).props('outlined dense options-dense')
            self._what.props['aria-label'] = 'What to push'
        with Field('Repository', hint='owner/name, or a name of your own account') as self._repo_field:
            self._repo = ui.input(value=serving_name(source.name)).props('outlined dense input-class=mono')
            self._repo.mark('push-repository').props['aria-label'] = 'Repository'
        with Field('Token', hint='With write access. Used for this push, then forgotten.') as self._token_field:
            self._token = ui.input(password=True).props('outlined dense autocomplete=off input-class=mono')
            self._token.mark('push-token').props['aria-label'] = 'Token'
        self._private = ui.switch('Private', value=True)
        with ui.element('div').classes('act'):
            self._go = Button('Push', icon='cloud-upload', on_click=self._start).mark('push')
        self._progress = JobProgress(on_cancel=self._cancel, cancelled=CANCELLED)
        self._done = ui.element('div')
        self._what.on_value_change(lambda: self._look())
        self._timer = ui.timer(LOOK_S, self._look)

    async def _start(self) -> None:
        token = str(self._token.value or '')
        self._token.set_value('')  # It stands in no page, whatever comes of it.
        for field in (self._repo_field, self._token_field):
            field.show_error('')
        try:
            await background.io_bound(
                self._use.push,
                Path(self._folder),
                str(self._repo.value or ''),
                token,
                private=bool(self._private.value),
            )
        except ConfigError as error:
            field = self._token_field if error.fields and error.fields[0].loc == 'token' else self._repo_field
            field.show_error(error.message)
            return
        except RlvrError as error:
            self._repo_field.show_error(error.message)
            return
        self._look()

    async def _cancel(self) -> None:
        job = self._latest()
        if job is not None:
            await background.io_bound(self._use.jobs.cancel, job.id)

    def _look(self) -> None:
        job = self._latest()
        running = job is not None and job.state == 'running'
        self._timer.active = running
        self._go.off('A push of this is running' if running else '')
        self._progress.show(job)
        self._done.clear()
        if job is not None and job.state == 'done':
            with self._done:
                self._say_done(job)

    def _say_done(self, job: SideJobView) -> None:
        url, repo = str(job.result.get('url', '')), str(job.result.get('repo', ''))
        seen = 'private' if job.result.get('private') else 'public'
        note(f'is on the hub, {seen}.', 'ok', icon='circle-check', lead=repo)
        if url.startswith(('https://', 'http://')):
            with ui.element('a').props('target=_blank rel="noopener noreferrer"').classes('hs hs-1 t-small') as link:
                link.props['href'] = url
                Text(url)
                Icon('arrow-up-right', 'ic-xs')

    @property
    def _folder(self) -> str:
        return str(self._what.value)

    def _latest(self) -> SideJobView | None:
        return self._use.jobs.latest(PUSH, self._folder)
