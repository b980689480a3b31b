"""What a run will cost in time and memory: from what earlier runs of the model took, with the range they showed.

A short measured run is an earlier run like any other: so a model that never ran before can be measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psutil
from pydantic import Field
from sqlalchemy import func
from sqlmodel import Session, col, select

from studio.runs.footprint import Footprint, footprint
from studio.runs.meters import TRAINER, Gpus
from studio.store.database import Database
from studio.store.tables import MetricTable, RolloutTable, RunTable
from trainer.config import Plan, Settings, plan
from trainer.errors import ConfigError
from trainer.models import ModelInfo
from trainer.validation import Document

PHASES: Final = {
    'Generate': ('seconds/generate',),
    'Grade': ('seconds/tools', 'seconds/check'),
    'Train': ('seconds/update',),
}
RUNS: Final = 3
"""The newest runs of a model are enough to measure by."""
PROBE: Final = 'Measure'
"""First word of the name of a run that was made to measure."""


class Measured(Document):
    """What earlier runs of one model took. Seconds are those of one rollout, all phases together."""

    runs: tuple[str, ...] = Field(description='Names, newest first.')
    steps: int = Field(description='Steps that were measured.')
    low_s: float
    middle_s: float
    high_s: float
    shares: dict[str, float] = Field(description='Phase → share of the time.')
    memory: int | None = Field(default=None, description='Most bytes its processes held in main memory.')

    def seconds(self, rollouts: int, evaluated: int = 0) -> tuple[float, float, float]:
        """Least, middle and most for so many rollouts, and for others that are evaluated and not trained on.

        A tenth of the measured steps were faster than the least, a tenth slower than the most.
        """
        weight = rollouts + evaluated * (1 - self.shares.get('Train', 0.0))
        return self.low_s * weight, self.middle_s * weight, self.high_s * weight


class Room(Document):
    """Memory of this machine that a run may use: of its smallest GPU, or main memory where it has none."""

    gpu: bool
    total: int
    free: int


class Estimates:
    """Reads earlier runs; all calls are short."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def measured(self, model: str) -> Measured | None:
        """What the newest runs of a model took; ``None`` before a first measured step."""
        with self._database.read() as session:
            rows = session.exec(
                select(RunTable)
                .where(RunTable.model == model, col(RunTable.step) > 0)
                .order_by(col(RunTable.created_at).desc())
                .limit(RUNS * 3)
            ).all()
            found = [(row, _steps(session, row)) for row in rows]
            found = [(row, steps) for row, steps in found if steps][:RUNS]
            if not found:
                return None
            memory = [_most(session, row.id) for row, _ in found]
        steps = [step for _, several in found for step in several]
        each = sorted(sum(phases.values()) for phases in steps)
        total = sum(each) or 1.0
        return Measured(
            runs=tuple(row.name for row, _ in found),
            steps=len(steps),
            low_s=_at(each, 0.1),
            middle_s=_at(each, 0.5),
            high_s=_at(each, 0.9),
            shares={name: sum(phases.get(name, 0.0) for phases in steps) / total for name in PHASES},
            memory=max((value for value in memory if value is not None), default=None),
        )


def card_footprint(model: ModelInfo, *, gpu: bool) -> Footprint | None:
    """Reckoned memory of a model with default settings, for its card."""
    try:
        return footprint(model, plan(Settings(), model, 8), gpu=gpu)
    except ConfigError:
        return None


def room() -> Room:
    """What memory there is on this machine now."""
    gpus = Gpus()
    found = gpus.read()
    gpus.close()
    if found:
        least = min(found, key=lambda gpu: gpu.total)
        return Room(gpu=True, total=least.total, free=least.total - least.used)
    memory = psutil.virtual_memory()
    return Room(gpu=False, total=memory.total, free=memory.available)


def evaluated_rollouts(plan: Plan, settings: Settings, held_out: int) -> int:
    """Episodes of the held-out evaluations of a run: before, after, and every so many steps."""
    between = (plan.steps - 1) // settings.eval_every if settings.eval_every else 0
    return (2 + between) * held_out * settings.held_out_attempts


def _steps(session: Session, row: RunTable) -> list[dict[str, float]]:
    """Seconds of one rollout by phase, for each measured step of a run."""
    names = [name for several in PHASES.values() for name in several]
    values = session.exec(
        select(MetricTable.name, MetricTable.step, MetricTable.value)
        .where(MetricTable.run_id == row.id, col(MetricTable.name).in_(names))
        .order_by(col(MetricTable.seq))
    ).all()
    episodes = dict(
        session.exec(
            select(RolloutTable.step, func.count())
            .where(RolloutTable.run_id == row.id, RolloutTable.stage == 'train')
            .group_by(col(RolloutTable.step))
        ).all()
    )
    found: dict[int, dict[str, float]] = {}
    for name, step, value in values:
        found.setdefault(step, {})[name] = value
    return [
        {phase: sum(seconds.get(name, 0.0) for name in several) / episodes[step] for phase, several in PHASES.items()}
        for step, seconds in found.items()
        if episodes.get(step) and 'seconds/update' in seconds
    ]


def _most(session: Session, run_id: str) -> int | None:
    most = session.exec(
        select(func.max(MetricTable.value)).where(MetricTable.run_id == run_id, MetricTable.name == TRAINER)
    ).one()
    return None if most is None else round(most * 1e9)


def _at(values: Sequence[float], share: float) -> float:
    """The value below which a share of sorted values lies."""
    return values[min(len(values) - 1, int(share * len(values)))]
