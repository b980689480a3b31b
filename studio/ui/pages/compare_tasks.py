"""How compared runs do at each task: a table that is sorted by how much changed, by the task, or by one of the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from nicegui import ui

from studio.runs.comparison import RECENT_STEPS, ComparedTask, Score
from studio.ui.components.elements import Button, Icon, Text, spacer
from studio.ui.components.panel import panel
from studio.ui.components.wording import plural, signed
from studio.ui.pages.compare_series import LETTERS

ROWS: Final = 25
"""So many tasks are shown at first, and more at each wish."""
MORE_ROWS: Final = 200
CHANGE: Final = 'change'
TASK: Final = 'task'
NOTHING: Final = '–'  # noqa: RUF001


class TasksTable:
    """The table. ``sort`` is ``change``, ``task`` or the letter of a run, with a minus before it where it falls.

    ``on_sort`` is told what it is sorted by now.
    """

    def __init__(self, rows: Sequence[ComparedTask], runs: int, *, sort: str, on_sort: Callable[[str], Any]) -> None:
        self._rows, self._runs, self._shown, self._on_sort = rows, runs, 0, on_sort
        self._columns = {TASK: 'Task', **{letter: letter for letter in LETTERS[:runs]}}
        self._columns[CHANGE] = 'B less A' if runs == 2 else 'Range'
        self.sort = sort if sort.removeprefix('-') in self._columns else f'-{CHANGE}'
        self._heads: dict[str, ui.element] = {}
        with panel('Task by task', icon='list-checks', classes='cmptasks') as head:
            with head:
                Text(_how_many(rows), classes='t3 t-small')
            if not rows:
                Text('These runs have no tasks.', 'div', 't3 pad')
                return
            with ui.element('div').classes('tblbox'), ui.element('table').classes('tbl dense'):
                with ui.element('thead'), ui.element('tr'):
                    for name, words in self._columns.items():
                        self._draw_head(name, words)
                self._body = ui.element('tbody')
            with ui.element('div').classes('ft hs'):
                Text(
                    f'Held-out tasks: share of attempts solved, before and after. Training tasks: mean reward of the '
                    f'last {RECENT_STEPS} steps of a run. n: attempts that were scored.',
                    classes='t3 t-small',
                )
                spacer()
                self._more = Button('Show more', kind='sm', on_click=self._show_more)
        self._draw()

    def _draw_head(self, name: str, words: str) -> None:
        with ui.element('th').classes('' if name == TASK else 'r') as head:
            with ui.element('button').props('type=button').classes('sort') as button:
                text = Text(words)
                if name in LETTERS:
                    text.classes('w6').style(f'color: var(--c{LETTERS.index(name) + 1})')
                with ui.element('span').classes('arrow'):
                    Icon('arrow-up', 'ic-xs')
            button.on('click', partial(self._sort_by, name), args=[])
        self._heads[name] = head

    def _sort_by(self, name: str) -> Any:
        """Numbers fall at first, titles rise; another click turns it."""
        first = name if name == TASK else f'-{name}'
        turned = self.sort.removeprefix('-') if self.sort.startswith('-') else f'-{self.sort}'
        self.sort = turned if self.sort.removeprefix('-') == name else first
        self._draw()
        return self._on_sort(self.sort)

    def _draw(self) -> None:
        name, falls = self.sort.removeprefix('-'), self.sort.startswith('-')
        for other, head in self._heads.items():
            head.classes(replace=f'{"" if other == TASK else "r"} {"sorted" if other == name else ""}'.strip())
            head.classes(add='sort-desc') if other == name and falls else None
            order = 'descending' if falls else 'ascending'
            head.props(f'aria-sort={order if other == name else "none"}')
        self._sorted = in_order(self._rows, name, falls=falls)
        self._body.clear()
        count, self._shown = max(ROWS, self._shown), 0
        self._append(count)

    def _show_more(self) -> None:
        self._append(MORE_ROWS)

    def _append(self, count: int) -> None:
        with self._body:
            for row in self._sorted[self._shown : self._shown + count]:
                self._task(row)
        self._shown = min(len(self._rows), self._shown + count)
        left = len(self._rows) - self._shown
        self._more.set_visibility(left > 0)
        self._more.set_text(f'Show {min(MORE_ROWS, left):,} more')

    def _task(self, row: ComparedTask) -> None:
        with ui.element('tr'):
            with ui.element('td').classes('grow'), ui.element('span').classes('hs hs-6'):
                Text(row.title, classes='ell').props['title'] = row.title
                if row.versions_differ:
                    with ui.element('span').classes('chip warn') as chip:
                        Text('changed')
                    chip.props['title'] = 'The task was changed between these runs'
            for score in row.scores:
                with ui.element('td').classes('r num'):
                    _score(score)
            with ui.element('td').classes('r num w6'):
                _change(row, signed_change=self._runs == 2)


def in_order(rows: Sequence[ComparedTask], name: str, *, falls: bool) -> list[ComparedTask]:
    """Rows by a column; what is missing is last both ways."""
    if name == TASK:
        return sorted(rows, key=lambda row: row.title.casefold(), reverse=falls)

    def value(row: ComparedTask) -> float | None:
        if name == CHANGE:
            return row.change
        score = row.scores[LETTERS.index(name)]
        return None if score is None else score.mean

    known = [(found, row) for row in rows if (found := value(row)) is not None]
    missing = [row for row in rows if value(row) is None]
    return [row for _, row in sorted(known, key=lambda pair: -pair[0] if falls else pair[0])] + missing


def _score(score: Score | None) -> None:
    if score is None:
        Text('not in this run', classes='t3 t-small')
        return
    if score.mean is None:
        missing = f'before {score.before:.2f}' if score.before is not None else 'not attempted yet'
        Text(f'{plural(score.errors, "error")}, none scored' if score.errors else missing, classes='t3 t-small')
        return
    if score.before is not None:
        Text(f'{score.before:.2f} → ', classes='t3')
    Text(f'{score.mean:.2f}', 'b', 'w6')
    errors = f', {plural(score.errors, "error")}' if score.errors else ''
    count = Text(f' n {score.n}{errors}', classes='t3 t-micro')
    bounds = f'95 %: {score.low:.2f} to {score.high:.2f}' if score.low is not None and score.high is not None else ''
    at = f'step {score.step}' if score.step is not None else 'after training'
    kind = 'Held-out' if score.kind == 'held_out' else 'Training'
    count.props['title'] = ' · '.join(filter(None, (kind, at, bounds)))


def _change(row: ComparedTask, *, signed_change: bool) -> None:
    first, *rest = row.scores
    if row.change is None:
        Text(NOTHING, classes='t3')
    elif signed_change and first and rest[0] and first.mean is not None and rest[0].mean is not None:
        change = rest[0].mean - first.mean
        Text(signed(change), classes='c-ok' if change > 0 else 'c-bad' if change < 0 else 't3')
    else:
        Text(f'{row.change:.2f}', classes='' if row.change else 't3')


def _how_many(rows: Sequence[ComparedTask]) -> str:
    everywhere = sum(all(row.scores) for row in rows)
    some = len(rows) - everywhere
    return f'{everywhere} in every run' + (f', {some} only in some' if some else '')
