"""Certifying from the library: the picked tasks one after another, with progress and a way to stop in the bulk bar."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from nicegui import ui

from studio.services import Studio
from studio.ui import theme
from studio.ui.components.elements import Button
from studio.ui.components.task_table import TaskTable
from studio.ui.components.wording import plural
from studio.ui.pages.certifying import Certifying, Results

POLL_S: Final = 0.25
_NAMED: Final = 5


class CertifyBar:
    """Draws the buttons in the bulk bar; ``on_each`` reads the table again, ``on_busy`` shows or hides the bar."""

    def __init__(
        self, studio: Studio, table: TaskTable, on_each: Callable[[], Awaitable[None]], on_busy: Callable[[], Any]
    ) -> None:
        self._table, self._on_each, self._on_busy = table, on_each, on_busy
        self._work = Certifying(studio.certificates)
        self.picked: Sequence[str] = ()
        self._button = Button('Certify', icon='badge-check', kind='gho', key='c', on_click=self._run_picked)
        self._cancel = Button('Cancel', icon='circle-stop', kind='dan', on_click=self._work.cancel)
        self._cancel.set_visibility(False)
        self._client = ui.context.client
        self._timer = ui.timer(POLL_S, self._show, active=False)

    @property
    def is_busy(self) -> bool:
        """Whether a certificate is being made."""
        return self._work.busy

    def close(self) -> None:
        """The page goes away: stop what runs."""
        self._work.close()
        self._timer.cancel()

    async def _run_picked(self) -> None:
        await self.run(self.picked)

    async def run(self, ids: Sequence[str]) -> None:
        """Certify tasks and tell what came out."""
        ids = list(ids)
        if self._work.busy or not ids:
            return
        titles = {id: self._table.title_of(id) for id in ids}
        self._timer.activate()
        results = await self._work.run(ids, self._on_each)
        if self._work.closed:
            return
        self._timer.deactivate()
        self._show()
        with self._client.layout:
            _tell(results, titles)

    def _show(self) -> None:
        busy = self._work.busy
        self._button.set_text(self._work.words if busy else 'Certify')
        self._button.props('aria-busy=true') if busy else self._button.props(remove='aria-busy')
        if self._button.icon is not None:
            self._button.icon.set('hourglass' if busy else 'badge-check')
        self._cancel.set_visibility(busy)
        self._on_busy()


def _tell(results: Results, titles: dict[str, str]) -> None:
    """Say how many hold, and of the others which and why."""
    held = sum(made.state == 'certified' for made in results.certificates.values())
    failed, refused = results.failures(titles), results.refusals(titles)
    if held:
        theme.toast(f'{plural(held, "task")} certified')
    if failed:
        theme.toast(f'{plural(len(failed), "certificate")} failed', 'bad', detail='\n'.join(failed[:_NAMED]))
    if refused:
        text = f'{plural(len(refused), "task")} cannot be certified'
        theme.toast(text, 'bad', detail='\n'.join(refused[:_NAMED]))
    if results.ended is not None:
        theme.toast(results.ended.message, results.ended_kind, detail=results.ended.hint)
