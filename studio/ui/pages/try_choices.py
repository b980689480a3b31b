"""What can be tried: tasks of the library or a run's frozen copies, base models, adapters, and the limits that fit."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studio.adapters.views import AdapterVersionView
from studio.documents.views import DocumentQuery
from studio.errors import NotFound
from studio.runs.views import RunView
from trainer.errors import ConfigError, TaskError
from trainer.models import STARTER, ModelInfo, find_model, offered_models
from trainer.task import TaskFile

if TYPE_CHECKING:
    from studio.services import Studio

MANY = 1000
"""Tasks offered; one that was asked for is there besides."""


@dataclass(frozen=True)
class Choices:
    """What the page opens with. Tasks by key: an id of the library, or ``run/task`` for a run's frozen copy.

    ``training``: a run that works now, with which a try shares this machine. ``run_name``: of the run asked for.
    """

    tasks: dict[str, str]
    adapters: dict[str, AdapterVersionView]
    models: dict[str, str]
    training: RunView | None
    task: str
    adapter: str
    model: str
    run_name: str = ''


@dataclass(frozen=True)
class Limits:
    """What an episode gets: tokens, turns, and the temperature to begin with."""

    tokens: int
    turns: int
    temperature: float


def read_choices(studio: Studio, *, task: str, adapter: str, run: str, model: str) -> Choices:
    """Read what there is; what was asked for is picked, where it is there."""
    query = DocumentQuery(status='published', sort='title', descending=False, per_page=MANY)
    tasks = {row.id: row.title.strip() or 'Untitled task' for row in studio.documents.list(query).rows}
    name, frozen = _frozen(studio, run)
    if task and '/' not in task and task not in tasks:
        with contextlib.suppress(NotFound):
            tasks[task] = studio.documents.get(task).title.strip() or 'Untitled task'
    adapters = {version.id: version for named in studio.adapters.list() for version in named.versions}
    found = None
    if adapter or run:
        with contextlib.suppress(NotFound):
            found = studio.adapters.find(adapter or run)
    known = {one.id: one.title for one in offered_models() if _here(one)}
    picked = (found.model if found is not None else '') or model or STARTER.id
    offered = {**frozen, **tasks}
    asked = task if task in offered else f'{run}/{task}'
    return Choices(
        tasks=offered,
        adapters=adapters,
        models=known | {picked: known.get(picked) or model_title(picked)},
        training=studio.runs.active(),
        task=asked if asked in offered else next(iter(offered), ''),
        adapter=found.id if found is not None else '',
        model=picked,
        run_name=name,
    )


def task_of(studio: Studio, key: str) -> TaskFile:
    """The task behind a key, as it is now or as the run froze it. Raises ``NotFound``, ``TaskError``."""
    run, _, task = key.rpartition('/')
    if run:
        return studio.runs.task(run, task)
    view = studio.documents.get(key)
    if view.task_spec is None:
        raise TaskError('This task has no valid version yet', hint='Open it, and see what is wrong with it.')
    return TaskFile(id=view.id, title=view.title, version=view.version, task_spec=view.task_spec)


def packages_of(studio: Studio, key: str) -> tuple[str, ...]:
    """The packages of the Python in the sandbox: those of the run that froze the task, or those of the studio."""
    run = key.rpartition('/')[0]
    if not run:
        return studio.settings.packages
    settings: Any = studio.runs.get(run).settings
    return tuple(settings.get('rl', {}).get('pipPackages', ()))


def limits_of(model: str, adapter: AdapterVersionView | None) -> Limits:
    """The limits that an adapter was trained with, or those that suit its base model."""
    try:
        preset = find_model(model).preset
        tokens, temperature = preset.max_completion_length or 1024, preset.temperature
    except ConfigError:
        tokens, temperature = 1024, 1.0
    plan: Any = adapter.lineage.get('plan') if adapter is not None else None
    plan = plan if isinstance(plan, dict) else {}
    return Limits(
        tokens=_number(plan.get('max_completion_length'), tokens, 16, 8192),
        turns=_number(plan.get('max_turns'), 16, 1, 64),
        temperature=temperature,
    )


def model_title(id: str) -> str:
    """What a model is called."""
    try:
        return find_model(id).title
    except ConfigError:
        return id


def _frozen(studio: Studio, run: str) -> tuple[str, dict[str, str]]:
    """The name of a run, and its frozen tasks by key."""
    if not run:
        return '', {}
    try:
        name = studio.runs.get(run).name
        tasks = studio.runs.tasks(run)
    except NotFound:
        return '', {}
    role = {'train': 'trained on', 'held_out': 'held out'}
    ordered = sorted(tasks, key=lambda task: task.role)
    return name, {f'{run}/{task.id}': f'{task.title} · {role[task.role]} in {name}' for task in ordered}


def _here(model: ModelInfo) -> bool:
    """Whether a model is offered here: bundled ones are on this machine, the others are downloaded when asked for."""
    return model.kind != 'local' or Path(model.source).is_dir()


def _number(value: Any, otherwise: int, low: int, high: int) -> int:
    return min(high, max(low, value)) if isinstance(value, int) and not isinstance(value, bool) else otherwise
