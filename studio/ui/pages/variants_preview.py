"""Every variant before it is made: its title, its values, what is wrong with it, and the whole task on a click."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Icon, Text, chip, spacer
from studio.ui.components.wording import plural
from studio.ui.pages.task_parts import Part, show_parts, show_task_parts
from studio.variants.service import Preview, Variant

PER_PAGE: Final = 25


class VariantsPreview:
    """Draws the rows, a page at a time; ``show`` takes a new preview."""

    def __init__(self) -> None:
        self._preview = Preview()
        self._page = 0
        self._only_bad = False
        with ui.element('section').classes('card').props('aria-label=Preview') as self.box:
            with ui.element('div').classes('hd'):
                Icon('eye', 'lead')
                Text('Preview', 'h2')
                self._count = ui.element('span').classes('hs hs-1').props('role=status')
                spacer()
                self._bad = Button('Only problems', kind='gho sm', on_click=self._toggle)
            self._body = ui.element('div').classes('tbl-wrap')
            with ui.element('div').classes('pager hs') as self._pager:
                self._place = Text(classes='t3 t-small num')
                spacer()
                self._before = Button(icon='chevron-left', kind='gho icn sm', label='Previous page')
                self._before.on('click', lambda: self._turn(-1), args=[])
                self._after = Button(icon='chevron-right', kind='gho icn sm', label='Next page')
                self._after.on('click', lambda: self._turn(1), args=[])
        self._draw()

    def show(self, preview: Preview) -> None:
        """Show other rows."""
        self._preview, self._page = preview, 0
        if not any(not variant.ok for variant in preview.variants):
            self._only_bad = False
        self._draw()

    def _toggle(self) -> None:
        self._only_bad, self._page = not self._only_bad, 0
        self._draw()

    def _turn(self, by: int) -> None:
        self._page += by
        self._draw()

    def _draw(self) -> None:
        all_rows = self._preview.variants
        bad = [variant for variant in all_rows if not variant.ok]
        self._count.clear()
        with self._count:
            if self._preview.problems:
                chip('Solve what is marked first', 'warn', icon='triangle-alert')
            elif all_rows:
                chip(f'{len(all_rows) - len(bad)} ready', 'ok', icon='circle-check')
            if bad:
                chip(plural(len(bad), 'problem'), 'bad', icon='circle-x')
        self._bad.set_visibility(bool(bad))
        self._bad.set_text('All rows' if self._only_bad else 'Only problems')
        rows = bad if self._only_bad else list(all_rows)
        first = self._page * PER_PAGE
        self._pager.set_visibility(len(rows) > PER_PAGE)
        self._place.set_text(f'{first + 1} to {min(first + PER_PAGE, len(rows))} of {len(rows):,}')
        self._before.enable() if self._page else self._before.disable('This is the first page')
        last = first + PER_PAGE >= len(rows)
        self._after.disable('This is the last page') if last else self._after.enable()
        self._body.clear()
        with self._body:
            self._draw_rows(rows[first : first + PER_PAGE])

    def _draw_rows(self, rows: list[Variant]) -> None:
        if not rows:
            with ui.element('div').classes('nothing empty'):
                Icon('layers', 'ic-l t3')
                Text('Give values to the placeholders. Every variant is shown here before anything is made.')
            return
        with ui.element('ul').classes('variants').props('role=list aria-label=Variants'):
            for variant in rows:
                with ui.element('li'):
                    self._draw_row(variant)

    def _draw_row(self, variant: Variant) -> None:
        with ui.element('button').props('type=button') as button:
            Text(str(variant.number), classes='n num t3')
            Icon('circle-check' if variant.ok else 'circle-x', 'ic-s ' + ('c-ok' if variant.ok else 'c-bad'))
            with ui.element('span').classes('what'):
                Text(variant.title or f'Line {variant.line}', classes='ell w5')
                if variant.ok:
                    values = ', '.join(f'{name} = {value}' for name, value in variant.values.items())
                    Text(' '.join(values.split()), classes='ell t3 t-micro mono')
                else:
                    Text(_problem(variant), classes='c-bad t-micro why')
            Icon('chevron-right', 'ic-s t3')
        button.props['aria-label'] = f'Variant {variant.number}: {variant.title}' + (
            '' if variant.ok else f', {_problem(variant)}'
        )
        button.on('click', lambda: show_variant(variant), args=[])


def show_variant(variant: Variant) -> None:
    """Open the whole task that a row gives, or all that is wrong with it."""
    with opened_dialog(variant.title or f'Line {variant.line}', size='wide') as dialog:
        if variant.problems:
            with ui.element('ul').classes('problems-list'):
                for problem in variant.problems:
                    with ui.element('li'):
                        Text(problem.loc, classes='mono')
                        Text(problem.msg)
        if variant.task is not None:
            show_task_parts(variant.task)
        elif variant.values:
            show_parts([Part('braces', name, value) for name, value in variant.values.items()], label='Values')
        with ui.element('div').classes('act'):
            Button('Close', on_click=dialog.close).props('autofocus')


def _problem(variant: Variant) -> str:
    first = variant.problems[0]
    more = f' (and {len(variant.problems) - 1} more)' if len(variant.problems) > 1 else ''
    return f'{first.loc}: {first.msg}{more}' if first.loc != 'task_spec' else f'{first.msg}{more}'
