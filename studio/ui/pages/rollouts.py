"""The rollouts of a run, searched by words, outcome, task, reward and ending; the address says what is looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from nicegui import run as background
from nicegui import ui
from pydantic import ValidationError

from studio.errors import NotFound
from studio.runs.rollout_search import Hit, Hits, SearchQuery
from studio.runs.views import RunView
from studio.ui.components.elements import Button, Icon, Text, chip, spacer
from studio.ui.components.panel import empty, search_box
from studio.ui.components.plain_text import visible
from studio.ui.components.segmented import Choice, FilterPill, Segmented
from studio.ui.components.transcript import OUTCOMES
from studio.ui.layout import Shell

if TYPE_CHECKING:
    from studio.services import Studio

ENDED: Final[dict[str, str]] = {
    'answer': 'answered',
    'tool_budget': 'out of tool calls',
    'token_budget': 'token limit',
    'tool_answer_did_not_fit': 'tool answer did not fit',
    'unreadable_tool_call': 'unreadable tool call',
    'error': 'sandbox error',
}
STAGES: Final = {
    'train': 'training',
    'before': 'held-out before',
    'during': 'held-out during',
    'after': 'held-out after',
}
RESULTS: Final = {'': 'All', 'passed': 'Passed', 'not_passed': 'Failed', 'error': 'Errors'}
"""What the badges say: a reward below 1 is Failed. The fields for the reward find those that earned some."""


@dataclass(frozen=True)
class _Found:
    run: RunView
    titles: dict[str, str]
    hits: Hits


async def page(
    shell: Shell,
    run_id: str,
    text: str = '',
    outcome: str = '',
    task: str = '',
    stage: str = '',
    ending: str = '',
    low: str = '',
    high: str = '',
    at: str = '',
) -> None:
    """Draw the page; what the address asks for and cannot be is left out."""
    asked = {'text': text, 'outcome': outcome, 'task': task, 'stage': stage, 'ending': ending, 'low': low, 'high': high}
    query = read_query(asked | {'page': at})
    try:
        found = await background.io_bound(_read, shell.studio, run_id, query)
    except NotFound as error:
        with shell.topbar('Rollouts', crumbs=[('Runs', '/runs')]):
            pass
        with empty('circle-alert', error.message):
            Button('All runs', on_click=lambda: ui.navigate.to('/runs'))
        return
    if found is None:
        return
    with shell.topbar('Rollouts', crumbs=[('Runs', '/runs'), (found.run.name, f'/runs/{run_id}')], main=found.run.name):
        Text(f'{found.hits.recorded:,}', classes='t3 num')
        spacer()
        again = Button('Re-grade', icon='history', kind='gho')
    screen = RolloutsScreen(shell, found, query)
    again.on('click', lambda: ui.navigate.to(screen.regrade_path), args=[])


def read_query(asked: dict[str, str]) -> SearchQuery:
    """A query from what stands in an address or a form; fields that cannot be are left out."""
    given: dict[str, Any] = {name: value for name, value in asked.items() if value != ''}
    if given.get('outcome') in ('failed', 'partial'):  # the address is a person's or a program's: one word for both
        given['outcome'] = 'not_passed'
    try:
        return SearchQuery.model_validate(given, strict=False)
    except ValidationError as error:
        wrong = {str(one['loc'][0]) for one in error.errors()}
        return SearchQuery.model_validate({name: value for name, value in given.items() if name not in wrong})


def _read(studio: Studio, run_id: str, query: SearchQuery) -> _Found:
    run = studio.runs.get(run_id)
    titles = studio.runs.titles(run_id)
    return _Found(run, titles, studio.search.find(run_id, query, titles))


class RolloutsScreen:
    """The list in one tab."""

    def __init__(self, shell: Shell, found: _Found, query: SearchQuery) -> None:
        self._shell, self._studio = shell, shell.studio
        self._run, self._titles, self._query = found.run, found.titles, query
        with ui.element('div').classes('runlist').props('data-rows'):
            with ui.element('div').classes('runbar wrap'):
                self._draw_filters()
                self._draw_pager()
            with ui.element('div').classes('card tblbox'), ui.element('table').classes('tbl rolls'):
                with ui.element('thead'), ui.element('tr'):
                    for name, kind in (
                        ('Step', 'r'), ('Task', ''), ('Result', ''), ('Reward', 'r'), ('Calls', 'r'),
                        ('Tokens', 'r hide-s'), ('Ended', 'hide-s'),
                    ):  # fmt: skip
                        with ui.element('th').classes(kind):
                            Text(name)
                self._body = ui.element('tbody')
            with ui.element('div').classes('empty').style('padding: 72px 16px') as self._none:
                Icon('search', 'ic-l t3')
                self._why_none = Text().props('role=status')
                self._clear = Button('Clear search and filters', kind='sm', on_click=self._clear_all)
        self._show(found.hits)
        self._timer = ui.timer(0.5, self._refresh, active=not found.hits.is_complete)

    @property
    def regrade_path(self) -> str:
        """Where the rollouts of the picked task and result are graded again."""
        query = self._query
        asked = {name: value for name, value in (('task', query.task), ('results', query.outcome)) if value}
        return f'/runs/{self._run.id}/regrade' + (f'?{urlencode(asked)}' if asked else '')

    def _clear_all(self) -> None:
        ui.navigate.to(f'/runs/{self._run.id}/rollouts')

    def _draw_filters(self) -> None:
        query = self._query
        search_box('Search what was said and done', query.text, lambda text: self._ask(text=text))
        Segmented(
            [Choice(value, label) for value, label in RESULTS.items()],
            query.outcome,
            label='Result',
            on_change=lambda picked: self._ask(outcome=picked),
        )
        names = {title: task for task, title in sorted(self._titles.items(), key=lambda one: one[1])}
        for label, field, values, value in (
            ('Task', 'task', names, self._titles.get(query.task, '')),
            ('Ended', 'ending', {word: ending for ending, word in ENDED.items()}, ENDED.get(query.ending, '')),
            ('From', 'stage', {word: stage for stage, word in STAGES.items()}, STAGES.get(query.stage, '')),
        ):
            self._draw_pill(label, field, values, value)
        with ui.element('span').classes('hs nowrap'):
            for label, field, bound in (('Reward from', 'low', query.low), ('to', 'high', query.high)):
                with ui.element('label').classes('hs hs-6 t-small t3'):
                    Text(label)
                    box = ui.input(value='' if bound is None else f'{bound:g}').props(
                        'outlined dense debounce=300 maxlength=6'
                    )
                    box.classes('tiny num').props['aria-label'] = (
                        f'Reward {"at least" if field == "low" else "at most"}'
                    )
                    box.on_value_change(lambda event, field=field, box=box: self._bound(field, event.value or '', box))

    def _draw_pager(self) -> None:
        self._state = Text(classes='t3 t-small num').props('role=status')
        spacer()
        self._range = Text(classes='t3 t-small num nowrap')
        with ui.element('span').classes('hs hs-6'):
            self._before = Button(icon='chevron-left', kind='icn sm', label='Previous page', key='[')
            self._after = Button(icon='chevron-right', kind='icn sm', label='Next page', key=']')
        self._before.on('click', lambda: self._turn(-1), args=[])
        self._after.on('click', lambda: self._turn(1), args=[])

    def _draw_pill(self, label: str, field: str, values: dict[str, str], value: str) -> None:
        def pick(pill: FilterPill) -> Any:
            return self._ask(**{field: values.get(pill.value, '')})

        FilterPill(label, lambda: [Choice(word, word) for word in values], value, on_change=pick)

    async def _bound(self, field: str, text: str, box: ui.input) -> None:
        try:
            bound = float(text.replace(',', '.')) if text.strip() else None
        except ValueError:
            box.error = 'A number'
            return
        box.error = None
        await self._ask(**{field: bound})

    async def _turn(self, by: int) -> None:
        await self._ask(page=max(1, self._query.page + by))

    async def _ask(self, **changes: Any) -> None:
        """Look for something else: in place, so that what is typed keeps its focus; the address follows."""
        self._query = self._query.model_copy(update={'page': 1} | changes)
        kept = self._query.model_dump(exclude_defaults=True, exclude={'per_page'})
        if 'page' in kept:
            kept['at'] = kept.pop('page')
        self._shell.address(f'/runs/{self._run.id}/rollouts' + (f'?{urlencode(kept)}' if kept else ''), step=False)
        await self._refresh()

    async def _refresh(self) -> None:
        asked = self._query
        hits = await background.io_bound(self._studio.search.find, self._run.id, asked, self._titles)
        if hits is None or asked != self._query:  # something else is looked for by now
            return
        self._show(hits)
        self._timer.active = not hits.is_complete

    def _show(self, hits: Hits) -> None:
        first = (self._query.page - 1) * self._query.per_page
        last = first + len(hits.rows)
        self._range.set_text(f'{first + 1:,} to {last:,} of {hits.total:,}' if hits.rows else '')
        self._before.off('' if self._query.page > 1 else 'There are no more')
        self._after.off('' if last < hits.total else 'There are no more')
        waiting = '' if hits.is_complete else f'Looked through {hits.indexed:,} of {hits.recorded:,}, going on'
        self._state.set_text(waiting)
        self._state.set_visibility(bool(waiting))
        self._none.set_visibility(not hits.rows and hits.is_complete)
        some = hits.recorded > 0
        self._why_none.set_text('No rollout fits the search and the filters.' if some else 'No rollout has ended yet.')
        self._clear.set_visibility(some)
        self._body.clear()
        with self._body:
            for hit in hits.rows:
                self._draw(hit)

    def _draw(self, hit: Hit) -> None:
        word, kind, icon = OUTCOMES[hit.outcome]
        with ui.element('tr'):
            with ui.element('td').classes('r num'):
                Text(f'{hit.step:,}')
            with ui.element('td').classes('grow'):
                with ui.element('a').classes('w5 ell').props(f'href="/runs/{self._run.id}/rollouts/{hit.id}"') as link:
                    link.props['data-row'] = str(hit.id)
                    link.props['title'] = visible(hit.title)
                    Text(visible(hit.title))
                where = '' if hit.stage == 'train' else f' · {STAGES.get(hit.stage, hit.stage)}'
                with ui.element('div').classes('t3 t-micro ell') as below:
                    Text(f'#{hit.index + 1}{where}', classes='num')
                    if hit.excerpt:
                        below.props['title'] = visible(hit.excerpt)
                        Text(f' · {visible(hit.excerpt)}', classes='mono')
            with ui.element('td'):
                chip('Error' if hit.reward is None else word, kind, icon=icon)
            for text, classes in (
                ('–' if hit.reward is None else f'{hit.reward:.2f}', 'r num w6'),  # noqa: RUF001
                (f'{hit.calls}', 'r num'),
                (f'{hit.tokens:,}', 'r num hide-s'),
                (ENDED.get(hit.ending or '', 'not recorded'), 't2 hide-s nowrap'),
            ):
                with ui.element('td').classes(classes):
                    Text(text)
