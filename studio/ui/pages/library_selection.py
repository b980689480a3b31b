"""What is picked in the library, over all its pages, and the bar that does things with it: progress, cancel, undo."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from nicegui import run, ui

from studio.documents.bulk import Changes
from studio.services import Studio
from studio.ui import theme
from studio.ui.components.elements import Button, Icon, Text, divider
from studio.ui.components.wording import plural
from studio.ui.layout import Shell
from studio.ui.pages.certifying import Certifying, Results
from studio.ui.pages.exporting import draw_export_menu
from studio.ui.pages.library_topics import open_topics

BATCH: Final = 50
POLL_S: Final = 0.25
MAX_TRAIN: Final = 1000
"""The page that starts a run lists as many, and an address holds as many ids."""
_NAMED: Final = 5

Step = Callable[[Sequence[str]], Changes]


class Selection:
    """The bulk bar. ``on_changed`` reads the library again; ``on_picked`` shows in the table what is picked.

    ``on_calibrate`` asks how the picked tasks are to be calibrated.
    """

    def __init__(
        self,
        shell: Shell,
        studio: Studio,
        *,
        on_changed: Callable[[], Awaitable[Any]],
        on_picked: Callable[[], Any],
        on_calibrate: Callable[[Sequence[str]], Awaitable[Any]],
    ) -> None:
        self._studio, self._bulk, self._documents = studio, studio.bulk, studio.documents
        self._on_changed, self._on_picked, self._on_calibrate = on_changed, on_picked, on_calibrate
        self._picked: dict[str, None] = {}
        self._matching: Callable[[], Awaitable[Sequence[str]]] | None = None
        self._certifying = Certifying(studio.certificates)
        self._busy = ''
        self._stop = self._gone = False
        self._client = ui.context.client
        self._draw()
        self._timer = ui.timer(POLL_S, self._show_certifying, active=False)
        shell.on_leave(self._close)
        self._show()

    # ---------------------------------------------------------------------------------------------- the picked

    @property
    def ids(self) -> list[str]:
        """The ids that are picked, in the order they were."""
        return list(self._picked)

    def pick(self, ids: Iterable[str], on: bool) -> None:
        """Pick tasks, or let them go."""
        for id in ids:
            if on:
                self._picked[id] = None
            else:
                self._picked.pop(id, None)
        self._on_picked()
        self._show()

    def clear(self) -> None:
        """Let everything go."""
        self._picked.clear()
        self._on_picked()
        self._show()

    def offer_all(self, shown: Sequence[str], total: int, matching: Callable[[], Awaitable[Sequence[str]]]) -> None:
        """Offer to pick all that match, once the whole page is picked and there is more."""
        self._matching = matching
        whole = bool(shown) and all(id in self._picked for id in shown)
        self._all.set_visibility(whole and len(self._picked) < total and not self._busy)
        self._all.set_text(f'Select all {total} that match')

    async def _pick_all(self) -> None:
        if self._matching is not None:
            self.pick(await self._matching(), True)

    # -------------------------------------------------------------------------------------------------- the bar

    def _draw(self) -> None:
        with ui.element('div').classes('bulk').props('role=toolbar aria-label="Actions for the selected tasks"') as bar:
            with ui.element('span').classes('cnt').props('role=status'):
                self._number = Text('0', classes='chip acc num')
                Text('selected')
            self._all = Button('Select all that match', kind='gho sm acc', on_click=self._pick_all)
            divider()
            with ui.element('span').classes('hs hs-1') as self._actions:
                self._draw_actions()
            with ui.element('span').classes('busy').props('aria-busy=true role=status') as self._working:
                Icon('hourglass', 'ic-s')
                self._words = Text('', classes='num')
                Button('Cancel', icon='circle-stop', kind='dan sm', on_click=self._cancel)
            Button(icon='x', kind='gho icn', label='Clear selection', key='escape', on_click=self.clear)
        self._bar = bar

    def _draw_actions(self) -> None:
        Button('Publish', icon='flag', kind='gho', on_click=self._publish)
        Button('Certify', icon='badge-check', kind='gho', key='c', on_click=lambda: self.certify(self.ids))
        Button('Calibrate', icon='target', kind='gho', on_click=lambda: self._on_calibrate(self.ids))
        Button('Topics', icon='tag', kind='gho', on_click=self._topics)
        with Button('Export', icon='download', kind='gho') as export:
            export.props('aria-haspopup=menu')
            Icon('chevron-down', 'ic-xs')
            draw_export_menu(self._studio.transfer, lambda: self.ids)
        with Button(icon='ellipsis', kind='gho icn', label='More for the selected tasks') as more:
            more.props('aria-haspopup=menu')
            with ui.menu().classes('menu'):
                for text, icon, act in (
                    ('Unpublish', 'eye-off', self._unpublish),
                    ('Duplicate', 'copy', self._duplicate),
                ):
                    with ui.menu_item(on_click=act).classes('mi'):
                        Icon(icon)
                        Text(text)
        Button(icon='trash-2', kind='gho icn', label='Delete the selected tasks', key='delete', on_click=self._delete)
        self._train = Button('Train', icon='play', kind='pri', key='mod+enter', on_click=self._train_on)

    def _show(self) -> None:
        count = len(self._picked)
        self._bar.set_visibility(bool(count) or bool(self._busy))
        self._number.set_text(str(count))
        self._train.set_text(f'Train on {count}')
        if count > MAX_TRAIN:
            self._train.disable(f'At most {MAX_TRAIN} tasks of a run can be picked here')
        else:
            self._train.enable()
        self._actions.set_visibility(not self._busy)
        self._working.set_visibility(bool(self._busy))
        self._words.set_text(self._busy)

    def _close(self) -> None:
        self._gone = True
        self._stop = True
        self._certifying.close()
        self._timer.cancel()

    def _cancel(self) -> None:
        self._stop = True
        self._certifying.cancel()

    # ----------------------------------------------------------------------------------------------- many tasks

    async def _work(self, doing: str, ids: Sequence[str], step: Step) -> Changes | None:
        """Change tasks a batch at a time, off the event loop, until all are done or somebody says stop."""
        if self._busy or not ids:
            return None
        done, self._stop = Changes(), False
        try:
            for start in range(0, len(ids), BATCH):
                self._busy = f'{doing} {start} of {len(ids)}' if len(ids) > BATCH else f'{doing} …'
                self._show()
                changes = await run.io_bound(step, ids[start : start + BATCH])
                if changes is None or self._gone:
                    return None
                done.changed += changes.changed
                done.refused += changes.refused
                if self._stop:
                    break
        finally:
            self._busy = ''
            if not self._gone:
                self._show()
        await self._on_changed()
        return done

    async def _change(self, doing: str, did: str, step: Step, back: Step, *, nothing: str = '') -> None:
        """Change the picked tasks and say what came of it, with a way back."""
        changes = await self._work(doing, self.ids, step)
        if changes is None:
            return

        async def undo() -> None:
            await self._work('Undoing', changes.changed, back)

        with self._client.layout:
            if changes.changed:
                theme.toast(f'{plural(len(changes.changed), "task")} {did}', undo=undo)
            elif not changes.refused and nothing:
                theme.toast(nothing, 'warn')
            if changes.refused:
                lines = [f'{one.title.strip() or "Untitled task"}: {one.reason}' for one in changes.refused[:_NAMED]]
                text = f'{plural(len(changes.refused), "task")} cannot be {did}'
                theme.toast(text, 'bad', detail=_some(lines, len(changes.refused)))

    async def _publish(self) -> None:
        bulk = self._bulk
        await self._change('Publishing', 'published', bulk.publish, bulk.unpublish, nothing='All of them are published')

    async def _unpublish(self) -> None:
        bulk = self._bulk
        await self._change(
            'Unpublishing', 'made drafts', bulk.unpublish, bulk.publish, nothing='All of them are drafts'
        )

    async def _duplicate(self) -> None:
        await self._change('Duplicating', 'duplicated', self._bulk.duplicate, self._bulk.delete)

    async def _topics(self) -> None:
        ids = self.ids
        before = await run.io_bound(self._bulk.topics, ids)
        every = await run.io_bound(self._documents.topics)
        if before is None or every is None:
            return

        async def change(add: Sequence[str], remove: Sequence[str]) -> None:
            await self._change(
                'Changing topics of', 'changed', lambda some: self._bulk.retopic(some, add=add, remove=remove),
                lambda some: self._bulk.set_topics({id: before[id] for id in some if id in before}),
                nothing='No topic changed',
            )  # fmt: skip

        open_topics(before, list(every), change)

    async def _delete(self) -> None:
        await self.delete(self.ids)

    async def delete(self, ids: Sequence[str]) -> None:
        """Put tasks away, and offer to bring them back."""
        gone = await run.io_bound(self._bulk.delete, ids)
        if gone is None or self._gone:
            return
        self.pick(ids, False)
        await self._on_changed()

        async def undo() -> None:
            await run.io_bound(self._bulk.restore, gone.changed)
            await self._on_changed()

        with self._client.layout:
            theme.toast(f'{plural(len(gone.changed), "task")} deleted', undo=undo)

    def _train_on(self) -> None:
        ui.navigate.to(f'/train?{urlencode({"tasks": ",".join(self._picked)})}')

    # -------------------------------------------------------------------------------------------- certificates

    async def certify(self, ids: Sequence[str]) -> None:
        """Certify tasks one after another and tell what came out."""
        ids = list(ids)
        if self._busy or not ids:
            return
        titles = await run.io_bound(_titles, self._studio, ids)
        if titles is None or self._gone:
            return
        self._timer.activate()
        self._busy = 'Certifying …'
        self._show()
        try:
            results = await self._certifying.run(ids, self._on_changed)
        finally:
            self._busy = ''
        if self._certifying.closed:
            return
        self._timer.deactivate()
        self._show()
        with self._client.layout:
            _tell(results, titles)

    def _show_certifying(self) -> None:
        if self._certifying.busy:
            self._busy = self._certifying.words
            self._show()


def _titles(studio: Studio, ids: Sequence[str]) -> dict[str, str]:
    found = studio.bulk.titles(ids)
    return {id: found.get(id, '').strip() or 'Untitled task' for id in ids}


def _tell(results: Results, titles: dict[str, str]) -> None:
    """Say how many hold, and of the others which and why."""
    held = sum(made.state == 'certified' for made in results.certificates.values())
    failed, refused = results.failures(titles), results.refusals(titles)
    if held:
        theme.toast(f'{plural(held, "task")} certified')
    if failed:
        theme.toast(f'{plural(len(failed), "certificate")} failed', 'bad', detail=_some(failed[:_NAMED], len(failed)))
    if refused:
        text = f'{plural(len(refused), "task")} cannot be certified'
        theme.toast(text, 'bad', detail=_some(refused[:_NAMED], len(refused)))
    if results.ended is not None:
        theme.toast(results.ended.message, results.ended_kind, detail=results.ended.hint)


def _some(lines: Sequence[str], count: int) -> str:
    more = [f'and {count - len(lines)} more'] if count > len(lines) else []
    return '\n'.join([*lines, *more])
