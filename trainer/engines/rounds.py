"""Turns in rounds, for engines that only know whole batches: all that are asked for are generated together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainer.engines.base import Generation

Generate = Callable[[Sequence[Sequence[int]], Sequence[int]], list[Generation]]
"""Conversations (token ids) and the limit of each → their next turns."""


class Rounds:
    """A ``TurnStream`` over a function that generates one turn for each conversation given."""

    def __init__(self, rows: int, generate: Generate) -> None:
        self._generate = generate
        self._conversations: list[list[int]] = [[] for _ in range(rows)]
        self._limits: dict[int, int] = {}

    @property
    def asked(self) -> int:
        """How many turns the next round generates."""
        return len(self._limits)

    def extend(self, row: int, ids: Sequence[int], limit: int) -> None:
        """See ``TurnStream``."""
        self._conversations[row] += ids
        self._limits[row] = limit

    def advance(self) -> list[tuple[int, Generation]]:
        """Generate every turn that is asked for."""
        limits, self._limits = dict(sorted(self._limits.items())), {}
        turns = self._generate([self._conversations[row] for row in limits], list(limits.values()))
        for row, turn in zip(limits, turns, strict=True):
            self._conversations[row] += turn.ids
        return list(zip(limits, turns, strict=True))
