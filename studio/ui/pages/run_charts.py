"""The charts of a run: which series stand where, their latest values, the chart menu, and keeping them up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from csv import writer
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, Final

from nicegui import ui

from studio.run_views import Series as Column
from studio.ui.components.charts import Axis, ChartSpec, LiveChart, Series
from studio.ui.components.elements import Button, Text, spacer
from studio.ui.components.panel import panel
from studio.ui.components.wording import signed

REWARD: Final = 'rewards/TfcodeEnv/mean'
SPREAD: Final = 'rewards/TfcodeEnv/std'
GRADE: Final = 'seconds/grade'
"""Made here: seconds of tools and check together."""
SHARE: Final = Axis(tickformat='.0%', top=0.1)

SPECS: Final = (
    ChartSpec(
        title='Reward',
        series=(
            Series(key=f'{REWARD}|{SPREAD}', name='± std', kind='band'),
            Series(key=REWARD, name='mean'),
        ),
        y=Axis(range=(0, 1), dtick=0.25, tickformat='~g'),
        marks=True,
        leads=True,
    ),
    ChartSpec(
        title='frac_reward_zero_std',
        series=(Series(key='frac_reward_zero_std', name='groups all the same', format='share'),),
        y=SHARE,
    ),
    ChartSpec(title='Entropy', series=(Series(key='entropy', name='entropy'),), y=Axis(top=0.1)),
    ChartSpec(
        title='Length',
        series=(
            Series(key='completions/mean_length', name='tokens', format='number'),
            Series(
                key='completions/clipped_ratio', name='clipped', color='c2', dash='dash', format='share', right=True
            ),
        ),
        right=SHARE,
    ),
    ChartSpec(
        title='Checker errors',
        series=(Series(key='checker/errors', name='not scored', color='c2', kind='bar', format='number'),),
        y=Axis(tickformat='d', top=4),
    ),
    ChartSpec(
        title='Time per step',
        series=(
            Series(key='seconds/generate', name='generate', color='c1', kind='bar', format='seconds'),
            Series(key=GRADE, name='grade', color='c2', kind='bar', format='seconds'),
            Series(key='seconds/update', name='train', color='c3', kind='bar', format='seconds'),
        ),
        y=Axis(top=0.5),
    ),
    ChartSpec(
        title='Tools',
        series=(
            Series(key='tools/call_frequency', name='calls', format='score'),
            Series(key='tools/failure_frequency', name='failed', color='c2', dash='dash', format='share', right=True),
            Series(key='tools/unreadable_frequency', name='broken', color='c4', dash='dot', format='share', right=True),
        ),
        right=SHARE,
    ),
)
MORE: Final = (
    ChartSpec(title='Loss', series=(Series(key='loss', name='loss'),), y=Axis(signed=True)),
    ChartSpec(title='grad_norm', series=(Series(key='grad_norm', name='norm'),)),
    ChartSpec(
        title='Learning rate',
        series=(Series(key='learning_rate', name='rate', format='tiny'),),
        y=Axis(tickformat='~e'),
    ),
    ChartSpec(
        title='Episodes out of budget',
        series=(Series(key='episodes/budget_share', name='out of tool calls', format='share'),),
        y=SHARE,
    ),
)
PHASES: Final = ('seconds/generate', 'seconds/tools', 'seconds/check', 'seconds/update')
NAMES: Final = tuple(
    dict.fromkeys((*(name for spec in (*SPECS, *MORE) for name in spec.metrics), *PHASES, 'tokens_per_second'))
)
"""The metrics the page asks for."""
BARS: Final = ('checker/errors', *PHASES)
"""The metrics drawn as bars: merged into sums and means, so their history is read whole."""

_FORMATS: Final[Mapping[str, Callable[[float], str]]] = {
    'share': lambda value: f'{value:.0%}',
    'score': lambda value: f'{value:.2f}',
    'number': lambda value: f'{value:,.0f}',
    'seconds': lambda value: f'{value:.1f} s' if value < 10 else f'{value:,.0f} s',
    'tiny': lambda value: f'{value:.2g}',
}


@dataclass
class _Slot:
    spec: ChartSpec
    chart: LiveChart
    value: Text
    change: Text
    none: ui.element
    known: dict[str, dict[int, float]] = field(default_factory=dict)


class Charts:
    """All charts of a run, drawn into the current slot. ``group`` names the run: its charts share range and hover."""

    def __init__(
        self,
        group: str,
        *,
        mode: str,
        on_view: Callable[[str, bool], Any],
        table: Callable[[], Mapping[str, Column]],
    ) -> None:
        self._table = table
        self._mode = mode
        self._slots: list[_Slot] = []
        with ui.element('div').classes('charts'):
            for number, spec in enumerate(SPECS):
                self._draw(spec, group, on_view, 'hero tall' if number == 0 else 'tall' if number < 3 else '')
        with ui.element('details').classes('morecharts'):
            Text('More series: loss, grad_norm, learning rate, budget', 'summary')
            with ui.element('div').classes('charts'):
                for spec in MORE:
                    self._draw(spec, group, on_view, '')

    def load(self, columns: Mapping[str, Column]) -> None:
        """Draw the whole history."""
        columns = with_grade(columns)
        for slot in self._slots:
            slot.known.clear()
            slot.chart.load({name: columns[name] for name in slot.spec.metrics if name in columns})
            self._note(slot, columns)

    def append(self, columns: Mapping[str, Column]) -> bool:
        """Draw new steps; ``False`` if the history has to be loaded again, thinned."""
        columns = with_grade(columns)
        fits = True
        for slot in self._slots:
            fits = slot.chart.append(columns) and fits
            self._note(slot, columns)
        return fits

    def set_view(self, *, mode: str | None = None, smooth: bool | None = None) -> None:
        """Change range or smoothing of all charts."""
        self._slots[0].chart.set_view(mode=mode, smooth=smooth)

    def set_base(self, mean: float | None) -> None:
        """Draw the level the base model reached on the held-out tasks."""
        self._slots[0].chart.set_levels([] if mean is None else [(mean, f'base model {mean:.2f}', 'text-2')])

    def set_checkpoints(self, steps: Sequence[int]) -> None:
        """Mark the steps of checkpoints."""
        self._slots[0].chart.set_marks(steps)

    def _draw(self, spec: ChartSpec, group: str, on_view: Callable[[str, bool], Any], classes: str) -> None:
        with panel(spec.title, classes=f'ch {classes}', flat=True) as head:
            with head:
                if len(spec.series) > 1 and not spec.bars:
                    with ui.element('span').classes('legs'):
                        for series in spec.series:
                            _legend(series)
                spacer()
                value, change = Text(classes='num w6'), Text(classes='dl num')
                self._menu(spec, len(self._slots))
            with ui.element('div').classes('fig').props('role=img') as figure:
                figure.props['aria-label'] = f'{spec.title} by step: no data yet'
                chart = LiveChart(spec, group=group, mode=self._mode, on_view=on_view if spec.leads else None)
            none = ui.element('div').classes('none')
            with none:
                Text('Not measured yet')
        slot = _Slot(spec, chart, value, change, none)
        slot.chart.figure = figure
        self._slots.append(slot)

    def _menu(self, spec: ChartSpec, number: int) -> None:
        with (
            Button(icon='ellipsis', kind='gho icn xs', label=f'Menu of {spec.title}'),
            ui.menu().classes('menu').props('auto-close'),
        ):
            for text, action in (
                ('Show as table', lambda: show_table(spec, with_grade(self._table()))),
                ('Save as PNG', lambda: self._slots[number].chart.save_png(spec.title.replace('/', '-'))),
                ('Save as CSV', lambda: ui.download.content(csv_text(spec, with_grade(self._table())), 'series.csv')),
            ):
                ui.menu_item(text, on_click=action)

    def _note(self, slot: _Slot, columns: Mapping[str, Column]) -> None:
        """Bring the header's numbers and the spoken sentence up to date."""
        for name in slot.spec.metrics:
            if name in columns:
                slot.known.setdefault(name, {}).update(zip(*columns[name], strict=True))
        lead = next(series for series in slot.spec.series if series.kind != 'band')
        values = slot.known.get(lead.key)
        slot.none.set_visibility(not values)
        if not values:
            return
        steps = sorted(values)
        shown = _FORMATS[lead.format]
        slot.value.set_text(_headline(slot, lead, steps, shown))
        slot.change.set_text(_change(slot, lead, [values[step] for step in steps]))
        sentence = f'{slot.spec.title}: {shown(values[steps[0]])} at step {steps[0]}, '
        slot.chart.figure.props['aria-label'] = sentence + f'{shown(values[steps[-1]])} at step {steps[-1]}'


