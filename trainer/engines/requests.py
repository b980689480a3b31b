"""A stream of turns over a backend that takes requests while it works and answers each as soon as it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from trainer.engines.base import Generation

WAIT_S: Final = 0.01
"""How long ``advance`` waits for a turn: tools may answer meanwhile, and somebody may ask to stop."""


class Backend(Protocol):
    """Generates turns beside the thread that asks for them."""

    def ask(self, row: int, ids: Sequence[int], limit: int) -> None:
        """Begin to generate the next turn of the conversation ``ids``, of at most ``limit`` tokens."""
        ...

    def answer(self, timeout_s: float) -> tuple[int, Generation] | None:
        """A turn that has ended, or ``None`` where none has within the time. Raises ``GenerationError``."""
        ...


class Requests:
    """A ``TurnStream`` that keeps the conversations and asks a backend for their turns."""

    def __init__(self, rows: int, backend: Backend) -> None:
        self._backend = backend
        self._conversations: list[list[int]] = [[] for _ in range(rows)]
        self._asked = 0

    @property
    def asked(self) -> int:
        """See ``TurnStream``."""
        return self._asked

    def extend(self, row: int, ids: Sequence[int], limit: int) -> None:
        """See ``TurnStream``."""
        self._conversations[row] += ids
        self._asked += 1
        self._backend.ask(row, list(self._conversations[row]), limit)

    def advance(self) -> list[tuple[int, Generation]]:
        """Wait for a turn to end, and hand over all that have by then."""
        ended: list[tuple[int, Generation]] = []
        while self._asked and (one := self._backend.answer(0 if ended else WAIT_S)) is not None:
            row, turn = one
            self._asked -= 1
            self._conversations[row] += turn.ids
            ended.append((row, turn))
        return sorted(ended, key=lambda one: one[0])
