"""What goes into and comes out of grading again."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainer.regrade import Change, Regraded
from trainer.validation import Document

Source = Literal['frozen', 'library']
"""Whose checker grades: the run's frozen copy, or the current version of the task in the library."""
Results = Literal['', 'passed', 'not_passed', 'error']


class Asked(Document):
    """Which rollouts to grade again, and with what. Empty means all; ``rollouts`` are ids of a run's rollouts."""

    source: Source = 'frozen'
    task: str = ''
    results: Results = ''
    rollouts: tuple[int, ...] = Field(default=(), max_length=10_000)


class TaskChoice(Document):
    """One task of a run: how many of its rollouts have their workspace, and what the library has of it now.

    ``obstacle`` says why the library's version cannot grade them; ``is_changed`` whether its checker, or a file that
    it puts back, is another than the run's.
    """

    id: str
    title: str
    kept: int
    version: int | None = None
    now: int | None = None
    is_changed: bool = False
    obstacle: str = ''


class Choices(Document):
    """What can be graded again of a run; without any, ``why_none`` says why."""

    recorded: int
    kept: int
    bytes: int
    tasks: tuple[TaskChoice, ...]
    why_none: str = ''


class Row(Document):
    """One rollout that was graded again; ``id`` opens it."""

    id: int
    result: Regraded


class RegradeView(Document):
    """How far a job is, or how it ended. ``counts`` has every change, ``not_kept`` rollouts without a workspace."""

    state: Literal['running', 'done', 'cancelled', 'stopped']
    asked: Asked
    text: str = ''
    reason: str = ''
    done: int = 0
    total: int = 0
    not_kept: int = 0
    counts: dict[Change, int] = Field(default_factory=dict)
    started_at: datetime
    ended_at: datetime | None = None
    eta_s: float | None = None

    @property
    def is_active(self) -> bool:
        """Whether there is work left."""
        return self.state == 'running'


class Stored(Document):
    """What is kept of the last job of a run."""

    view: RegradeView
    rows: tuple[Row, ...]
