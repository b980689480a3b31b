"""Runs that a trainer could have written, made at once: series, attempts, evaluations, in any state."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from stand_in import task

from studio.ingest import ingest
from studio.runs.views import RunView
from studio.services import Studio
from studio.store.tables import RunTable
from trainer.events import EventWriter, Metrics, RolloutEvent, RunState, State

REWARD = 'rewards/TfcodeEnv/mean'


def measured(
    studio: Studio,
    name: str = 'a run',
    *,
    tasks: Sequence[str] = (),
    held_out: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    rows: Mapping[int, Mapping[str, float]] | None = None,
    solved: Callable[[int, str], float | None] = lambda step, task: 1.0,
    evaluations: Mapping[str, Mapping[str, int]] | None = None,
    state: RunState = 'finished',
) -> RunView:
    """A run over these tasks with rows by step, four attempts at one task a step, and solved counts of evaluations.

    ``evaluations``: stage → task id → how many of 8 attempts were solved.
    """
    train = list(tasks) or [published(studio, name)]
    run = studio.runs.create(name, 'starter', dict(settings or {}), train, held_out)
    folder = studio.runs.folder(run.id)
    with EventWriter(folder.events) as events:
        events.write(State(state='training'))
        for place, (step, values) in enumerate((rows or {}).items()):
            events.write(Metrics(step=step, values=dict(values)))
            attempted = train[place % len(train)]
            reward = solved(step, attempted)
            outcome = 'error' if reward is None else 'passed' if reward == 1 else 'failed'
            for index in range(4):
                events.write(
                    RolloutEvent(step=step, task=attempted, index=index, outcome=outcome, reward=reward, offset=0)
                )
        if state != 'training':
            events.write(State(state=state))
    for stage, counts in (evaluations or {}).items():
        (folder.path / f'evaluation-{stage}.json').write_text(json.dumps(evaluation(counts)), encoding='utf-8')
    ingest(studio.database, run.id, folder)
    with studio.database.write() as session:
        row = session.get(RunTable, run.id)
        assert row is not None
        row.state, row.started_at = state, datetime.now(UTC)
        row.ended_at = None if state == 'training' else row.started_at
    return studio.runs.get(run.id)


def evaluation(counts: Mapping[str, int]) -> dict[str, Any]:
    """An evaluation of 8 attempts a task."""
    tasks = [
        {'id': id, 'title': '', 'solved': solved, 'attempts': 8, 'errors': 0, 'low': 0.1, 'high': 0.9}
        for id, solved in counts.items()
    ]
    total = sum(counts.values())
    share = total / (8 * len(counts))
    return {
        'k': 8, 'mean': share, 'low': 0.1, 'high': 0.9, 'solved': total, 'attempts': 8 * len(counts), 'tasks': tasks,
    }  # fmt: skip


def published(studio: Studio, title: str, number: int = 0) -> str:
    """The id of a published task that is no other's copy."""
    made = task(number, title=title)
    spec = made.task_spec.model_copy(update={'prompt': f'{made.task_spec.prompt} {title} {number}'})
    return studio.documents.create(made.model_copy(update={'task_spec': spec}), status='published').id
