"""Which tasks a run measures instead of training on them, where nobody says so: those with the topic ``held-out``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

HELD_OUT: Final = 'held-out'


def split(topics: Iterable[tuple[str, Sequence[str]]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``(ids to train on, held-out ids)`` of tasks given as their ids and topics, in their order."""
    train: list[str] = []
    apart: list[str] = []
    for id, known in topics:
        (apart if HELD_OUT in known else train).append(id)
    return tuple(train), tuple(apart)
