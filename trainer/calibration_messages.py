"""What the process of a calibration says while it works, beside what every process at the side says."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from trainer.side_work import Done, Failed, Progress
from trainer.validation import Document


class Counted(Document):
    """Every attempt at one task. ``rewards`` are those of its attempts in order, ``None`` for an error.

    ``error`` is what the last error said, ``seconds`` what the attempts took, of those that were played side by side.
    """

    kind: Literal['counted'] = 'counted'
    task: str
    rewards: tuple[float | None, ...]
    error: str = ''
    seconds: float = 0.0


News = Annotated[Counted | Progress | Done | Failed, Field(discriminator='kind')]
NEWS: Final[TypeAdapter[News]] = TypeAdapter(News)
"""Reads one line."""
