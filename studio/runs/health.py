"""Run health: what the logged series say about a run, in words, with the setting that would change it.

A pure function over the series of a run. It warns where nothing can be learned (every reward of a group the same) and
stays quiet where a healthy run only looks odd (a loss near 0). A series that is missing says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final, Literal

from trainer.validation import Document

Series = tuple[Sequence[int], Sequence[float]]
"""Steps and values of one metric, as ``Runs.metrics`` returns them."""

Level = Literal['ok', 'info', 'warn']

WINDOW: Final = 5
"""Steps that are looked at together: one odd step is no condition."""

REWARD: Final = 'rewards/TfcodeEnv/mean'
ZERO_STD: Final = 'frac_reward_zero_std'
ENTROPY: Final = 'entropy'
LENGTH: Final = 'completions/mean_length'
CLIPPED: Final = 'completions/clipped_ratio'
LOSS: Final = 'loss'
CALLS: Final = 'tools/call_frequency'
UNREADABLE: Final = 'tools/unreadable_frequency'
BUDGET: Final = 'episodes/budget_share'
ERROR_SHARE: Final = 'checker/error_share'

WATCHED: Final = (REWARD, ZERO_STD, ENTROPY, LENGTH, CLIPPED, LOSS, CALLS, UNREADABLE, BUDGET, ERROR_SHARE)
"""The metrics that ``conditions`` reads."""


class Condition(Document):
    """One thing to know about a run: a short title, what it means and what to do, and the setting's name if any."""

    key: str
    level: Level
    title: str
    text: str
    setting: str = ''


def conditions(
    series: Mapping[str, Series],
    *,
    max_completion_length: int = 1024,
    entropy_coef: float = 0.05,
    max_error_share: float = 0.2,
) -> tuple[Condition, ...]:
    """What the series mean, the most pressing first. The keywords are the run's own settings, to name them in words."""
    read = _Reader(series)
    found = [
        _signal(read, max_completion_length),
        _errors(read, max_error_share),
        _no_tools(read),
        _unreadable(read),
        _clipping(read, max_completion_length),
        _budget(read),
        _entropy(read, entropy_coef),
        _trend(read),
        _loss(read),
    ]
    order = {'warn': 0, 'ok': 1, 'info': 2}
    return tuple(sorted((item for item in found if item), key=lambda item: order[item.level]))