def _headline(slot: _Slot, lead: Series, steps: Sequence[int], shown: Callable[[float], str]) -> str:
    if slot.spec.title == 'Checker errors':
        return f'{sum(slot.known[lead.key].values()):,.0f}'
    if slot.spec.title == 'Time per step':
        last = steps[-1]
        return shown(sum(values.get(last, 0.0) for values in slot.known.values()))
    return shown(slot.known[lead.key][steps[-1]])


def _change(slot: _Slot, lead: Series, values: Sequence[float]) -> str:
    if slot.spec.title == 'Checker errors':
        return 'excluded'
    if lead.format != 'score' or slot.spec.title not in ('Reward', 'Entropy') or len(values) < 6:
        return ''
    window = min(10, len(values) // 2)
    change = sum(values[-window:]) / window - sum(values[-2 * window : -window]) / window
    color = 'c-ok' if slot.spec.title == 'Reward' and change > 0 else 't3'
    slot.change.classes(remove='c-ok t3').classes(color)
    return signed(change)


def with_grade(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Add the seconds of tools and check as one series, at the steps where either is known."""
    known = [dict(zip(*columns[name], strict=True)) for name in ('seconds/tools', 'seconds/check') if name in columns]
    if not known:
        return dict(columns)
    steps = sorted({step for values in known for step in values})
    return {**columns, GRADE: (steps, [sum(values.get(step, 0.0) for values in known) for step in steps])}


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
        ui.table(
            columns=[{'name': name, 'label': name, 'field': name, 'align': 'right'} for name in names],
            rows=[dict(zip(names, row, strict=True)) for row in reversed(rows[-2000:])],
            row_key='step',
            pagination=25,
        ).props('flat dense').classes('w-full')
        with ui.element('div').classes('act'):
            Button('Close', on_click=dialog.close)
    dialog.on('hide', dialog.delete)
    dialog.open()


def _legend(series: Series) -> None:
    with ui.element('span').classes('leg'):
        kind = {'band': 'band', 'bar': 'sq'}.get(series.kind, '' if series.dash == 'solid' else 'dash')
        ui.element('i').classes(kind).style(f'--k: var(--{series.color})')
        Text(series.name)
