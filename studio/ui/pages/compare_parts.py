"""The parts of the page that compares runs: the runs with their lines, their configuration, what an empty one says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nicegui import ui

from studio.runs import health
from studio.runs.comparison import Difference
from studio.runs.results import EvaluationView
from studio.runs.views import RunView
from studio.ui.components.elements import Button, Text, spacer
from studio.ui.components.panel import panel
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.components.wording import duration
from studio.ui.pages.compare_series import LETTERS, STROKES
from studio.ui.pages.run_parts import StateChip
from trainer.models import MODELS

TITLES: Final = {model.id: model.title for model in MODELS}
NOTHING: Final = '–'  # noqa: RUF001


def sample(number: int) -> None:
    """Draw the line of a run as the charts do, with its letter."""
    with ui.element('span').classes('lsample'):
        line = ui.element('svg').props('aria-hidden=true')
        line.props['viewBox'] = '0 0 26 8'
        line.props['innerHTML'] = (
            f'<path d="M0,4H26" stroke="var(--c{number + 1})" stroke-width="2.5" '
            f'stroke-dasharray="{STROKES[number]}" fill="none"/>'
        )
        Text(LETTERS[number], 'b').style(f'color: var(--c{number + 1})')


class RunsTable:
    """The runs that are compared: the legend of every chart. ``on_remove`` gets the number of a run."""

    def __init__(
        self,
        views: Sequence[RunView],
        evaluations: Sequence[tuple[EvaluationView | None, EvaluationView | None]],
        *,
        on_remove: Callable[[int], Any],
    ) -> None:
        self._rows: list[tuple[StateChip, Text, Text, Text]] = []
        with ui.element('table').classes('tbl dense cmpruns'):
            _head(
                ('Line', ''), ('Run', ''), ('State', ''), ('Model', 'hide-s'), ('Step', 'r'), ('Last reward', 'r'),
                ('Held-out', 'r'), ('Duration', 'r hide-s'), ('', ''),
            )  # fmt: skip
            with ui.element('tbody'):
                for number, view in enumerate(views):
                    self._row(number, view, evaluations[number], on_remove)
        self.show(views)

    def show(self, views: Sequence[RunView]) -> None:
        """Bring the rows up to date."""
        for (chip, step, reward, took), view in zip(self._rows, views, strict=True):
            chip.show(view)
            step.set_text(f'{view.step:,} of {view.total:,}' if view.total else NOTHING)
            now = view.latest.get(health.REWARD)
            reward.set_text(NOTHING if now is None else f'{now:.2f}')
            took.set_text(duration(view.elapsed_s))

    def _row(
        self,
        number: int,
        view: RunView,
        evaluations: tuple[EvaluationView | None, EvaluationView | None],
        on_remove: Callable[[int], Any],
    ) -> None:
        with ui.element('tr'):
            with ui.element('td'):
                sample(number)
            with ui.element('td').classes('grow'), ui.element('a').classes('w5 ell').props(f'href="/runs/{view.id}"'):
                Text(view.name).props['title'] = view.name
            with ui.element('td'):
                chip = StateChip()
            with ui.element('td').classes('t2 hide-s'):
                Text(TITLES.get(view.model, view.model), classes='ell').props['title'] = view.model
            step, reward = _cell('r num'), _cell('r num w6')
            with ui.element('td').classes('r num'):
                _held_out(*evaluations)
            took = _cell('r num t2 hide-s')
            with ui.element('td').classes('r'):
                remove = Button(icon='x', kind='gho icn sm', label=f'Leave {view.name} out')
                remove.on('click', lambda: on_remove(number), args=[])
        self._rows.append((chip, step, reward, took))


class ConfigurationTable:
    """What the runs were made with. ``only_differences`` is told on as it is switched."""

    def __init__(self, rows: Sequence[Difference], *, only: bool, on_switch: Callable[[bool], Any]) -> None:
        self._rows, self._on_switch = rows, on_switch
        differing = sum(row.differs for row in rows)
        with panel('Configuration', icon='sliders-horizontal', classes='cmpconf') as head:
            with head:
                spacer()
                choices = [Choice('differ', 'Differences', count=differing), Choice('all', 'All', count=len(rows))]
                Segmented(choices, 'differ' if only else 'all', label='Settings shown', on_change=self._switch)
            self._inside = ui.element('div').classes('tblbox')
        self._draw(only)

    def _switch(self, picked: str) -> Any:
        self._draw(picked == 'differ')
        return self._on_switch(picked == 'differ')

    def _draw(self, only: bool) -> None:
        self._inside.clear()
        shown = [row for row in self._rows if row.differs or not only]
        with self._inside:
            if not shown:
                Text('Nothing differs: the same model, settings and tasks.', 'div', 't3 pad')
                return
            with ui.element('table').classes('tbl dense'):
                letters = [(LETTERS[number], '') for number in range(len(shown[0].values))]
                _head(('Setting', ''), *letters, ('Default', 'hide-s'))
                with ui.element('tbody'):
                    for row in shown:
                        _setting(row)


def _setting(row: Difference) -> None:
    usual = max(row.values, key=row.values.count)
    with ui.element('tr'):
        with ui.element('td'):
            Text(row.key, classes='mono')
        for value in row.values:
            with ui.element('td').classes('val'):
                other = row.differs and value is not None and (value != usual or row.values.count(usual) == 1)
                shown = 'not recorded' if value is None else value
                text = Text(shown, classes=f'ell {"t3" if value is None else "mono w6" if other else "mono t2"}')
                text.props['title'] = shown
        with ui.element('td').classes('t3 mono hide-s'):
            Text(row.default, classes='ell')


def _held_out(before: EvaluationView | None, after: EvaluationView | None) -> None:
    if before is None and after is None:
        Text(NOTHING, classes='t3')
        return
    if before is not None and before.mean is not None:
        Text(f'{before.mean:.2f} → ' if after else f'{before.mean:.2f} before', classes='t3')
    if after is not None and after.mean is not None:
        text = Text(f'{after.mean:.2f}', 'b', 'w6')
        if after.low is not None and after.high is not None:
            text.props['title'] = f'{after.solved} of {after.attempts} · 95 %: {after.low:.2f} to {after.high:.2f}'


def _head(*columns: tuple[str, str]) -> None:
    """Names and classes of columns; the letter of a run is written in the colour of its line."""
    with ui.element('thead'), ui.element('tr'):
        for name, classes in columns:
            with ui.element('th').classes(classes):
                text = Text(name or 'Actions', classes='' if name else 'sr')
                if len(name) == 1:
                    text.classes('w6').style(f'color: var(--c{LETTERS.index(name) + 1})')


def _cell(classes: str) -> Text:
    with ui.element('td').classes(classes):
        return Text()
