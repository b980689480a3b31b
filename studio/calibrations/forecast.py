"""What share of the groups of a run will carry a gradient, forecast from what was measured of its tasks.

A group teaches something when its rewards are not all the same. With a pass rate ``p`` and ``G`` attempts a group that
is the share ``1 - p^G - (1 - p)^G``. Partial rewards teach too, though nothing passed, so the share is taken from all
rewards that were observed: ``1 - sum over rewards r of q_r^G``, where ``q_r`` is how often ``r`` was earned. With
rewards of 0 and 1 alone both are the same number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from studio.documents.pass_rates import PassRate, Tier
from trainer.config import BOUNDS
from trainer.statistics import gradient_share, wilson

LEAST, MOST = (int(bound) for bound in BOUNDS['num_generations'])
ENOUGH: Final = 0.95
"""Share of what the largest group would give that the suggested one reaches."""
FEW: Final = 0.5
"""Below this share most groups teach nothing."""

_Rewards = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Suggestion:
    """A group size, and the share of groups with a gradient it leads to."""

    size: int
    share: float
    most: float

    @property
    def why(self) -> str:
        """The reason in words."""
        return f'the smallest group that reaches {ENOUGH:.0%} of what {MOST} attempts would give'


class Forecast:
    """The forecast for some tasks, by their ids, at every group size at once.

    Tasks with the same rewards share one number, so 10,000 tasks cost what some dozen do.
    """

    def __init__(self, ids: Iterable[str], rates: Mapping[str, PassRate]) -> None:
        self._kinds: dict[str, _Rewards] = {}
        tiers: Counter[Tier] = Counter()
        attempts: list[int] = []
        self.unknown: list[str] = []
        for id in ids:
            rate = rates.get(id)
            tiers[rate.tier if rate else 'unknown'] += 1
            if rate is None or not rate.attempts:
                self.unknown.append(id)
                continue
            attempts.append(rate.attempts)
            self._kinds[id] = tuple(sorted(rate.rewards.items()))
        self.tiers: Mapping[Tier, int] = tiers
        self.attempts = (min(attempts), max(attempts)) if attempts else (0, 0)
        self._counts = sizes = Counter(self._kinds.values())
        self._shares = {size: {kind: live_share(dict(kind), size) for kind in sizes} for size in range(LEAST, MOST + 1)}
        self._totals = {
            size: sum(shares[kind] * count for kind, count in sizes.items()) / len(self._kinds)
            for size, shares in self._shares.items()
            if self._kinds
        }

    @property
    def known(self) -> int:
        """How many of the tasks were measured."""
        return len(self._kinds)

    def total(self, size: int) -> float | None:
        """Share of groups with a gradient over all measured tasks; ``None`` where none was."""
        return self._totals.get(min(MOST, max(LEAST, size)))

    def interval(self, size: int) -> tuple[float, float] | None:
        """About 95 %: how far the total may be off because each task was attempted a few times only.

        The intervals of the tasks are combined by recovering their variances (MOVER, doi 10.1002/sim.3095).
        """
        total = self.total(size)
        if total is None:
            return None
        below = above = 0.0
        for kind, count in self._counts.items():
            share, (low, high) = live_share(dict(kind), size), share_interval(dict(kind), size)
            below += count * (share - min(share, low)) ** 2
            above += count * (max(share, high) - share) ** 2
        return max(0.0, total - below**0.5 / self.known), min(1.0, total + above**0.5 / self.known)

    def share(self, id: str, size: int) -> float | None:
        """The same for one task."""
        kind = self._kinds.get(id)
        return None if kind is None else self._shares[min(MOST, max(LEAST, size))][kind]

    def ranked(self, size: int) -> list[tuple[str, float | None]]:
        """Every task with its share, the highest first, those that were not measured last."""
        shares = self._shares[min(MOST, max(LEAST, size))]
        known: list[tuple[str, float | None]] = [(id, shares[kind]) for id, kind in self._kinds.items()]
        known.sort(key=lambda one: -(one[1] or 0.0))
        return known + [(id, None) for id in self.unknown]

    @property
    def suggestion(self) -> Suggestion | None:
        """The smallest group size that reaches the knee; ``None`` where no group would teach anything."""
        most = self._totals.get(MOST, 0.0)
        if most <= 0.0:
            return None
        size = next(size for size, total in self._totals.items() if total >= ENOUGH * most)
        return Suggestion(size, self._totals[size], most)


def live_share(rewards: Mapping[str, int], size: int) -> float:
    """Share of groups of ``size`` attempts whose rewards differ, where each reward is earned as often as observed."""
    total = sum(rewards.values())
    return 1.0 - sum((count / total) ** size for count in rewards.values()) if total else 0.0


def share_interval(rewards: Mapping[str, int], size: int) -> tuple[float, float]:
    """Bounds of ``live_share`` (95 %), from the interval of how often the most frequent reward is earned."""
    low, high = wilson(max(rewards.values(), default=0), sum(rewards.values()))
    ends = [gradient_share(rate, size) for rate in (low, high)]
    return min(ends), gradient_share(0.5, size) if low <= 0.5 <= high else max(ends)


def reward_key(reward: float) -> str:
    """A reward as it is counted: numbers that differ by rounding alone are one."""
    return f'{reward:.6g}'
