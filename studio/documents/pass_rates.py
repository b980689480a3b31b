"""How often a model solves a task: counts with their interval, and the tier that follows from them (spec section 5).

An attempt passes when its verdict is ``passed``, which is a reward of 1.0; a partial reward is none. Attempts that
ended in an error are no attempts: they are counted apart, and a task with nothing else is unknown, not too hard.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from trainer.statistics import wilson
from trainer.validation import Document

Tier = Literal['hard', 'band', 'easy', 'unknown']
TIERS: Final[Mapping[Tier, str]] = {'hard': 'Too hard', 'band': 'In band', 'easy': 'Too easy', 'unknown': 'Unknown'}
"""Tiers in words, from the hardest on."""
HARD: Final = 0.1
"""Pass rate below which a task is too hard."""
EASY: Final = 0.9
"""Pass rate above which a task is too easy."""


class PassRate(Document):
    """What a model earned on one version of a task. ``rewards``: how often each reward was earned, as text.

    ``attempts`` were scored, ``errors`` were not; ``error`` is what the last one said. ``is_stale``: only a version
    before the latest was measured, so that nothing is known of this one and all counts are 0.
    """

    passes: int = 0
    attempts: int = 0
    errors: int = 0
    rewards: dict[str, int] = Field(default_factory=dict)
    error: str = ''
    measured_at: datetime | None = None
    is_stale: bool = False

    @property
    def rate(self) -> float | None:
        """Share of the attempts that passed; ``None`` where none was scored."""
        return self.passes / self.attempts if self.attempts else None

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson interval of the rate."""
        return wilson(self.passes, self.attempts)

    @property
    def mean_reward(self) -> float | None:
        """Mean of the rewards; ``None`` where none was earned."""
        total = sum(self.rewards.values())
        return sum(float(reward) * count for reward, count in self.rewards.items()) / total if total else None

    @property
    def tier(self) -> Tier:
        """Which tier the rate is in."""
        return tier_of(self.passes, self.attempts)


def tier_of(passes: int, attempts: int) -> Tier:
    """The tier of a task: above 90 % too easy, below 10 % too hard, both bounds in band."""
    if not attempts:
        return 'unknown'
    rate = passes / attempts
    return 'easy' if rate > EASY else 'hard' if rate < HARD else 'band'
