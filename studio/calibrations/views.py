"""What goes into and comes out of the calibration service."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from trainer.errors import ConfigError, StoreError
from trainer.models import ModelInfo, Preset, find_model
from trainer.validation import Document

MAX_ATTEMPTS: Final = 64
"""Attempts at a task that one calibration may make."""
USUAL_ATTEMPTS: Final = 8
TOKENS: Final = 1024
"""Tokens of an episode where the model's preset names no number."""

JobState = Literal['waiting', 'running', 'done', 'cancelled', 'failed', 'interrupted']


class AlreadyCalibrating(StoreError):
    """One calibration works at a time, and one does now."""


class Who(Document):
    """Who attempts tasks, and how. ``adapter`` is a folder, ``adapter_id`` the registry's version that is in it."""

    model: str
    adapter: str = ''
    adapter_id: str | None = None
    temperature: float | None = Field(default=None, gt=0, le=5, description='None: the usual one of the model.')
    tokens: int | None = Field(default=None, ge=1, description='Tokens of an episode; None: the usual number.')


class Subject(Document):
    """Who attempted tasks and how. ``key`` names it; ``seconds`` is what its ``attempts`` took in all."""

    key: str
    model: str
    adapter: str
    adapter_id: str | None
    adapter_hash: str
    temperature: float
    tokens: int
    attempts: int
    seconds: float
    used_at: datetime
    title: str

    @property
    def seconds_each(self) -> float | None:
        """Seconds of one attempt; ``None`` before there was one."""
        return self.seconds / self.attempts if self.attempts and self.seconds else None


class JobView(Document):
    """How far a calibration is. ``tried`` of ``tasks`` are counted; ``checked`` attempts of ``total`` are graded.

    ``skipped`` tasks had no valid version to attempt. ``text`` says what is done now, or what is waited for.
    """

    id: str
    subject: Subject
    state: JobState
    k: int
    tasks: int
    tried: int = 0
    checked: int = 0
    errors: int = 0
    skipped: int = 0
    text: str = ''
    reason: str = ''
    hint: str = ''
    eta_s: float | None = None
    created_at: datetime

    @property
    def total(self) -> int:
        """Attempts in all."""
        return self.tasks * self.k

    @property
    def is_active(self) -> bool:
        """Whether there is work left that somebody does."""
        return self.state in ('waiting', 'running')

    @property
    def left(self) -> int:
        """Tasks that are not counted."""
        return self.tasks - self.tried


def usual_tokens(preset: Preset) -> int:
    """Tokens of an episode with the settings that suit a model."""
    return preset.max_completion_length or TOKENS


def subject_title(model: str, adapter: str, temperature: float, tokens: int) -> str:
    """A subject in words: the model, its adapter, and the sampling where it is not the usual one."""
    try:
        info: ModelInfo | None = find_model(model)
    except ConfigError:  # a folder that was moved, a package that was removed
        info = None
    parts = [info.title if info else model]
    if adapter:
        parts[0] += f' + {adapter}'
    if info is None or temperature != info.preset.temperature:
        parts.append(f'temperature {temperature:g}')
    if info is None or tokens != usual_tokens(info.preset):
        parts.append(f'{tokens:,} tokens')
    return ', '.join(parts)
