"""Which tasks a step takes: an order fixed by the seed alone, and a memory of how groups ended.

The order is a pure function of tasks, seed and place, so a run that goes on needs no more than its step to find the
next tasks, and one whose step count is raised only gets more of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, islice

SAME = 1e-9
"""Rewards closer than this are the same."""


def order(ids: Sequence[str], places: int, seed: int) -> list[str]:
    """Fill ``places`` with ids: every id once in a shuffled order, then again in another one, and so on."""

    def endless() -> Iterable[str]:
        for epoch in count():
            shuffled = list(ids)
            random.Random(f'{seed}/{epoch}').shuffle(shuffled)
            yield from shuffled

    return list(islice(endless(), places))


def teaches(rewards: Iterable[float | None]) -> bool:
    """Whether a group moves the policy: some attempts earned more than others (errors count for nothing)."""
    scored = [reward for reward in rewards if reward is not None]
    return len(scored) > 1 and max(scored) - min(scored) > SAME


class Outcomes:
    """How the last group of each task ended: lowest and highest reward."""

    def __init__(self, last: Mapping[str, tuple[float, float]] | None = None) -> None:
        self.last = dict(last or {})

    def note(self, task: str, rewards: Iterable[float | None]) -> None:
        """Remember a group; one of errors alone says nothing."""
        scored = [reward for reward in rewards if reward is not None]
        if scored:
            self.last[task] = (min(scored), max(scored))

    def all_solved(self, ids: Iterable[str]) -> bool:
        """Whether every attempt of the last group of each task earned everything."""
        return all(self.last.get(id_, (0.0, 0.0))[0] >= 1.0 for id_ in ids)

    def most_teaching(self, ids: Iterable[str]) -> list[str]:
        """Ids by what a group of theirs promises: mixed the last time, then never tried, then the others."""

        def rank(id_: str) -> int:
            if id_ not in self.last:
                return 1
            low, high = self.last[id_]
            return 0 if high - low > SAME else 2

        return sorted(ids, key=rank)
