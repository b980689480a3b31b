"""Held-out success over a run: measured before, while it goes on, and after; which step was best, and when to end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from trainer.evaluate import Evaluation, evaluate
from trainer.events import Evaluating, Metrics, Stage
from trainer.journal import Journal
from trainer.rollout.play import Player
from trainer.runfolder import write_json
from trainer.task import TaskFile
from trainer.validation import Document

SUCCESS: Final = 'held_out/success'


class Measured(Document):
    """Held-out success of the weights of a step."""

    step: int
    mean: float


def best(measured: Sequence[Measured]) -> Measured | None:
    """The best step that was trained; of equals the latest, which has learned longest."""
    return max((one for one in measured if one.step > 0), key=lambda one: (one.mean, one.step), default=None)


def since_improvement(measured: Sequence[Measured]) -> int:
    """How many evaluations at the end of the series brought nothing better than before."""
    top, since = -1.0, 0
    for one in measured:
        top, since = (one.mean, 0) if one.mean > top else (top, since + 1)
    return since


class HeldOut:
    """The held-out tasks of a run and what was measured on them. Every evaluation samples with the same seed."""

    def __init__(
        self,
        tasks: Sequence[TaskFile],
        journal: Journal,
        *,
        k: int,
        temperature: float,
        seed: int,
        writes: bool = True,
    ) -> None:
        self._tasks = tasks
        self._journal = journal
        self._k = k
        self._temperature = temperature
        self._seed = seed
        self._writes = writes
        self.measured: tuple[Measured, ...] = ()

    @property
    def wanted(self) -> bool:
        """Whether there is anything to measure."""
        return bool(self._tasks) and self._k > 0

    def known(self, stage: Stage, step: int) -> Evaluation | None:
        """What was measured, by this process or one before it."""
        try:
            return Evaluation.model_validate_json(self._path(stage, step).read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def measure(self, player: Player, stage: Stage, step: int, *, name: str = SUCCESS) -> Evaluation | None:
        """Measure the policy as it stands; ``None`` where there is nothing to do or a stop cut it short."""
        if not self.wanted:
            return None
        self._journal.state('evaluating', f'held-out success {_when(stage, step)}')
        self._journal.write(Evaluating(stage=stage, step=step))
        result = evaluate(
            player,
            self._tasks,
            k=self._k,
            temperature=self._temperature,
            stage=stage,
            step=step,
            seed=self._seed,
            on_rollout=lambda rollout: self._journal.rollout(rollout, stage),
            stop=lambda: self._journal.stop_requested,
        )
        if result.attempts + result.errors < self._k * len(self._tasks):
            return None
        self.write(result)
        if result.mean is not None:
            self._journal.write(Metrics(step=step, values={name: result.mean}))
            self.note(step, result.mean)
        return result

    def note(self, step: int, mean: float) -> None:
        """Add a step to the series; what was measured of it or of later steps before is superseded."""
        kept = [one for one in self.measured if one.step < step or one.step == 0]
        self.measured = (*kept, Measured(step=step, mean=mean))

    def write(self, result: Evaluation) -> None:
        """Keep an evaluation beside the events."""
        if not self._writes:
            return
        path = self._path(result.stage, result.step)
        try:
            path.parent.mkdir(exist_ok=True)
            write_json(path, result.model_dump(mode='json'))
        except OSError as error:
            self._journal.notice(f'{path.name} could not be written: {error.strerror}', level='warning')
            return
        self._journal.artifact('evaluation', str(path.relative_to(self._journal.folder.path)))

    def _path(self, stage: str, step: int) -> Path:
        name = f'evaluations/step-{step}.json' if stage == 'during' else f'evaluation-{stage}.json'
        return self._journal.folder.path / name


def _when(stage: Stage, step: int) -> str:
    return f'after step {step}' if stage == 'during' else f'{stage} training'
