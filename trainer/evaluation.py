"""Held-out success as data: solved attempts per task and in total, with their 95 % Wilson intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from trainer.errors import RunFolderError
from trainer.validation import Document

Stage = Literal['before', 'after']


class TaskResult(Document):
    """Attempts at one held-out task; errors are no attempts. ``low`` and ``high`` bound the pass rate (95 %).

    ``rewards`` are those of every attempt in their order, ``None`` for an error; older files do not have them.
    """

    id: str
    title: str = ''
    solved: int
    attempts: int
    errors: int = 0
    low: float
    high: float
    rewards: tuple[float | None, ...] = ()


class Evaluation(Document):
    """Success over tasks, ``k`` attempts each: ``mean`` is the share of solved attempts, with its 95 % interval."""

    stage: str = ''
    step: int = 0
    k: int
    temperature: float = 1.0
    mean: float | None
    low: float
    high: float
    solved: int
    attempts: int
    errors: int = 0
    tasks: tuple[TaskResult, ...] = ()

    @property
    def n(self) -> int:
        """Number of tasks."""
        return len(self.tasks)


def read_evaluation(run: Path, stage: Stage) -> Evaluation | None:
    """The evaluation in a run folder; ``None`` until it was measured. Raises ``RunFolderError`` where it is damaged."""
    path = run / f'evaluation-{stage}.json'
    try:
        return Evaluation.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise RunFolderError(f'{path.name} of run {run.name} cannot be read: {error}') from None
