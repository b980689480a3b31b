"""Which series of a run stand in which chart, and what the page has to read for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from studio.runs.meters import CPU, GPU, GPU_MEMORY, MEMORY
from studio.runs.series import Column
from studio.runs.views import BarColumn, Bars
from studio.ui.components.charts import Axis, ChartSpec, Series

REWARD: Final = 'rewards/TfcodeEnv/mean'
SPREAD: Final = 'rewards/TfcodeEnv/std'
HELD_OUT: Final = 'held_out/success'
GRADE: Final = 'seconds/grade'
"""Made here: seconds of tools and check together."""
SHARE: Final = Axis(tickformat='.0%', top=0.1)

SPECS: Final = (
    ChartSpec(
        title='Reward',
        series=(
            Series(key=f'{REWARD}|{SPREAD}', name='± std', kind='band'),
            Series(key=REWARD, name='mean'),
            Series(key=HELD_OUT, name='held-out', color='c3', kind='points'),
        ),
        y=Axis(range=(0, 1), dtick=0.25, tickformat='~g'),
        marks=True,
        leads=True,
        change='good',
    ),
    ChartSpec(
        title='frac_reward_zero_std',
        series=(Series(key='frac_reward_zero_std', name='groups all the same', format='share'),),
        y=SHARE,
    ),
    ChartSpec(title='Entropy', series=(Series(key='entropy', name='entropy'),), y=Axis(top=0.1), change='plain'),
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
        series=(Series(key='checker/errors', name='not scored', color='c2', kind='bar', format='number', sums=True),),
        y=Axis(tickformat='d', top=4),
        headline='sum',
    ),
    ChartSpec(
        title='Time per step',
        series=(
            Series(key='seconds/generate', name='generate', color='c1', kind='bar', format='seconds'),
            Series(key=GRADE, name='grade', color='c2', kind='bar', format='seconds'),
            Series(key='seconds/update', name='train', color='c3', kind='bar', format='seconds'),
        ),
        y=Axis(top=0.5),
        headline='stack',
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
    ChartSpec(title='Loss', series=(Series(key='loss', name='loss', format='tiny'),), y=Axis(signed=True)),
    ChartSpec(title='grad_norm', series=(Series(key='grad_norm', name='norm', format='tiny'),)),
    ChartSpec(
        title='Learning rate',
        series=(Series(key='learning_rate', name='rate', format='tiny'),),
        y=Axis(tickformat='~g'),
    ),
    ChartSpec(
        title='Cut short',
        series=(
            Series(key='episodes/budget_share', name='budget', format='share'),
            Series(key='episodes/answer_did_not_fit_share', name='answer', color='c2', dash='dash', format='share'),
        ),
        y=SHARE,
    ),
    ChartSpec(title='Tokens per second', series=(Series(key='tokens_per_second', name='generated', format='number'),)),
    ChartSpec(
        title='Longest completion', series=(Series(key='completions/max_length', name='tokens', format='number'),)
    ),
    ChartSpec(
        title='Machine',
        series=(
            Series(key=CPU, name='CPU', format='share'),
            Series(key=MEMORY, name='memory', color='c2', dash='dash', format='share'),
            Series(key=GPU, name='GPU', color='c3', format='share'),
            Series(key=GPU_MEMORY, name='GPU memory', color='c4', dash='dash', format='share'),
        ),
        y=Axis(range=(0, 1), tickformat='.0%', dtick=0.25),
    ),
)
PHASES: Final = ('seconds/generate', 'seconds/tools', 'seconds/check', 'seconds/update')
TOTALS: Final = ('checker/errors',)
NAMES: Final = tuple(
    name for name in dict.fromkeys((*(name for spec in (*SPECS, *MORE) for name in spec.metrics), *PHASES))
    if name != GRADE
)  # fmt: skip
"""The metrics the charts show."""
LINES: Final = tuple(name for name in NAMES if name not in (*PHASES, *TOTALS))
"""Those drawn as lines; the others are bars."""
UNSEEN: Final = ('rollouts', 'checker/error_share')
"""Series that other charts say already."""
MAX_OTHERS: Final = 40


def others(names: tuple[str, ...]) -> tuple[ChartSpec, ...]:
    """A chart for each series a run wrote that has no place of its own."""
    unknown = [name for name in names if name not in (*NAMES, *UNSEEN)]
    return tuple(
        ChartSpec(title=name, series=(Series(key=name, name='value', format='tiny'),), y=Axis(signed=True))
        for name in unknown[:MAX_OTHERS]
    )


def with_grade(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Add the seconds of tools and check as one series, at the steps where either is known."""
    known = [dict(zip(*columns[name], strict=True)) for name in ('seconds/tools', 'seconds/check') if name in columns]
    if not known:
        return dict(columns)
    steps = sorted({step for values in known for step in values})
    return {**columns, GRADE: (steps, [sum(values.get(step, 0.0) for values in known) for step in steps])}


def bars_with_grade(bars: Bars) -> Bars:
    """The same for bars."""
    parts = [bars.columns[name] for name in ('seconds/tools', 'seconds/check') if name in bars.columns]
    summed = with_grade({
        name: (column.numbers, column.values) for name, column in bars.columns.items() if name.startswith('seconds/')
    })  # fmt: skip
    if not parts:
        return bars
    numbers, values = summed[GRADE]
    counts = {number: count for part in parts for number, count in zip(part.numbers, part.counts, strict=True)}
    grade = BarColumn(list(numbers), list(values), [counts[number] for number in numbers])
    return Bars(bars.width, {**bars.columns, GRADE: grade})
