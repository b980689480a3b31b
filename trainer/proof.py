"""What a parity proof compares, as data: recorded when training ends, and what a fresh process found of it.

The trainer writes an ``Expectation`` (``parity.json`` in the run folder); ``trainer.parity`` writes a ``ProofResult``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from trainer.validation import Document

Precision = Literal['float32', 'float16', 'bfloat16']

EXPECTED: Final = 'parity.json'
"""Name of the file in a run folder."""
LOGIT_TOLERANCE: Final[Mapping[Precision, float]] = {'float32': 0.005, 'float16': 0.1, 'bfloat16': 0.5}
"""How far a logit may be off: a few roundings of its precision at the size that logits have."""
VERDICT_TOLERANCE: Final[Mapping[Precision, float]] = {'float32': 0.02, 'float16': 0.15, 'bfloat16': 0.15}
"""Share of attempts that may end otherwise, rounded down: one token sampled otherwise makes another attempt."""
EXACT_ENGINES: Final = frozenset({'plain', 'continuous_batching'})
"""Engines that sample the same tokens from the same seed."""


class Probe(Document):
    """One token sequence and what the trained policy said of its last tokens.

    ``top[i]`` are the tokens with the highest logits ``logits[i]`` after ``ids[: len(ids) - len(top) + i + 1]``.
    """

    task: str
    ids: tuple[int, ...]
    top: tuple[tuple[int, ...], ...]
    logits: tuple[tuple[float, ...], ...]


class Sampling(Document):
    """How held-out attempts were made; the same again gives the same attempts."""

    seed: int
    k: int
    temperature: float
    tokens: int
    turns: int
    answer_tokens: int
    engine: str
    processes: int = 1
    packages: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether attempts can be repeated one by one; else only their success rate can be compared."""
        return self.engine in EXACT_ENGINES and self.processes == 1


class Expectation(Document):
    """How the trained policy behaved when training ended, and the checksums of what it was made of.

    ``base`` is the sha256 over the base model's tensors as loaded, ``base_after`` the same after training; ``files``
    maps the adapter's weight files to their sha256. ``rewards`` holds those of every held-out attempt by task
    (``None``: an error); it is missing where nothing was measured.
    """

    model: str
    step: int
    precision: Precision
    device: str
    base: str
    base_after: str
    files: dict[str, str]
    probes: tuple[Probe, ...]
    sampling: Sampling
    rewards: dict[str, tuple[float | None, ...]] | None = None


class Agreement(Document):
    """Held-out attempts in training and in the fresh process; ``allowed`` of them may differ."""

    attempts: int
    same: int
    allowed: int
    solved_then: int
    solved_now: int
    exact: bool = Field(description='Whether attempts were compared one by one, or success rates only.')


class ProofResult(Document):
    """What a fresh process found. ``problems`` says what differs, in words; none where the proof holds.

    ``other_base``: the base model was another one than in training, so it says little of the adapter.
    """

    state: Literal['proven', 'failed']
    problems: tuple[str, ...] = ()
    logit_difference: float
    logit_tolerance: float
    verdicts: Agreement | None = None
    other_base: bool = False
    base: str
    adapter: str
    precision: Precision
    device: str
    seconds: float
    made_at: datetime
