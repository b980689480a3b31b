"""How many of a run's tasks are certified, and what to do about the others. It asks; it does not hold a run up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from nicegui import run, ui

from studio.documents.certificates import Certificates
from studio.documents.views import DocumentRow
from studio.ui import theme
from studio.ui.components.certificate import SEALS, seal
from studio.ui.components.elements import Button, Icon, Text, spacer
from studio.ui.components.wording import plural
from studio.ui.pages.certifying import Certifying
from studio.ui.pages.launch_tasks import TaskChoice

POLL_S: Final = 0.25
_NAMED: Final = 6


class TaskSeals:
    """Draws the seals of the picked tasks; ``on_change`` is called when the choice or its certificates changed."""

    def __init__(self, certificates: Certificates, on_change: Callable[[], Awaitable[None]]) -> None:
        self._certificates, self._on_change = certificates, on_change
        self._work = Certifying(certificates)
        self._progress: Text | None = None
        self._drawn_busy = False
        self._client = ui.context.client
        self._timer = ui.timer(POLL_S, self._show_progress, active=False)

    def close(self) -> None:
        """The page goes away: stop what runs."""
        self._work.close()
        self._timer.cancel()

    def draw(self, choice: TaskChoice) -> None:
        """Draw the counts, and the tasks without a certificate by name."""
        self._progress, self._drawn_busy = None, self._work.busy
        chosen = [row for row in choice.rows if row.id in choice.train]
        with ui.element('div').classes('hs hs-3 seals'):
            for state in ('certified', 'stale', 'uncertified', 'failed'):
                count = sum(row.certificate == state for row in chosen)
                if count:
                    seal(state, f'{count} {SEALS[state][0].lower()}')
            spacer()
            count = sum(row.solution_count > 0 for row in chosen)
            Text(f'{plural(count, "task")} with solutions', classes='t3 t-small num')
        others = [row for row in chosen if row.certificate != 'certified']
        if others:
            self._draw_question(choice, others)

    def _draw_question(self, choice: TaskChoice, others: Sequence[DocumentRow]) -> None:
        with ui.element('div').classes('note warn ask'):
            Icon('triangle-alert', 'ic-s')
            with ui.element('span').classes('what'):
                Text(f'{_lead(others)} ', 'b')
                whose = 'Its checker' if len(others) == 1 else 'Their checkers'
                Text(f'{whose} may reward the wrong thing. {_names(others)}')
            spacer()
            if self._work.busy:
                self._progress = Text(self._work.words, classes='nowrap num').props('role=status')
                Button('Cancel', kind='xs', on_click=self._work.cancel)
                return
            words = {1: 'Certify', 2: 'Certify both'}
            certify = Button(words.get(len(others), 'Certify all'), kind='xs')
            certify.on('click', lambda: self._certify(choice, others), args=[])
            leave = Button('Leave out', kind='xs')
            leave.on('click', lambda: self._leave_out(choice, others), args=[])

    async def _leave_out(self, choice: TaskChoice, others: Sequence[DocumentRow]) -> None:
        for row in others:
            choice.put(row.id, 'out')
        await self._on_change()

    async def _certify(self, choice: TaskChoice, others: Sequence[DocumentRow]) -> None:
        if self._work.busy:
            return
        ids = [row.id for row in others]

        async def read_again() -> None:
            states = await run.io_bound(self._certificates.for_documents, ids)
            if states is None or self._work.closed:
                return
            choice.rows = tuple(
                row.model_copy(update={'certificate': states.get(row.id, row.certificate)}) for row in choice.rows
            )
            await self._on_change()

        self._timer.activate()
        results = await self._work.run(ids, read_again)
        if self._work.closed:
            return
        self._timer.deactivate()
        await self._on_change()
        titles = {row.id: row.title for row in others}
        lines = [*results.failures(titles), *results.refusals(titles)]
        with self._client.layout:
            if lines:
                theme.toast(f'{plural(len(lines), "task")} not certified', 'bad', detail='\n'.join(lines[:_NAMED]))
            if results.ended is not None:
                theme.toast(results.ended.message, results.ended_kind, detail=results.ended.hint)

    async def _show_progress(self) -> None:
        if self._work.busy != self._drawn_busy:
            await self._on_change()
        if self._progress is not None:
            self._progress.set_text(self._work.words)


def _lead(others: Sequence[DocumentRow]) -> str:
    """Count those without a certificate, with a stale one, and with a failed one, in one sentence."""
    words = {
        'uncertified': ('has no certificate', 'have no certificate'),
        'stale': ('has a stale certificate', 'have a stale certificate'),
        'failed': ('failed its certificate', 'failed their certificates'),
    }
    parts: list[str] = []
    for state, (one, many) in words.items():
        count = sum(row.certificate == state for row in others)
        if count:
            named = str(count) if parts else plural(count, 'task')
            parts.append(f'{named} {one if count == 1 else many}')
    return ', '.join(parts) + '.'


def _names(others: Sequence[DocumentRow]) -> str:
    names = '; '.join(row.title for row in others[:_NAMED])
    return f'{names}; and {len(others) - _NAMED} more.' if len(others) > _NAMED else f'{names}.'
