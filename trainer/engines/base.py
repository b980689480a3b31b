"""What an engine offers: the next turn of many conversations at once, as tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Generation:
    """One generated turn. ``finished`` says whether it ended by itself rather than at its limit."""

    ids: list[int]
    finished: bool


class GenerationEngine(Protocol):
    """Generates turns with the policy as it stands."""

    name: str

    def generate(
        self, prompts: Sequence[Sequence[int]], limits: Sequence[int], *, temperature: float
    ) -> list[Generation]:
        """Generate one turn for each prompt (token ids), at most ``limits`` tokens each; temperature 0 is greedy."""
        ...
