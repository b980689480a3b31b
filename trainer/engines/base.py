"""What an engine offers: the turns of many conversations at once, as tokens, each handed over as soon as it ends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Generation:
    """One generated turn. ``finished`` says whether it ended by itself rather than at its limit."""

    ids: list[int]
    finished: bool


class TurnStream(Protocol):
    """The conversations of one batch, numbered from 0. They start empty and grow by ``extend`` and by their turns."""

    @property
    def asked(self) -> int:
        """How many turns are asked for and not handed over yet."""
        ...

    def extend(self, row: int, ids: Sequence[int], limit: int) -> None:
        """Append token ids to a conversation and ask for its next turn of at most ``limit`` tokens."""
        ...

    def advance(self) -> list[tuple[int, Generation]]:
        """Generate on, as far as is convenient, and hand over the turns that ended, in order of their rows."""
        ...


class GenerationEngine(Protocol):
    """Generates turns with the policy as it stands."""

    name: str

    def open(self, rows: int, *, temperature: float, seed: int) -> AbstractContextManager[TurnStream]:
        """Begin a batch of ``rows`` conversations; temperature 0 is greedy.

        What is sampled follows from ``seed``, the row and the tokens before, not from what other rows do.
        """
        ...


def generate(
    engine: GenerationEngine,
    prompts: Sequence[Sequence[int]],
    limits: Sequence[int],
    *,
    temperature: float,
    seed: int = 0,
) -> list[Generation]:
    """One turn for each prompt (token ids), at most ``limits`` tokens each."""
    turns: dict[int, Generation] = {}
    with engine.open(len(prompts), temperature=temperature, seed=seed) as stream:
        for row, (prompt, limit) in enumerate(zip(prompts, limits, strict=True)):
            stream.extend(row, prompt, limit)
        while stream.asked:
            turns.update(stream.advance())
    return [turns[row] for row in range(len(prompts))]
