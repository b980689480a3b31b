"""What goes into and comes out of the run service."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple

from pydantic import Field

from trainer.config import Plan
from trainer.errors import FieldError, StoreError
from trainer.events import FINAL_STATES, RunState
from trainer.validation import Document
from trainer.verdict import Outcome

Series = tuple[list[int], list[float]]
"""Steps and values of one metric, steps ascending; a step without a value is not there."""


class BarColumn(NamedTuple):
    """Bars of one series: their ``numbers`` (first step over width), values, and how many steps each holds."""

    numbers: list[int]
    values: list[float]
    counts: list[int]


class Bars(NamedTuple):
    """Series as bars of ``width`` steps each."""

    width: int
    columns: dict[str, BarColumn]


class PlanView(Document):
    """What a run with these settings would do; ``plan`` is missing where ``errors`` say why it cannot run."""

    plan: Plan | None = None
    notes: tuple[FieldError, ...] = ()
    errors: tuple[FieldError, ...] = ()
    task_count: int = 0


class RunView(Document):
    """A run as it is known now. Times in UTC, durations in seconds.

    ``waiting``: Start was pressed, another run is active. ``stopping``: Stop was pressed, processes still live.
    ``elapsed_s``: how long it worked, over all its goes, without the pauses between them.
    ``silent_s``: how long an active trainer has written nothing. ``latest``: values of the last measured step.
    """

    id: str
    name: str
    model: str
    training_type: str
    settings: dict[str, Any]
    notes: tuple[FieldError, ...] = ()
    state: RunState
    reason: str
    step: int
    total: int
    eta_s: float | None
    created_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    elapsed_s: float | None
    task_count: int
    latest: dict[str, float]
    has_adapter: bool
    pid: int | None
    stopping: bool = False
    silent_s: float | None = None
    last_line: str = ''

    @property
    def is_final(self) -> bool:
        """Whether nothing will happen any more."""
        return self.state in FINAL_STATES

    @property
    def is_active(self) -> bool:
        """Whether processes of the run live."""
        return self.started_at is not None and not self.is_final

    @property
    def waiting(self) -> bool:
        """Whether it starts by itself when the active run ends."""
        return self.state == 'queued' and self.queued_at is not None

    @property
    def can_start(self) -> bool:
        """Whether Start makes sense."""
        return self.state == 'queued' and self.queued_at is None

    @property
    def can_stop(self) -> bool:
        """Whether Stop makes sense."""
        return (self.is_active or self.waiting) and not self.stopping


class Saved(Document):
    """What is on disk of a run: the step it has done, and that of its newest checkpoint (0: none yet).

    ``grace_s``: seconds a trainer gets to save and end by itself when it is stopped.
    """

    step: int
    checkpoint: int
    grace_s: float


class RunQuery(Document):
    """Which runs to list, newest first."""

    search: str = ''
    states: tuple[RunState, ...] = ()
    page: int = Field(default=1, ge=1)
    per_page: int = Field(default=50, ge=1, le=1000)


class RunPage(Document):
    """A page of runs; ``total`` counts all pages, ``counts`` each state whatever states were asked for."""

    rows: tuple[RunView, ...]
    total: int
    counts: dict[str, int]


class RunTask(Document):
    """A frozen task of a run."""

    id: str
    title: str
    version: int | None
    hash: str
    role: Literal['train', 'held_out']


class HeatCell(Document):
    """One task at one step: mean reward of the attempts that have one, attempts, and how many were errors."""

    step: int
    mean: float | None
    n: int
    errors: int


class HeatRow(Document):
    """One task over the steps it was attempted in."""

    task: str
    title: str
    cells: tuple[HeatCell, ...]


class RolloutRow(Document):
    """A finished episode in a list; ``id`` opens its record."""

    id: int
    step: int
    stage: str
    task: str
    title: str
    group: int
    index: int
    outcome: Outcome
    reward: float | None


class AlreadyStarted(StoreError):
    """Start was pressed before, here or in another tab; ``run`` is what it made."""

    def __init__(self, run: RunView) -> None:
        super().__init__(f'"{run.name}" was started already', hint='Open it to watch it.')
        self.run = run


class StillActive(StoreError):
    """What was asked for is not possible while a run works."""
