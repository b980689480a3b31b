"""What a checker says of a final workspace: a reward in [0, 1], or an error and no reward at all (spec section 1)."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Outcome = Literal['passed', 'partial', 'failed', 'error']


class Item(BaseModel):
    """One line of a verdict: a test, a path or a command."""

    model_config = ConfigDict(frozen=True, extra='forbid')

    name: str
    passed: bool
    detail: str = ''


class Verdict(BaseModel):
    """The outcome of one check.

    ``reward`` is ``None`` exactly when ``outcome`` is ``error``: an error is not a reward of 0.
    ``tampered`` marks a candidate that was caught forging the result; its reward is 0.
    """

    model_config = ConfigDict(frozen=True, extra='forbid')

    outcome: Outcome
    reward: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)
    reason: str = ''
    items: tuple[Item, ...] = ()
    output: str = ''
    duration_ms: int = Field(default=0, ge=0)
    tampered: bool = False

    @model_validator(mode='after')
    def _outcome_fits_reward(self) -> Self:
        if self.outcome != outcome_of(self.reward):
            raise ValueError(f'outcome {self.outcome} does not fit reward {self.reward}')
        return self

    @classmethod
    def scored(
        cls, reward: float, reason: str = '', *, items: tuple[Item, ...] = (), output: str = '', tampered: bool = False
    ) -> Self:
        """Build a verdict with a reward; the outcome follows from it."""
        return cls(
            outcome=outcome_of(reward), reward=reward, reason=reason, items=items, output=output, tampered=tampered
        )

    @classmethod
    def not_scored(cls, reason: str, *, items: tuple[Item, ...] = (), output: str = '') -> Self:
        """Build an ``error`` verdict: the checker or the sandbox could not do its work."""
        return cls(outcome='error', reason=reason, items=items, output=output)

    @property
    def solved(self) -> bool:
        """Whether the full reward was earned."""
        return self.outcome == 'passed'


def outcome_of(reward: float | None) -> Outcome:
    """Name the outcome of a reward: 1 passed, 0 failed, between partial, ``None`` error."""
    if reward is None:
        return 'error'
    if reward >= 1.0:
        return 'passed'
    return 'failed' if reward <= 0.0 else 'partial'
