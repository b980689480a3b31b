"""The table of tasks: one page of rows from the server, many to pick, a menu for each row. Cell text is never HTML.

Keys and picking a range are in ``assets/js/rows.js``, which tells of them by two events on the frame around the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from nicegui import events, ui

from studio.ui.components.certificate import SEALS
from studio.ui.components.elements import CHECKER_ICONS, SPRITE
from studio.ui.components.tiers import WIDTH


def _column(name: str, label: str, field: str = '', classes: str = '', **more: Any) -> dict[str, Any]:
    both = {'classes': classes, 'headerClasses': classes} if classes else {}
    return {'name': name, 'label': label, 'field': field or name, 'align': 'left', **both, **more}


COLUMNS: Final = (
    _column('title', 'Task', classes='col-title', sortable=True),
    _column('checker', 'Checker', sortable=True),
    _column('certificate', 'Certificate', classes='col-cert'),
    _column('rate', 'Pass rate, 95% interval', 'id', classes='col-rate', sortable=True),
    _column('tier', 'Tier', 'id', classes='col-tier'),
    _column('topics', 'Topics', 'id', classes='col-topics'),
    _column('version', 'Version', classes='col-ver', align='right'),
    _column('updated', 'Updated', sortable=True),
    _column('menu', '', 'id', classes='col-menu', align='right'),
)

ACTIONS: Final = (
    ('open', 'Open', 'pencil'),
    ('certify', 'Certify', 'badge-check'),
    ('calibrate', 'Calibrate…', 'target'),
    ('duplicate', 'Duplicate', 'copy'),
    ('export', 'Export…', 'download'),
    ('delete', 'Delete', 'trash-2'),
)


def _svg(name: str, classes: str = 'ic') -> str:
    return f'<svg class="{classes}" viewBox="0 0 24 24" aria-hidden="true"><use href="{SPRITE}#{name}"></use></svg>'


_PICK: Final = """<q-checkbox v-model="props.selected" :aria-label="'Select ' + props.row.title" />"""

_PICK_ALL: Final = '<q-checkbox v-model="props.selected" aria-label="Select every task on this page" />'

_TITLE: Final = """<q-td :props="props"><span class="tt">
<a class="ell" :href="'/tasks/' + props.row.id" :data-row="props.row.id" :title="props.row.title">{{
props.row.title }}</a>
<span v-if="props.row.draft" class="chip out">Draft</span>
<span v-if="props.row.problems" class="chip warn">{{ props.row.problems }}</span></span></q-td>"""

_CHECKER: Final = f"""<q-td :props="props"><span class="chip mono" v-if="props.row.checker">
<svg class="ic ic-xs" viewBox="0 0 24 24" aria-hidden="true"><use :href="'{SPRITE}#' + props.row.icon"></use></svg>
{{{{ props.row.checker }}}}</span></q-td>"""

_CERTIFICATE: Final = f"""<q-td :props="props"><span :class="'seal ' + props.row.seal.kind">
<svg class="ic" viewBox="0 0 24 24" aria-hidden="true"><use :href="'{SPRITE}#' + props.row.seal.icon"></use></svg>
{{{{ props.row.seal.word }}}}</span></q-td>"""

_RATE: Final = f"""<q-td :props="props"><span class="rate" :title="props.row.rate.title" v-if="props.row.rate.count">
<svg viewBox="0 0 {WIDTH} 14" width="{WIDTH}" height="14" role="img" :aria-label="props.row.rate.label">
<rect class="track" x="0" y="5" width="{WIDTH}" height="4" rx="2"></rect>
<rect class="span" :x="props.row.rate.low" y="5" :width="props.row.rate.width" height="4"></rect>
<rect class="end" :x="props.row.rate.low" y="3.5" width="1" height="7"></rect>
<rect class="end" :x="props.row.rate.high" y="3.5" width="1" height="7"></rect>
<circle :cx="props.row.rate.dot" cy="7" r="3.5"></circle></svg>
<span class="num"><b class="w5">{{{{ props.row.rate.count }}}}</b> <span class="t3">{{{{
props.row.rate.percent }}}}</span></span></span>
<span class="rate" v-else :title="props.row.rate.title"><i class="hatched"></i><span class="t3">{{{{
props.row.rate.words }}}}</span></span></q-td>"""

_TIER: Final = """<q-td :props="props"><span :class="'tier ' + props.row.tier.kind">
<span class="tg" aria-hidden="true"><i v-for="colour in props.row.tier.notches" :class="colour"></i></span>
{{ props.row.tier.word }}</span></q-td>"""

_TOPICS: Final = """<q-td :props="props"><span class="hs hs-1">
<span class="chip" v-for="topic in props.row.topics.slice(0, 2)">{{ topic }}</span>
<span class="chip" v-if="props.row.topics.length > 2" :title="props.row.topics.join(', ')">
+{{ props.row.topics.length - 2 }}</span></span></q-td>"""

_VERSION: Final = (
    """<q-td :props="props" class="num t2"><span :title="props.row.hash">{{ props.row.version }}</span></q-td>"""
)

_UPDATED: Final = (
    """<q-td :props="props" class="t3 t-small"><span :title="props.row.moment">{{ props.row.updated }}</span></q-td>"""
)

_SORTED: Final = "(props.col.__thClass || '')"
_HEADER: Final = f"""<q-th :props="props" :aria-sort="{_SORTED}.includes('sorted')
? ({_SORTED}.includes('sort-desc') ? 'descending' : 'ascending') : undefined">
<span v-if="!props.col.label" class="sr">Actions</span>
<button v-else-if="props.col.sortable" type="button" class="sort">{{{{ props.col.label }}}}
<span class="arrow">{_svg('arrow-up', 'ic ic-xs')}</span></button>
<template v-else>{{{{ props.col.label }}}}</template></q-th>"""

_MENU: Final = (
    '<q-td :props="props"><button class="btn gho icn z-sm more" type="button" aria-haspopup="menu" '
    ':aria-label="\'More actions for \' + props.row.title">'
    + _svg('ellipsis')
    + '<q-menu class="menu" anchor="bottom right" self="top right">'
    + ''.join(
        f'<div class="mi{" c-bad" if act == "delete" else ""}" role="menuitem" tabindex="0" v-close-popup '
        f"@click=\"() => $parent.$emit('act', {{id: props.row.id, act: '{act}'}})\" "
        '@keydown.enter.prevent="(event) => event.target.click()" '
        f'@keydown.space.prevent="(event) => event.target.click()">{_svg(icon)}{label}</div>'
        for act, label, icon in ACTIONS
    )
    + '</q-menu></button></q-td>'
)


class TaskTable:
    """Rows are dictionaries with ``id title draft problems checker certificate topics version hash updated moment``.

    They also have ``rate`` and ``tier``, as ``components/tiers.py`` makes them.
    ``on_pick(ids, picked)`` tells which rows of this page were picked or let go; ``on_action`` gets one of ``ACTIONS``
    and an id.
    """

    def __init__(
        self,
        *,
        sort: str,
        descending: bool,
        on_sort: Callable[[str, bool], Any],
        on_pick: Callable[[Sequence[str], bool], Any],
        on_action: Callable[[str, str], Any],
    ) -> None:
        self._on_sort, self._on_pick, self._on_action = on_sort, on_pick, on_action
        with ui.element('div').props('data-rows') as frame:
            self._table: ui.table = ui.table(
                columns=[dict(column) for column in COLUMNS],
                rows=[],
                row_key='id',
                selection='multiple',
                pagination={'sortBy': sort, 'descending': descending, 'page': 1, 'rowsPerPage': 0, 'rowsNumber': 0},
            )
        frame.on('rows-pick', self._ticked, js_handler='(event) => emit(event.detail)')
        frame.on('rows-act', self._acted, js_handler='(event) => emit(event.detail)')
        self._table.props('flat dense hide-pagination hide-bottom binary-state-sort').classes('tasks w-full')
        self._table.props['aria-label'] = 'Tasks'
        for slot, template in (
            ('header-selection', _PICK_ALL),
            ('body-selection', _PICK),
            ('header-cell', _HEADER),
            ('body-cell-title', _TITLE),
            ('body-cell-checker', _CHECKER),
            ('body-cell-certificate', _CERTIFICATE),
            ('body-cell-rate', _RATE),
            ('body-cell-tier', _TIER),
            ('body-cell-topics', _TOPICS),
            ('body-cell-version', _VERSION),
            ('body-cell-updated', _UPDATED),
            ('body-cell-menu', _MENU),
        ):
            self._table.add_slot(slot, template)
        self._table.on('request', self._requested)
        self._table.on('selection', self._ticked, js_handler='(event) => emit({ids: event.keys, on: event.added})')
        self._table.on('act', self._acted)
        self._table.on(
            'rowClick',
            lambda event: self._on_action('open', event.args),
            js_handler="(event, row) => { if (!event.target.closest('a, button, .q-checkbox, .q-menu')) emit(row.id) }",
        )

    @property
    def ids(self) -> list[str]:
        """The ids of the rows on this page."""
        return [str(row['id']) for row in self._table.rows]

    def show(self, rows: Sequence[dict[str, Any]], picked: Iterable[str]) -> None:
        """Show a page of rows, with those picked that are on it."""
        for row in rows:
            row['icon'] = CHECKER_ICONS.get(row['checker'], 'circle-help')
            row['seal'] = dict(zip(('word', 'kind', 'icon'), SEALS[row['certificate']], strict=True))
        self._table.rows = list(rows)
        self.mark(picked)

    def mark(self, picked: Iterable[str]) -> None:
        """Show which rows are picked."""
        picked = set(picked)
        self._table.selected = [row for row in self._table.rows if row['id'] in picked]

    def title_of(self, id: str) -> str:
        """The title of a row on this page, else its id."""
        return next((str(row['title']) for row in self._table.rows if row['id'] == id), id)

    def _ticked(self, event: events.GenericEventArguments) -> Any:
        return self._on_pick([str(id) for id in event.args['ids']], bool(event.args['on']))

    def _acted(self, event: events.GenericEventArguments) -> Any:
        if event.args['act'] in {act for act, *_ in ACTIONS}:
            return self._on_action(event.args['act'], event.args['id'])
        return None

    def _requested(self, event: events.GenericEventArguments) -> Any:
        wanted = event.args['pagination']
        self._table.pagination = {**wanted, 'rowsPerPage': 0}
        return self._on_sort(wanted.get('sortBy') or 'updated', bool(wanted.get('descending')))