class _Reader:
    """Means over windows of a series; ``None`` where there are too few points to say anything."""

    def __init__(self, series: Mapping[str, Series]) -> None:
        self._values = {
            name: [value for value in values if math.isfinite(value)] for name, (_, values) in series.items()
        }

    def values(self, name: str) -> list[float]:
        return self._values.get(name, [])

    def recent(self, name: str, window: int = WINDOW) -> float | None:
        values = self.values(name)
        return fmean(values[-window:]) if len(values) >= WINDOW else None

    def first(self, name: str) -> float | None:
        values = self.values(name)
        return fmean(values[:WINDOW]) if len(values) >= 2 * WINDOW else None

    def start(self, name: str) -> float | None:
        """The first steps, few enough to be before a fast run has learned."""
        values = self.values(name)
        return fmean(values[: max(1, WINDOW // 2)]) if len(values) >= WINDOW else None

    def change(self, name: str) -> tuple[float, int] | None:
        """Mean of the newest window less the mean of the one before, and the window's length."""
        values = self.values(name)
        window = min(20, len(values) // 2)
        if window < 2:
            return None
        return fmean(values[-window:]) - fmean(values[-2 * window : -window]), window


def _signal(read: _Reader, max_length: int) -> Condition | None:
    """Groups whose rewards are all the same teach nothing, whatever the spread over the whole batch.

    Where they are the same because everything succeeds that once failed, that is no alarm but the goal.
    """
    share = read.recent(ZERO_STD)
    if share is None or share < 0.6:
        return None
    reward, start = read.recent(REWARD), read.start(REWARD)
    if reward is not None and start is not None and reward >= 0.85 and reward - start >= 0.15:
        return Condition(
            key='signal',
            level='ok',
            title='The tasks are learned',
            text=f'Success rose from {start:.0%} to {reward:.0%}, so few groups carry a gradient any more. '
            'Go on with harder tasks',
            setting='tasks',
        )
    if share < 0.9 and reward is not None and reward >= 0.85:
        return Condition(
            key='signal',
            level='info',
            title='Most attempts succeed',
            text=f'In {share:.0%} of groups all attempts earn the same: add harder tasks',
            setting='tasks',
        )
    if share < 0.9:
        return Condition(
            key='signal',
            level='warn',
            title='Few groups carry a gradient',
            text=f'In {share:.0%} of groups all attempts earn the same. Choose tasks the model solves sometimes, '
            'or raise numGenerations',
            setting='numGenerations',
        )
    return _no_signal(reward, read.recent(CLIPPED), max_length)


def _no_signal(reward: float | None, clipped: float | None, max_length: int) -> Condition:
    if clipped is not None and clipped >= 0.9:
        return Condition(
            key='signal',
            level='warn',
            title=f'Every answer hit the {max_length}-token limit',
            text='No attempt comes to its end, so none earns more than another. Raise maxCompletionLength',
            setting='maxCompletionLength',
        )
    if reward is not None and reward >= 0.95:
        return Condition(
            key='signal',
            level='warn',
            title='All attempts already succeed',
            text='No gradient is left: make the tasks harder, or choose others',
            setting='tasks',
        )
    if reward is not None and reward <= 0.05:
        return Condition(
            key='signal',
            level='warn',
            title='No attempt succeeds',
            text='All rewards are 0, so nothing is learned: choose easier tasks, or a model that calls tools better',
            setting='tasks',
        )
    return Condition(
        key='signal',
        level='warn',
        title='Rewards are the same within every group',
        text='Tasks differ but attempts do not, so nothing is learned: choose tasks the model solves sometimes, '
        'or raise numGenerations',
        setting='numGenerations',
    )


def _errors(read: _Reader, limit: float) -> Condition | None:
    share = read.recent(ERROR_SHARE)
    if share is None or share < 0.05:
        return None
    return Condition(
        key='errors',
        level='warn',
        title=f'{share:.0%} checker errors',
        text=f'These attempts are not scored. The run stops above {limit:.0%} (maxErrorShare): '
        'open one in the heatmap and mend its checker',
        setting='maxErrorShare',
    )


def _no_tools(read: _Reader) -> Condition | None:
    calls = read.recent(CALLS)
    if calls is None or calls > 0.05:
        return None
    return Condition(
        key='calls',
        level='warn',
        title='The model calls no tools',
        text='Nothing in the workspace changes. Use a model that calls tools, or lower learningRate if it used to',
        setting='learningRate',
    )


def _unreadable(read: _Reader) -> Condition | None:
    share = read.recent(UNREADABLE)
    if share is None or share < 0.2:
        return None
    return Condition(
        key='unreadable',
        level='warn',
        title=f'{share:.0%} tool calls not readable',
        text='Its calls are no JSON. Raise maxCompletionLength if they are cut, else choose another model',
        setting='maxCompletionLength',
    )


def _clipping(read: _Reader, max_length: int) -> Condition | None:
    clipped = read.recent(CLIPPED)
    zero = read.recent(ZERO_STD)
    if clipped is None or clipped < 0.2 or (zero is not None and zero >= 0.9 and clipped >= 0.9):
        return None
    grown = read.first(LENGTH), read.recent(LENGTH)
    if grown[0] and grown[1] and grown[1] > 1.3 * grown[0]:
        return Condition(
            key='clipping',
            level='warn',
            title='Answers grow into the limit',
            text=f'{clipped:.0%} are cut at {max_length} tokens and length is rising, a symptom of reward hacking: '
            'read some rollouts before you raise maxCompletionLength',
            setting='maxCompletionLength',
        )
    return Condition(
        key='clipping',
        level='warn',
        title=f'{clipped:.0%} of answers are cut',
        text=f'They hit {max_length} tokens before they end. Raise maxCompletionLength',
        setting='maxCompletionLength',
    )


def _budget(read: _Reader) -> Condition | None:
    share = read.recent(BUDGET)
    if share is None or share < 0.5:
        return None
    return Condition(
        key='budget',
        level='warn',
        title=f'{share:.0%} of episodes run out of tool calls',
        text='Raise maxToolCallingIterations, and max_steps of the tasks',
        setting='maxToolCallingIterations',
    )


def _entropy(read: _Reader, coefficient: float) -> Condition | None:
    """A policy whose entropy is gone tries one thing only: unless it already succeeds, it is stuck."""
    start, now = read.first(ENTROPY), read.recent(ENTROPY)
    if start is None or now is None or start <= 0 or now > 0.35 * start:
        return None
    reward = read.recent(REWARD)
    if reward is not None and reward >= 0.9:
        return None
    better = min(0.5, round(max(0.05, 2 * coefficient), 3))
    advice = f'Raise entropyCoef to {better:g} in the next run' if better > coefficient else 'Lower learningRate'
    return Condition(
        key='entropy',
        level='warn',
        title='Entropy is collapsing',
        text=f'{now:.2f}, from {start:.2f} at the start: attempts become alike. {advice}',
        setting='entropyCoef' if better > coefficient else 'learningRate',
    )


def _trend(read: _Reader) -> Condition | None:
    """Rising or falling, where the change is larger than the noise from step to step."""
    moved = read.change(REWARD)
    values = read.values(REWARD)
    if moved is None:
        return None
    change, window = moved
    jumps = [abs(after - before) for before, after in pairwise(values[-2 * window :])]
    noise = fmean(jumps) / math.sqrt(window)
    if abs(change) < max(0.02, noise):
        return None
    signed = f'{change:+.2f}'.replace('-', '−')  # noqa: RUF001
    if change > 0:
        return Condition(key='trend', level='ok', title='Reward rising', text=f'{signed} over the last {window} steps')
    return Condition(
        key='trend',
        level='warn' if change < -0.1 else 'info',
        title='Reward falling',
        text=f'{signed} over the last {window} steps. If it goes on, lower learningRate',
        setting='learningRate',
    )


def _loss(read: _Reader) -> Condition | None:
    loss, zero = read.recent(LOSS), read.recent(ZERO_STD)
    if loss is None or abs(loss) > 1e-3 or (zero is not None and zero >= 0.9):
        return None
    return Condition(
        key='loss',
        level='info',
        title='Loss near 0 is normal',
        text='Advantages sum to 0 in a group. Watch the reward, not the loss',
    )


def solved_tasks(groups: Mapping[str, Sequence[float | None]]) -> Condition | None:
    """Tasks whose last three groups were all solved: ``groups`` has their mean rewards by title, oldest first."""
    solved = [title for title, means in groups.items() if len(means) >= 3 and all(mean == 1.0 for mean in means[-3:])]
    if not solved:
        return None
    count = '1 task is' if len(solved) == 1 else f'{len(solved)} of {len(groups)} tasks are'
    shown = ', '.join(title[:60] for title in solved[:2]) + (', …' if len(solved) > 2 else '')
    return Condition(
        key='solved',
        level='info',
        title=f'{count} solved every time',
        text=f'No gradient is left in {"it" if len(solved) == 1 else "them"}: {shown}',
        setting='tasks',
    )
