"""The library: every task, searched, filtered, sorted and paged on the server; the address says what is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args
from urllib.parse import urlencode

from nicegui import events, run, ui

from studio.calibrations.views import JobView, Subject
from studio.documents.pass_rates import TIERS, Tier
from studio.documents.views import CertificateState, DocumentPage, DocumentQuery, DocumentRow, Status
from studio.services import Studio
from studio.ui.components.certificate import SEALS
from studio.ui.components.elements import CHECKER_ICONS, Button, Icon, Text, divider, kbd, spacer
from studio.ui.components.segmented import Choice, FilterPill, Segmented
from studio.ui.components.task_table import TaskTable
from studio.ui.components.tiers import rate_cell, tier_cell
from studio.ui.components.wording import ago, plural
from studio.ui.layout import Shell
from studio.ui.pages.calibrating import open_calibrate
from studio.ui.pages.calibration_strip import CalibrationStrip
from studio.ui.pages.exporting import open_export
from studio.ui.pages.library_import import open_import
from studio.ui.pages.library_rates import RateOf
from studio.ui.pages.library_selection import Selection
from studio.ui.pages.library_start import draw_start

PER_PAGE: Final = 50
SEARCH: Final = 'Search title, prompt, file name or command'
_SORTS: Final = ('updated', 'title', 'checker', 'rate')


async def page(
    shell: Shell,
    studio: Studio,
    search: str = '',
    status: str = '',
    checker: str = '',
    topic: str = '',
    without: str = '',
    certificate: str = '',
    tier: str = '',
    of: str = '',
    sort: str = '',
    order: str = '',
    page: str = '',
) -> None:
    """Draw the library, or the three ways to begin while there is no task. Topics are one a line.

    ``of`` is whose pass rates are shown; without it, of who attempted tasks last.
    """
    wanted: dict[str, Any] = {
        'search': search,
        'status': status if status in get_args(Status) else None,
        'checker': checker if checker in CHECKER_ICONS else None,
        'topics': tuple(filter(None, topic.split('\n'))),
        'without_topics': tuple(filter(None, without.split('\n'))),
        'certificate': certificate if certificate in get_args(CertificateState) else None,
        'tier': tier if tier in get_args(Tier) else None,
        'subject': of,
        'sort': sort if sort in _SORTS else 'updated',
        'page': int(page) if page.isdecimal() and 0 < int(page) < 10**6 else 1,
    }
    query = DocumentQuery(**wanted, descending=_descending(wanted['sort'], order), per_page=PER_PAGE)
    found = await run.io_bound(_read, studio, query)
    if found is None:
        return
    if not found.everything:
        draw_start(shell, studio)
        return
    library = _Library(shell, studio, query)
    library.show(found)


def _descending(sort: str, order: str) -> bool:
    return order != 'up' if sort == 'updated' else order == 'down'


@dataclass(frozen=True)
class _Found:
    """How many documents there are in all, the page that was asked for, and whose pass rates it shows."""

    everything: int
    page: DocumentPage
    subjects: tuple[Subject, ...]
    subject: str


def _read(studio: Studio, query: DocumentQuery) -> _Found:
    """Read what a query asks for; past the end it is the last page."""
    subjects = studio.calibrations.subjects()
    keys = [one.key for one in subjects]
    subject = query.subject if query.subject in keys else next(iter(keys), '')
    query = query.model_copy(update={'subject': subject})
    everything = studio.documents.count()
    shown = studio.documents.list(query)
    if not shown.rows and query.page > 1:
        last = max(1, -(-shown.total // query.per_page))
        shown = studio.documents.list(query.model_copy(update={'page': last}))
    return _Found(everything, shown, subjects, subject)


class _Library:
    """One tab's view of the library: its query, its page of rows, what is picked."""

    def __init__(self, shell: Shell, studio: Studio, query: DocumentQuery) -> None:
        self._shell, self._studio, self._documents, self._query = shell, studio, studio.documents, query
        self._topics: Mapping[str, int] = {}
        self._draw_topbar()
        with ui.element('div').classes('main flush'):
            self._draw_filters()
            self._strip = CalibrationStrip(shell, studio, self.load)
            self._table = TaskTable(
                sort=query.sort,
                descending=query.descending,
                on_sort=self._sort,
                on_pick=lambda ids, on: self._selection.pick(ids, on),
                on_action=self._act,
            )
            self._draw_nothing()
            self._draw_pager()
            self._selection = Selection(
                shell, studio, on_changed=self._changed, on_picked=self._mark, on_calibrate=self._calibrate
            )
        self._page = DocumentPage(rows=(), total=0, counts={})
        self._subject = ''

    async def load(self) -> None:
        """Read the page that the query asks for and show it, unless another one was asked for meanwhile."""
        query = self._query
        found = await run.io_bound(_read, self._studio, query)
        if found is not None and query is self._query:
            self.show(found)

    def show(self, found: _Found) -> None:
        """Show a page of rows and the counts that go with it."""
        everything, page = found.everything, found.page
        self._page, self._subject = page, found.subject
        self._rate_of.show(found.subjects, found.subject)
        matching = sum(page.counts.values())
        filtered = self._is_filtered
        self._table.show([_row(row) for row in page.rows], self._selection.ids)
        self._nothing.set_visibility(not page.rows)
        self._count.set_text(str(everything))
        self._status.set_counts({'': matching} | page.counts)
        self._shown.set_text(f'{page.total} of {everything}' if filtered or self._query.status else '')
        self._clear.set_visibility(bool(page.rows) and (filtered or bool(self._query.status)))
        self._show_pager(page)
        self._offer_all()

    @property
    def _is_filtered(self) -> bool:
        query = self._query
        named = (query.checker, query.certificate, query.tier, query.topics, query.without_topics)
        return any((query.search.strip(), *named))

    async def _change(self, *, step: bool = True, **changes: Any) -> None:
        self._query = self._query.model_copy(update={'page': 1} | changes)
        self._shell.address(self._address(), step=step)
        await self.load()

    def _address(self) -> str:
        query = self._query
        kept: dict[str, Any] = {
            'search': query.search,
            'status': query.status,
            'checker': query.checker,
            'certificate': query.certificate,
            'tier': query.tier,
            'of': query.subject,
            'topic': '\n'.join(query.topics),
            'without': '\n'.join(query.without_topics),
            'sort': query.sort if query.sort != 'updated' else '',
            'page': str(query.page) if query.page > 1 else '',
        }
        if query.descending != _descending(query.sort, ''):
            kept['order'] = 'down' if query.descending else 'up'
        text = urlencode({name: value for name, value in kept.items() if value}, errors='replace')
        return f'/?{text}' if text else '/'

    # ------------------------------------------------------------------------------------------------ frame

    def _draw_topbar(self) -> None:
        with self._shell.topbar('Tasks'):
            self._count = Text('', classes='t3 num')
            with ui.element('label').classes('inp srch').props('data-search'):
                Icon('search', 'ic-s')
                box = ui.input(value=self._query.search, placeholder=SEARCH)
                box.props('borderless dense debounce=60')
                box.props['aria-label'] = SEARCH
                box.on_value_change(self._search)
                kbd('/')
            spacer()
            Button(
                'Templates',
                icon='grid-3x3',
                kind='gho slim-s',
                label='Templates',
                on_click=lambda: ui.navigate.to('/templates'),
            )
            Button('Import', icon='upload', on_click=lambda: open_import(self._studio.transfer, self._changed))
            Button('New task', icon='plus', kind='pri', shortcut='N', on_click=self._shell.new_task)

    def _draw_filters(self) -> None:
        query = self._query
        with ui.element('div').classes('filters').props('role=group aria-label=Filters'):
            choices = [Choice('', 'All', count=0), Choice('draft', 'Draft', count=0)]
            choices.append(Choice('published', 'Published', count=0))
            self._status = Segmented(
                choices,
                query.status or '',
                label='Status',
                on_change=lambda value: self._change(status=value or None),
            )
            divider()
            FilterPill(
                'Checker',
                lambda: [Choice(kind, kind, icon) for kind, icon in CHECKER_ICONS.items()],
                query.checker or '',
                on_change=lambda pill: self._change(checker=pill.value or None),
            )
            FilterPill(
                'Certificate',
                lambda: [Choice(state, word, icon) for state, (word, _, icon) in SEALS.items()],
                query.certificate or '',
                on_change=lambda pill: self._change(certificate=pill.value or None),
            )
            words = {word: tier for tier, word in TIERS.items()}
            FilterPill(
                'Tier',
                lambda: [Choice(word, word) for word in words],
                TIERS.get(query.tier, '') if query.tier else '',
                on_change=lambda pill: self._change(tier=words.get(pill.value)),
            )
            with ui.element('span').classes('hs') as self._topic_pills:
                self._draw_topic_pills()
            self._shown = Text('', classes='t3 t-small nowrap num').props('role=status')
            self._clear = Button('Clear', kind='gho sm', label='Clear search and filters', on_click=self._clear_all)
            self._rate_of = RateOf(lambda key: self._change(subject=key))

    def _draw_topic_pills(self) -> None:
        """Draw a pill for each topic that is filtered by, and one to add another."""
        query = self._query
        chosen = [(topic, False) for topic in query.topics] + [(topic, True) for topic in query.without_topics]
        self._pills = [self._topic_pill(topic, excludes) for topic, excludes in [*chosen, ('', False)]]

    def _topic_pill(self, topic: str, excludes: bool) -> FilterPill:
        return FilterPill(
            'Topic',
            lambda: [Choice(name, name, count=count) for name, count in self._topics.items()],
            topic,
            on_change=self._pick_topics,
            can_exclude=True,
            excludes=excludes,
            before_open=self._read_topics,
        )

    async def _read_topics(self) -> None:
        self._topics = await run.io_bound(self._documents.topics) or self._topics

    async def _pick_topics(self, pill: FilterPill) -> None:
        chosen = [(pill.value, pill.excludes) for pill in self._pills if pill.value]
        topics = tuple(dict.fromkeys(topic for topic, excludes in chosen if not excludes))
        without = tuple(dict.fromkeys(topic for topic, excludes in chosen if excludes))
        await self._change(topics=topics, without_topics=without)
        self._topic_pills.clear()
        with self._topic_pills:
            self._draw_topic_pills()
            # From here, for the menu that was clicked is gone with its pill.
            ui.run_javascript(
                f'document.querySelector("#{self._topic_pills.html_id} .pill:last-child button")?.focus()'
            )

    def _draw_nothing(self) -> None:
        with ui.element('div').classes('nothing empty') as self._nothing:
            Icon('search', 'ic-l t3')
            Text('No task fits the search and the filters.').props('role=status')
            Button('Clear search and filters', kind='sm', on_click=self._clear_all)

    def _draw_pager(self) -> None:
        with ui.element('div').classes('stat') as self._pager:
            self._range = Text('', classes='num').props('role=status')
            spacer()
            self._back = Button(icon='chevron-left', kind='gho icn sm', label='Previous page', key='[')
            self._next = Button(icon='chevron-right', kind='gho icn sm', label='Next page', key=']')
            self._back.on('click', lambda: self._turn(-1), args=[])
            self._next.on('click', lambda: self._turn(1), args=[])

    def _show_pager(self, page: DocumentPage) -> None:
        last_page = max(1, -(-page.total // PER_PAGE))
        if self._query.page > last_page:
            self._query = self._query.model_copy(update={'page': last_page})
        first = (self._query.page - 1) * PER_PAGE + 1
        self._pager.set_visibility(page.total > PER_PAGE)
        self._range.set_text(f'{first} to {first + len(page.rows) - 1} of {page.total}')
        self._back.off('There is no page before this one' if self._query.page == 1 else '')
        self._next.off('There is no further page' if self._query.page == last_page else '')

    # ---------------------------------------------------------------------------------------------- changes

    async def _turn(self, by: int) -> None:
        await self._change(page=max(1, self._query.page + by))
        ui.run_javascript('window.scrollTo(0, 0)')

    async def _search(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        await self._change(step=False, search=event.value or '')

    async def _sort(self, column: str, descending: bool) -> None:
        await self._change(sort=column if column in _SORTS else 'updated', descending=descending)

    def _clear_all(self) -> None:
        ui.navigate.to('/')

    def _mark(self) -> None:
        self._table.mark(self._selection.ids)
        self._offer_all()

    def _offer_all(self) -> None:
        query = self._query

        async def matching() -> Sequence[str]:
            return await run.io_bound(self._documents.ids, query) or ()

        query = query.model_copy(update={'subject': self._subject})

        self._selection.offer_all(self._table.ids, self._page.total, matching)

    async def _act(self, action: str, id: str) -> None:
        if action == 'open':
            ui.navigate.to(f'/tasks/{id}')
        elif action == 'certify':
            await self._selection.certify([id])
        elif action == 'calibrate':
            await self._calibrate([id])
        elif action == 'duplicate':
            copy = await run.io_bound(self._documents.duplicate, id)
            if copy is not None:
                ui.navigate.to(f'/tasks/{copy.id}')
        elif action == 'export':
            open_export(self._studio.transfer, [id])
        elif action == 'delete':
            await self._selection.delete([id])

    async def _calibrate(self, ids: Sequence[str]) -> None:
        async def started(job: JobView) -> None:
            # Whoever starts to measure a model wants to see what it solves.
            if job.subject.key != self._subject:
                await self._change(subject=job.subject.key)
            await self._strip.look()

        await open_calibrate(self._studio, ids, started)

    async def _changed(self) -> None:
        """Show the library again, or the start screen when the last task went or the first one came back."""
        if await run.io_bound(self._documents.count) and not self._pager.is_deleted:
            await self.load()
        elif self._shell.path.partition('?')[0] == '/':
            await ui.context.client.sub_pages_router.refresh()
        await self._shell.refresh()


def _row(row: DocumentRow) -> dict[str, Any]:
    return {
        'id': row.id,
        'title': row.title.strip() or 'Untitled task',
        'draft': row.status == 'draft',
        'problems': plural(row.problem_count, 'problem') if row.problem_count else '',
        'checker': row.checker,
        'certificate': row.certificate,
        'rate': rate_cell(row.pass_rate),
        'tier': tier_cell(row.pass_rate.tier if row.pass_rate else 'unknown'),
        'topics': list(row.topics),
        'version': f'v{row.version}' if row.version else '',
        'hash': f'hash {row.hash[:12]}' if row.hash else '',
        'updated': ago(row.updated_at),
        'moment': f'{row.updated_at.astimezone():%d %b %Y, %H:%M}',
    }
