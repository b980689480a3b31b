"""The library: every task, searched, filtered and sorted on the server; what can be done with one or many of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from nicegui import events, run, ui

from studio.documents import DocumentPage, DocumentQuery, Documents
from studio.services import Studio
from studio.ui import theme
from studio.ui.components.certificate import SEALS
from studio.ui.components.elements import CHECKER_ICONS, Button, Icon, Text, divider, kbd, spacer
from studio.ui.components.segmented import Choice, FilterPill, Segmented
from studio.ui.components.task_table import TaskTable
from studio.ui.components.wording import ago, plural
from studio.ui.layout import Shell
from studio.ui.pages.library_certify import CertifyBar
from studio.ui.pages.library_import import open_import
from studio.ui.pages.library_start import draw_start
from trainer.errors import TaskError

PER_PAGE: Final = 50
_STATUSES: Final = ('', 'draft', 'published')


async def page(
    shell: Shell,
    studio: Studio,
    search: str = '',
    status: str = '',
    checker: str = '',
    topic: str = '',
    certificate: str = '',
) -> None:
    """Draw the library, or the three ways to begin while there is no task."""
    everything = await run.io_bound(studio.documents.list, DocumentQuery(per_page=1))
    if everything is None:
        return
    if not everything.total:
        draw_start(shell, studio)
        return
    topics = await run.io_bound(studio.documents.topics)
    wanted: dict[str, Any] = {
        'search': search,
        'status': status if status in _STATUSES and status else None,
        'checker': checker if checker in CHECKER_ICONS else None,
        'topic': topic or None,
        'certificate': certificate if certificate in SEALS else None,
    }
    query = DocumentQuery(**wanted, per_page=PER_PAGE)
    await _Library(shell, studio, query, topics or ()).load()


class _Library:
    """One tab's view of the library: its query, its page of rows, its selection."""

    def __init__(self, shell: Shell, studio: Studio, query: DocumentQuery, topics: Sequence[str]) -> None:
        self._shell, self._documents, self._query, self._topics = shell, studio.documents, query, topics
        self._studio = studio
        self._picked: list[str] = []
        self._draw_topbar()
        with ui.element('div').classes('main flush'):
            self._draw_filters()
            self._table = TaskTable(
                sort=query.sort,
                descending=query.descending,
                on_sort=self._sort,
                on_select=self._select,
                on_action=self._act,
            )
            self._nothing = ui.element('div').classes('nothing empty')
            with self._nothing:
                Icon('search', 'ic-l t3')
                Text('No task fits the search and the filters.')
                Button('Show all tasks', kind='sm', on_click=lambda: ui.navigate.to('/?all=1'))
            self._draw_pager()
            self._draw_bulk()

    async def load(self) -> None:
        """Read the page that the query asks for and show it."""
        page = await run.io_bound(self._documents.list, self._query)
        if page is None:
            return
        self._table.show([_row(row) for row in page.rows])
        self._nothing.set_visibility(not page.rows)
        self._count.set_text(str(sum(page.counts.values())))
        self._status.set_counts({'': sum(page.counts.values())} | page.counts)
        self._show_pager(page)

    async def _change(self, **changes: Any) -> None:
        self._query = self._query.model_copy(update={'page': 1} | changes)
        kept = {name: getattr(self._query, name) for name in ('search', 'status', 'checker', 'certificate', 'topic')}
        text = urlencode({name: value for name, value in kept.items() if value})
        ui.run_javascript(f'history.replaceState(history.state, "", {("/?" + text if text else "/")!r})')
        await self.load()

    # ------------------------------------------------------------------------------------------------ frame

    def _draw_topbar(self) -> None:
        with self._shell.topbar('Tasks'):
            self._count = Text('', classes='t3 num')
            with ui.element('label').classes('inp srch').props('data-search'):
                Icon('search', 'ic-s')
                box = ui.input(value=self._query.search, placeholder='Search title, prompt or file name')
                box.props('borderless dense debounce=200 aria-label="Search title, prompt or file name"')
                box.on_value_change(self._search)
                kbd('/')
            spacer()
            Button('Templates', icon='list', kind='gho hide-s', on_click=lambda: ui.navigate.to('/templates'))
            Button('Import', icon='upload', on_click=lambda: open_import(self._documents, self.load))
            Button('New task', icon='plus', kind='pri', shortcut='N', on_click=self._shell.new_task)

    def _draw_filters(self) -> None:
        with ui.element('div').classes('filters').props('role=group aria-label=Filters'):
            choices = [Choice('', 'All', count=0), Choice('draft', 'Draft', count=0)]
            choices.append(Choice('published', 'Published', count=0))
            self._status = Segmented(
                choices,
                self._query.status or '',
                label='Status',
                on_change=lambda value: self._change(status=value or None),
            )
            divider()
            kinds = [Choice(kind, kind, icon) for kind, icon in CHECKER_ICONS.items()]
            FilterPill(
                'Checker',
                lambda: kinds,
                self._query.checker or '',
                on_change=lambda value: self._change(checker=value or None),
            )
            FilterPill(
                'Certificate',
                lambda: [Choice(state, word, icon) for state, (word, _, icon) in SEALS.items()],
                self._query.certificate or '',
                on_change=lambda value: self._change(certificate=value or None),
            )
            FilterPill(
                'Topic',
                lambda: [Choice(topic, topic) for topic in self._topics],
                self._query.topic or '',
                on_change=lambda value: self._change(topic=value or None),
            )
            self._shown = Text('', classes='t3 t-small nowrap num hide-s')

    def _draw_pager(self) -> None:
        with ui.element('div').classes('stat') as self._pager:
            self._range = Text('', classes='num')
            spacer()
            self._back = Button(icon='chevron-left', kind='gho icn sm', label='Previous page')
            self._next = Button(icon='chevron-right', kind='gho icn sm', label='Next page')
            self._back.on('click', lambda: self._turn(-1), args=[])
            self._next.on('click', lambda: self._turn(1), args=[])

    def _show_pager(self, page: DocumentPage) -> None:
        first = (self._query.page - 1) * PER_PAGE + 1
        last = first + len(page.rows) - 1
        self._pager.set_visibility(page.total > PER_PAGE)
        self._range.set_text(f'{first} to {last} of {page.total}')
        self._shown.set_text(f'{page.total} of {sum(page.counts.values())}' if self._query.status else '')
        for button, off in ((self._back, self._query.page == 1), (self._next, last >= page.total)):
            button.disable('There is no further page') if off else button.enable()

    async def _turn(self, by: int) -> None:
        self._query = self._query.model_copy(update={'page': max(1, self._query.page + by)})
        await self.load()

    async def _search(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        await self._change(search=event.value or '')

    async def _sort(self, column: str, descending: bool) -> None:
        await self._change(sort=column if column in ('title', 'checker') else 'updated', descending=descending)

    # ---------------------------------------------------------------------------------------------- actions

    def _draw_bulk(self) -> None:
        with ui.element('div').classes('bulk').props('role=toolbar aria-label="Actions for the selected tasks"') as bar:
            with ui.element('span').classes('cnt'):
                self._number = Text('0', classes='chip acc num')
                Text('selected')
            divider()
            Button('Publish', icon='flag', kind='gho', on_click=self._publish)
            self._certify = CertifyBar(self._studio, self._table, self.load, self._show_bulk)
            Button('Export JSONL', icon='download', kind='gho', on_click=lambda: self._export(self._picked))
            Button('Delete', icon='trash-2', kind='gho', on_click=lambda: self._delete(self._picked))
            self._train = Button('Train', icon='play', kind='pri', on_click=self._train_on)
            Button(
                icon='x',
                kind='gho icn',
                label='Clear selection',
                key='escape',
                on_click=lambda: self._table.clear_selection(),
            )
        bar.set_visibility(False)
        self._bulk = bar
        self._shell.on_leave(self._certify.close)

    def _show_bulk(self) -> None:
        self._bulk.set_visibility(bool(self._picked) or self._certify.is_busy)

    def _select(self, ids: Sequence[str]) -> None:
        self._picked = list(ids)
        self._certify.picked = self._picked
        self._show_bulk()
        self._number.set_text(str(len(ids)))
        self._train.set_text(f'Train on {len(ids)}')

    async def _act(self, action: str, id: str) -> None:
        if action == 'open':
            ui.navigate.to(f'/tasks/{id}')
        elif action == 'certify':
            await self._certify.run([id])
        elif action == 'duplicate':
            copy = await run.io_bound(self._documents.duplicate, id)
            if copy is not None:
                ui.navigate.to(f'/tasks/{copy.id}')
        elif action == 'export':
            await self._export([id])
        elif action == 'delete':
            await self._delete([id])

    async def _delete(self, ids: Sequence[str]) -> None:
        gone = list(ids)
        await run.io_bound(_for_each, self._documents.delete, gone)
        self._table.clear_selection()
        await self._reload()

        async def undo() -> None:
            await run.io_bound(_for_each, self._documents.restore, gone)
            await self._reload()

        theme.toast(f'{plural(len(gone), "task")} deleted', undo=undo)

    async def _reload(self) -> None:
        """Show the table again, or the start screen when the last task went or the first one came back."""
        left = await run.io_bound(self._documents.list, DocumentQuery(per_page=1))
        if left is not None and not left.total:
            await ui.context.client.sub_pages_router.refresh()
            return
        await self.load()
        await self._shell.refresh()

    async def _export(self, ids: Sequence[str]) -> None:
        text = await run.io_bound(self._documents.export, list(ids))
        if text is not None:
            ui.download.content(text, 'tasks.jsonl' if len(ids) > 1 else 'task.jsonl', 'application/jsonl')

    async def _publish(self) -> None:
        done, refused = await run.io_bound(_publish_all, self._documents, list(self._picked)) or (0, [])
        await self.load()
        if done:
            theme.toast(f'{plural(done, "task")} published')
        if refused:
            theme.toast(f'{plural(len(refused), "task")} cannot be published', 'bad', detail='\n'.join(refused[:5]))

    def _train_on(self) -> None:
        ui.navigate.to(f'/train?{urlencode({"tasks": ",".join(self._picked)})}')


def _row(row: Any) -> dict[str, Any]:
    problems = f'{plural(row.problem_count, "problem")}' if row.problem_count else ''
    return {
        'id': row.id,
        'title': row.title.strip() or 'Untitled task',
        'draft': row.status == 'draft',
        'problems': problems,
        'checker': row.checker,
        'certificate': row.certificate,
        'topics': list(row.topics),
        'version': f'v{row.version}' if row.version else '',
        'hash': f'hash {row.hash[:12]}' if row.hash else '',
        'updated': ago(row.updated_at),
        'moment': f'{row.updated_at.astimezone():%d %b %Y, %H:%M}',
    }


def _for_each(call: Any, ids: Sequence[str]) -> None:
    for id in ids:
        call(id)


def _publish_all(documents: Documents, ids: Sequence[str]) -> tuple[int, list[str]]:
    """Publish what can be; return how many and a line for each that cannot."""
    done, refused = 0, []
    for id in ids:
        view = documents.get(id)
        try:
            documents.publish(id, revision=view.revision)
            done += 1
        except TaskError as error:
            refused.append(f'{view.title or "Untitled task"}: {error.message}')
    return done, refused
