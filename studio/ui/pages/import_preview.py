"""The preview of an import: what each row would become, what to do with conflicts, and storing it with progress."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, get_args

from nicegui import run, ui

from studio.documents.transfer import Choice as Resolution
from studio.documents.transfer import Plan, PlanRow, Receipt, RowStatus, Transfer
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Icon, Text, chip, note, spacer
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.components.wording import plural

_SHOWN: Final = 200
_NOTES: Final = 4
_STATES: Final[dict[RowStatus, tuple[str, str, str]]] = {
    'new': ('ok', 'circle-check', 'New'),
    'conflict': ('warn', 'triangle-alert', 'Conflict'),
    'same': ('', 'equal', 'Here already'),
    'refused': ('bad', 'circle-x', 'Refused'),
}
_RESOLUTIONS: Final[dict[Resolution, str]] = {'keep': 'Keep mine', 'version': 'New version', 'copy': 'As a copy'}

OnStored = Callable[[Receipt], Awaitable[Any]]


class ImportPreview:
    """The dialog over one plan; ``on_stored`` gets the receipt."""

    def __init__(self, transfer: Transfer, plan: Plan, on_stored: OnStored) -> None:
        self._transfer, self._plan, self._on_stored = transfer, plan, on_stored
        self._default: Resolution = 'keep'
        self._choices: dict[int, Resolution] = {}
        self._filter = ''
        self._cancel = threading.Event()
        self._progress = (0, 0)
        with opened_dialog(self._title(), text=self._lead(), size='wide import') as dialog:
            self._dialog = dialog
            self._draw_filter()
            self._report = ui.element('div').classes('report')
            self._report.props('tabindex=0 role=region aria-label="Rows of the import"')
            self._draw_rows()
            if plan.skipped:
                names = ', '.join(plan.skipped[:4]) + (' …' if len(plan.skipped) > 4 else '')
                note(f'{plural(len(plan.skipped), "file")} in no task, left out: {names}').classes('below')
            with ui.element('div').classes('act'):
                spacer()
                self._close = Button('Cancel', on_click=self._stop)
                self._confirm = Button('Import', icon='upload', kind='pri', on_click=self._store)
        dialog.on('hide', self._cancel.set)
        self._show_count()

    def _title(self) -> str:
        new, conflicts = self._plan.count('new'), self._plan.count('conflict')
        if new:
            return f'Import {plural(new, "task")}?'
        if conflicts:
            return f'{plural(conflicts, "task")} {"differs" if conflicts == 1 else "differ"} from yours'
        return 'Nothing to import'

    def _lead(self) -> str:
        published = sum(row.found.status == 'published' and row.status == 'new' for row in self._plan.rows)
        state = f'{published} of them are published, as the file says.' if published else 'Imported tasks are drafts.'
        formats = f'Read as {" and ".join(self._plan.formats)}. ' if self._plan.formats else ''
        return f'{formats}Nothing is stored until you confirm. {state}'

    # -------------------------------------------------------------------------------------------------- rows

    def _draw_filter(self) -> None:
        counts = {state: self._plan.count(state) for state in _STATES}
        with ui.element('div').classes('import-bar'):
            choices = [Choice('', 'All', count=len(self._plan.rows))]
            choices += [Choice(state, _STATES[state][2], count=count) for state, count in counts.items() if count]
            Segmented(choices, '', label='Show', on_change=self._show_only)
            spacer()
            if counts['conflict']:
                Text(f'{plural(counts["conflict"], "conflict")}:', classes='t2')
                picks = [Choice(value, word) for value, word in _RESOLUTIONS.items()]
                Segmented(picks, 'keep', label='All conflicts', on_change=self._resolve_all)

    def _draw_rows(self) -> None:
        # Refused rows and conflicts ask for a decision, so they come first.
        order: dict[RowStatus, int] = {'refused': 0, 'conflict': 1, 'new': 2, 'same': 3}
        rows = [(number, row) for number, row in enumerate(self._plan.rows) if self._filter in ('', row.status)]
        rows.sort(key=lambda pair: order[pair[1].status])
        self._report.clear()
        with self._report:
            with ui.element('table').classes('tbl dense').props('aria-label="Rows"'):
                with ui.element('thead'), ui.element('tr'):
                    for head in ('Where', 'Result', 'Task', 'Reason'):
                        Text(head, 'th')
                with ui.element('tbody'):
                    for number, row in rows[:_SHOWN]:
                        self._draw_row(number, row)
            if len(rows) > _SHOWN:
                note(f'{len(rows) - _SHOWN} more rows are not shown here; all of them count.')

    def _draw_row(self, number: int, row: PlanRow) -> None:
        kind, icon, word = _STATES[row.status]
        several = len({other.found.source for other in self._plan.rows}) > 1
        where = f'{row.found.source}, {row.found.where}' if several and row.found.source else row.found.where
        where = row.found.where if row.found.where == row.found.source else where
        with ui.element('tr'):
            Text(where, 'td', 'where num t3').props['title'] = where
            with ui.element('td'):
                chip(word, kind, icon=icon)
            Text(row.title, 'td', 'ell title').props['title'] = row.title
            with ui.element('td').classes('reason'):
                for line in _reasons(row):
                    Text(line, 'div')
                self._draw_notes(row)
                if row.status == 'conflict':
                    self._draw_choice(number, row)

    def _draw_notes(self, row: PlanRow) -> None:
        warnings = row.found.warnings
        for warning in warnings[:_NOTES]:
            with ui.element('div').classes('warned'):
                Icon('triangle-alert', 'ic-xs', label='Not carried over as it is')
                Text(warning)
        if len(warnings) > _NOTES:
            with ui.element('details').classes('warned-more'):
                Text(f'{len(warnings) - _NOTES} more', 'summary')
                for warning in warnings[_NOTES:]:
                    Text(warning, 'div')

    def _draw_choice(self, number: int, row: PlanRow) -> None:
        chosen = self._choices.get(number, self._default)
        picks = [Choice(value, word) for value, word in _RESOLUTIONS.items()]
        label = f'What to do with {row.title}'
        Segmented(picks, chosen, label=label, on_change=lambda value: self._resolve(number, value), classes='small')

    # ----------------------------------------------------------------------------------------------- choices

    def _show_only(self, state: str) -> None:
        self._filter = state
        self._draw_rows()

    def _resolve_all(self, value: str) -> None:
        self._default = _resolution(value)
        self._choices.clear()
        self._draw_rows()
        self._show_count()

    def _resolve(self, number: int, value: str) -> None:
        self._choices[number] = _resolution(value)
        self._show_count()

    def _show_count(self) -> None:
        conflicts = [number for number, row in enumerate(self._plan.rows) if row.status == 'conflict']
        taken = sum(self._choices.get(number, self._default) != 'keep' for number in conflicts)
        count = self._plan.count('new') + taken
        self._confirm.set_text(f'Import {plural(count, "task")}' if count else 'Import')
        self._confirm.set_visibility(bool(count or conflicts))
        if count:
            self._confirm.enable()
        else:
            self._confirm.disable('Every conflict is kept as it is: choose New version or As a copy')
            self._close.set_text('Cancel' if conflicts else 'Close')

    # ------------------------------------------------------------------------------------------------- store

    def _stop(self) -> None:
        """Close the dialog, or end the storing that goes on: what was stored until then can be undone."""
        if self._progress[1]:
            self._cancel.set()
            self._close.disable('It ends after the rows that are being stored')
        else:
            self._dialog.close()

    async def _store(self) -> None:
        if self._progress[1]:
            return
        self._progress = (0, len(self._plan.rows))
        self._confirm.props('aria-busy=true')
        self._dialog.props('persistent')
        with self._dialog:
            timer = ui.timer(0.2, self._show_progress)
        try:
            receipt = await run.io_bound(
                self._transfer.store,
                self._plan,
                self._choices,
                conflicts=self._default,
                on_progress=self._progressed,
                cancel=self._cancel,
            )
        finally:
            timer.deactivate()
            self._progress = (0, 0)
            self._dialog.close()
        if receipt is not None:
            await self._on_stored(receipt)

    def _progressed(self, done: int, total: int) -> None:
        self._progress = (done, total)

    def _show_progress(self) -> None:
        self._confirm.set_text(f'Importing {self._progress[0]}/{self._progress[1]}')


def _reasons(row: PlanRow) -> list[str]:
    if row.errors:
        lines = [f'{error.loc}: {error.msg}' if error.loc else error.msg for error in row.errors[:3]]
        return [*lines, f'and {len(row.errors) - 3} more'] if len(row.errors) > 3 else lines
    return [row.reason] if row.reason else []


def _resolution(value: str) -> Resolution:
    return next(choice for choice in get_args(Resolution) if choice == value)
