"""The table of tasks: one page of rows from the server, multi-select, a menu for each row. Cell text is never HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nicegui import events, ui

from studio.ui.components.certificate import SEALS
from studio.ui.components.elements import CHECKER_ICONS, SPRITE

COLUMNS: Final = (
    {'name': 'title', 'label': 'Task', 'field': 'title', 'align': 'left', 'sortable': True, 'classes': 'col-title'},
    {'name': 'checker', 'label': 'Checker', 'field': 'checker', 'align': 'left', 'sortable': True},
    {
        'name': 'certificate',
        'label': 'Certificate',
        'field': 'certificate',
        'align': 'left',
        'classes': 'col-cert',
        'headerClasses': 'col-cert',
    },
    {
        'name': 'topics',
        'label': 'Topics',
        'field': 'id',
        'align': 'left',
        'classes': 'col-topics',
        'headerClasses': 'col-topics',
    },
    {
        'name': 'version',
        'label': 'Version',
        'field': 'version',
        'align': 'right',
        'classes': 'col-ver',
        'headerClasses': 'col-ver',
    },
    {'name': 'updated', 'label': 'Updated', 'field': 'updated', 'align': 'left', 'sortable': True},
    {'name': 'menu', 'label': '', 'field': 'id', 'align': 'right', 'classes': 'col-menu'},
)

ACTIONS: Final = (
    ('open', 'Open', 'pencil'),
    ('certify', 'Certify', 'badge-check'),
    ('duplicate', 'Duplicate', 'copy'),
    ('export', 'Export as JSONL', 'download'),
    ('delete', 'Delete', 'trash-2'),
)


def _svg(name: str, classes: str = 'ic') -> str:
    return f'<svg class="{classes}" viewBox="0 0 24 24" aria-hidden="true"><use href="{SPRITE}#{name}"></use></svg>'


_TITLE: Final = """<q-td :props="props"><span class="tt">
<a class="ell" :href="'/tasks/' + props.row.id" :title="props.row.title">{{ props.row.title }}</a>
<span v-if="props.row.draft" class="chip out">Draft</span>
<span v-if="props.row.problems" class="chip warn">{{ props.row.problems }}</span></span></q-td>"""

_CHECKER: Final = f"""<q-td :props="props"><span class="chip mono" v-if="props.row.checker">
<svg class="ic ic-xs" viewBox="0 0 24 24" aria-hidden="true"><use :href="'{SPRITE}#' + props.row.icon"></use></svg>
{{{{ props.row.checker }}}}</span></q-td>"""

_CERTIFICATE: Final = f"""<q-td :props="props"><span :class="'seal ' + props.row.seal.kind">
<svg class="ic" viewBox="0 0 24 24" aria-hidden="true"><use :href="'{SPRITE}#' + props.row.seal.icon"></use></svg>
{{{{ props.row.seal.word }}}}</span></q-td>"""

_TOPICS: Final = """<q-td :props="props"><span class="hs hs-1">
<span class="chip" v-for="topic in props.row.topics.slice(0, 3)">{{ topic }}</span>
<span class="chip" v-if="props.row.topics.length > 3" :title="props.row.topics.join(', ')">
+{{ props.row.topics.length - 3 }}</span></span></q-td>"""

_VERSION: Final = (
    """<q-td :props="props" class="num t2"><span :title="props.row.hash">{{ props.row.version }}</span></q-td>"""
)

_UPDATED: Final = (
    """<q-td :props="props" class="t3 t-small"><span :title="props.row.moment">{{ props.row.updated }}</span></q-td>"""
)

_HEADER: Final = f"""<q-th :props="props">{{{{ props.col.label }}}}
<span v-if="!props.col.label" class="sr">Actions</span>
<span v-if="props.col.sortable" class="arrow">{_svg('arrow-up', 'ic ic-xs')}</span></q-th>"""

_MENU: Final = (
    '<q-td :props="props"><button class="btn gho icn z-sm more" type="button" '
    ':aria-label="\'More actions for \' + props.row.title">'
    + _svg('ellipsis')
    + '<q-menu class="menu" anchor="bottom right" self="top right">'
    + ''.join(
        f'<div class="mi{" c-bad" if act == "delete" else ""}" role="menuitem" tabindex="0" v-close-popup '
        f"@click=\"() => $parent.$emit('act', {{id: props.row.id, act: '{act}'}})\" "
        f"@keydown.enter=\"() => $parent.$emit('act', {{id: props.row.id, act: '{act}'}})\">{_svg(icon)}{label}</div>"
        for act, label, icon in ACTIONS
    )
    + '</q-menu></button></q-td>'
)


class TaskTable:
    """Rows are dictionaries with ``id title draft problems checker certificate topics version hash updated moment``."""

    def __init__(
        self,
        *,
        sort: str,
        descending: bool,
        on_sort: Callable[[str, bool], Any],
        on_select: Callable[[Sequence[str]], Any],
        on_action: Callable[[str, str], Any],
    ) -> None:
        self._on_sort, self._on_select, self._on_action = on_sort, on_select, on_action
        self._table: ui.table = ui.table(
            columns=[dict(column) for column in COLUMNS],
            rows=[],
            row_key='id',
            selection='multiple',
            pagination={'sortBy': sort, 'descending': descending, 'page': 1, 'rowsPerPage': 0, 'rowsNumber': 0},
            on_select=lambda _: self._on_select([row['id'] for row in self._table.selected]),
        )
        self._table.props('flat dense hide-pagination hide-bottom binary-state-sort').classes('tasks w-full')
        self._table.props['aria-label'] = 'Tasks'
        for slot, template in (
            ('header-cell', _HEADER),
            ('body-cell-title', _TITLE),
            ('body-cell-checker', _CHECKER),
            ('body-cell-certificate', _CERTIFICATE),
            ('body-cell-topics', _TOPICS),
            ('body-cell-version', _VERSION),
            ('body-cell-updated', _UPDATED),
            ('body-cell-menu', _MENU),
        ):
            self._table.add_slot(slot, template)
        self._table.on('request', self._requested)
        self._table.on('act', lambda event: self._on_action(event.args['act'], event.args['id']))
        self._table.on(
            'rowClick',
            lambda event: self._on_action('open', event.args),
            js_handler="(event, row) => { if (!event.target.closest('a, button, .q-checkbox, .q-menu')) emit(row.id) }",
        )

    def show(self, rows: Sequence[dict[str, Any]]) -> None:
        """Show a page of rows; the selection survives by id."""
        for row in rows:
            row['icon'] = CHECKER_ICONS.get(row['checker'], 'circle-help')
            row['seal'] = dict(zip(('word', 'kind', 'icon'), SEALS[row['certificate']], strict=True))
        self._table.rows = list(rows)

    def title_of(self, id: str) -> str:
        """The title of a row on this page, else its id."""
        return next((str(row['title']) for row in self._table.rows if row['id'] == id), id)

    def clear_selection(self) -> None:
        """Select nothing."""
        self._table.selected = []
        self._on_select([])

    def _requested(self, event: events.GenericEventArguments) -> Any:
        wanted = event.args['pagination']
        self._table.pagination = {**wanted, 'rowsPerPage': 0}
        return self._on_sort(wanted.get('sortBy') or 'updated', bool(wanted.get('descending')))
