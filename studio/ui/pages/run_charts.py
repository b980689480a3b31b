"""The charts of a run on its page: a card with a menu for each, and keeping all of them up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from csv import writer
from io import StringIO
from typing import Any

from nicegui import run as background
from nicegui import ui

from studio.runs.series import Column, Line
from studio.runs.views import Bars
from studio.ui.components.charts import ChartSpec, LiveChart, Series, View, append_all
from studio.ui.components.elements import Button, Text, spacer
from studio.ui.components.panel import panel
from studio.ui.components.wording import plural
from studio.ui.pages.run_series import GRADE, MORE, SPECS, bars_with_grade, with_grade

TABLE_ROWS = 2000

Table = Callable[[Sequence[str]], Mapping[str, Column]]
"""Reads every step of the named series; called off the event loop."""


class Charts:
    """All charts of a run, drawn into the current slot. ``group`` names the run: its charts share range and hover."""

    def __init__(
        self, group: str, *, mode: str, on_view: Callable[[View], Any], table: Table, others: Sequence[ChartSpec] = ()
    ) -> None:
        self._table = table
        self._group, self._mode, self._on_view = group, mode, on_view
        self._charts: list[LiveChart] = []
        with ui.element('div').classes('charts'):
            for number, spec in enumerate(SPECS):
                self._draw(spec, 'hero tall' if number == 0 else 'tall' if number < 3 else '')
        with ui.element('details').classes('morecharts'):
            more = f', and {plural(len(others), "other")}' if others else ''
            Text(f'More series: loss, grad_norm, learning rate, speed, machine{more}', 'summary')
            with ui.element('div').classes('charts'):
                for spec in (*MORE, *others):
                    self._draw(spec, '')

    def load(self, lines: Mapping[str, Line], bars: Bars) -> None:
        """Draw the whole history."""
        bars = bars_with_grade(bars)
        for chart in self._charts:
            chart.load(lines, bars)

    def append(self, columns: Mapping[str, Column]) -> bool:
        """Draw new steps; ``False`` if the history has to be loaded again, thinned."""
        return append_all(self._charts, with_grade(columns))

    def set_view(self, *, mode: str | None = None, smooth: bool | None = None) -> None:
        """Change range or smoothing of all charts."""
        self._charts[0].set_view(mode=mode, smooth=smooth)

    def set_base(self, mean: float | None) -> None:
        """Draw the level the base model reached on the held-out tasks."""
        self._charts[0].set_levels([] if mean is None else [(mean, f'base model {mean:.2f}', 'text-2')])

    def set_checkpoints(self, steps: Sequence[int]) -> None:
        """Mark the steps of checkpoints."""
        self._charts[0].set_marks(steps)

    def _draw(self, spec: ChartSpec, classes: str) -> None:
        with panel(spec.title, classes=f'ch {classes}', flat=True) as head:
            with head:
                if len(spec.series) > 1 and not spec.bars:
                    with ui.element('span').classes('legs'):
                        for series in spec.series:
                            _legend(series)
                spacer()
                Text(classes='num w6').props('data-value')
                if spec.change:
                    Text(classes='dl num t3').props('data-change')
                if spec.headline == 'sum':
                    Text('excluded', classes='dl t3')
                menu = Button(icon='ellipsis', kind='gho icn xs', label=f'Menu of {spec.title}')
            with ui.element('div').classes('fig').props('role=img data-figure') as figure:
                figure.props['aria-label'] = f'{spec.title} by step: no data yet'
                chart = LiveChart(
                    spec, group=self._group, mode=self._mode, on_view=self._on_view if spec.leads else None
                )
            with ui.element('div').classes('none').props('data-none'):
                Text('Not measured yet')
        with menu:
            self._menu(spec, chart)
        self._charts.append(chart)

    def _menu(self, spec: ChartSpec, chart: LiveChart) -> None:
        # The closed menu holds nothing: sixty items that nobody asked for would have to travel with the page.
        with ui.menu().classes('menu').props('auto-close') as menu:
            pass

        def fill() -> None:
            menu.clear()
            with menu:
                ui.menu_item('Show as table', on_click=lambda: self._show_table(spec))
                ui.menu_item('Save as PNG', on_click=lambda: chart.save_png(spec.title.replace('/', '-')))
                ui.menu_item('Save as CSV', on_click=lambda: self._save_csv(spec))
                for series in spec.series if len(spec.series) > 1 else ():
                    ui.menu_item(f'Show or hide {series.name}', on_click=lambda key=series.key: chart.toggle(key))

        menu.on('before-show', fill, args=[])

    async def _read(self, spec: ChartSpec) -> dict[str, Column] | None:
        names = [name for name in spec.metrics if name != GRADE]
        if GRADE in spec.metrics:
            names += ['seconds/tools', 'seconds/check']
        found = await background.io_bound(self._table, names)
        return None if found is None else with_grade(found)

    async def _show_table(self, spec: ChartSpec) -> None:
        columns = await self._read(spec)
        if columns is not None:
            show_table(spec, columns)

    async def _save_csv(self, spec: ChartSpec) -> None:
        columns = await self._read(spec)
        if columns is not None:
            ui.download.content(csv_text(spec, columns), f'{spec.title.replace("/", "-")}.csv')


def table_rows(spec: ChartSpec, columns: Mapping[str, Column]) -> tuple[list[str], list[list[str]]]:
    """Names and rows of a chart's series, a row for every step; what is missing is empty."""
    known = {name: dict(zip(*columns[name], strict=True)) for name in spec.metrics if name in columns}
    steps = sorted({step for values in known.values() for step in values})
    rows = [
        [str(step), *(f'{values[step]:.6g}' if step in values else '' for values in known.values())] for step in steps
    ]
    return ['step', *known], rows


def csv_text(spec: ChartSpec, columns: Mapping[str, Column]) -> bytes:
    """The series as CSV."""
    names, rows = table_rows(spec, columns)
    text = StringIO()
    table = writer(text, lineterminator='\n')
    table.writerow(names)
    table.writerows(rows)
    return text.getvalue().encode()


def show_table(spec: ChartSpec, columns: Mapping[str, Column]) -> None:
    """Show the series as a table, newest step first."""
    names, rows = table_rows(spec, columns)
    with ui.dialog() as dialog, ui.card().classes('dlg mid').props(f'aria-label="{spec.title} as a table"'):
        Text(spec.title, 'h2')
        if len(rows) > TABLE_ROWS:
            Text(f'The newest {TABLE_ROWS:,} of {len(rows):,} steps; all of them are in the CSV.', 'p', 't3 t-small')
        ui.table(
            columns=[{'name': name, 'label': name, 'field': name, 'align': 'right'} for name in names],
            rows=[dict(zip(names, row, strict=True)) for row in reversed(rows[-TABLE_ROWS:])],
            row_key='step',
            pagination=25,
        ).props('flat dense').classes('w-full')
        with ui.element('div').classes('act'):
            Button('Close', on_click=dialog.close)
    dialog.on('hide', dialog.delete)
    dialog.open()


def _legend(series: Series) -> None:
    with ui.element('button').classes('leg').props('type=button aria-pressed=true') as button:
        button.props['data-series'] = series.key
        button.props['title'] = f'Show or hide {series.name}'
        kind = {'band': 'band', 'points': 'dia'}.get(series.kind, '' if series.dash == 'solid' else 'dash')
        ui.element('i').classes(kind).style(f'--k: var(--{series.color})')
        Text(series.name)
