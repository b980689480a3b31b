"""How runs that are compared are told apart, and which of their series stand in which chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from studio.runs.series import Column, Line
from studio.runs.views import RunView
from studio.ui.components.charts import Axis, ChartSpec, Format, Series
from studio.ui.pages.run_series import MORE, REWARD, SPECS

Dash = Literal['solid', 'dash', 'dot', 'dashdot', 'longdash', 'longdashdot']

DASHES: Final[tuple[Dash, ...]] = ('solid', 'dash', 'dot', 'longdash', 'dashdot', 'longdashdot')
STROKES: Final = ('', '5 3', '2 2.5', '11 4', '8 3 2 3', '11 3 2 3 2 3')
"""The same as SVG writes it."""
LETTERS: Final = 'ABCDEF'

FIRST: Final = (
    REWARD, 'held_out/success', 'frac_reward_zero_std', 'entropy', 'completions/mean_length',
    'completions/clipped_ratio', 'tools/failure_frequency', 'checker/errors', 'loss', 'grad_norm',
    'cold_start/loss', 'cold_start/token_accuracy',
)  # fmt: skip
"""The order in which series are looked for where nothing was chosen."""
SHOWN: Final = 7


class Kind(NamedTuple):
    """How the values of a series are written and what its axis is like."""

    format: Format
    axis: Axis


def chosen(known: Mapping[str, int], wanted: Sequence[str]) -> list[str]:
    """The series to draw: those that were asked for and are there, else the first few of what people look at."""
    asked = [name for name in dict.fromkeys(wanted) if name in known]
    if asked:
        return asked
    usual = [name for name in FIRST if name in known]
    return (usual or sorted(known))[:SHOWN]


def specs(names: Sequence[str], views: Sequence[RunView], known: Mapping[str, int]) -> list[ChartSpec]:
    """A chart for each series, a line in it for each run; the reward goes first."""
    ordered = sorted(names, key=lambda name: name != REWARD)
    return [
        ChartSpec(
            title='Reward' if name == REWARD else name,
            series=tuple(_line(name, number, view) for number, view in enumerate(views)),
            y=_kind(name).axis,
            leads=place == 0,
            overlay=True,
        )
        for place, name in enumerate(ordered)
    ]


def keyed_lines(lines: Sequence[Mapping[str, Line]]) -> dict[str, Line]:
    """The series of all runs under the keys of the charts."""
    return {key(name, number): line for number, run in enumerate(lines) for name, line in run.items()}


def keyed_columns(columns: Sequence[Mapping[str, Column]]) -> dict[str, Column]:
    """The same for new steps."""
    return {key(name, number): column for number, run in enumerate(columns) for name, column in run.items()}


def key(name: str, number: int) -> str:
    """The key of a run's line in the chart of a series; a bar would part it in two."""
    return f'{number}:{name.replace("|", "¦")}'


def _line(name: str, number: int, view: RunView) -> Series:
    letter = LETTERS[number]
    return Series(
        key=key(name, number),
        name=f'{letter} {view.name}'[:40],
        color=f'c{number + 1}',
        dash=DASHES[number],
        format=_kind(name).format,
        label=letter,
    )


def _kind(name: str) -> Kind:
    """As the page of a run shows the series, else as a plain number."""
    for spec in (*SPECS, *MORE):
        for series in spec.series:
            if series.key == name:
                axis = spec.right if series.right and spec.right else spec.y
                return Kind(series.format, axis)
    if name.startswith('seconds/'):
        return Kind('seconds', Axis(top=0.5))
    return Kind('tiny', Axis(signed=True))
