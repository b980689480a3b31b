"""The processes that share the steps of a run: who is who, and how they agree.

Every process goes the same way through the stages, plays its share of the episodes, and knows the outcome of all of
them; the first one alone writes. Where a way depends on what one process saw (somebody asks to stop), all are asked.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch.distributed
from accelerate import PartialState

from trainer.hardware import Hardware

Item = TypeVar('Item')

PATIENCE: Final = timedelta(hours=6)
"""How long one process waits for another: the episodes of a step take as long as their tasks and checkers do."""


@dataclass(frozen=True)
class Team:
    """This process among those of its run."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, hardware: Hardware) -> Team:
        """Meet the other processes, where the run was launched with several."""
        size = int(os.environ.get('WORLD_SIZE', '1'))
        if size > 1:
            PartialState(cpu=hardware.device == 'cpu', timeout=PATIENCE)
        return cls(int(os.environ.get('RANK', '0')) if size > 1 else 0, size)

    @property
    def writes(self) -> bool:
        """Whether this is the process that writes the run folder."""
        return self.rank == 0

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """The part of ``items`` that this process works on; the parts of all, by rank, are the whole in its order."""
        return items[len(items) * self.rank // self.size : len(items) * (self.rank + 1) // self.size]

    def gather(self, value: Item) -> list[Item]:
        """What every process has, by rank, on every process."""
        if self.size == 1:
            return [value]
        gathered: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(gathered, value)
        return gathered

    def any(self, flag: bool) -> bool:
        """Whether any process says so: the same answer on all of them."""
        return any(self.gather(flag))

    def wait(self) -> None:
        """Go on when all have come this far."""
        self.gather(None)
