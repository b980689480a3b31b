"""Two to six runs side by side: their series, what differs in their configuration, and task by task what changed.

Any run will do, whatever its state and age. What a run did not record is unknown, which is no difference.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import sqlalchemy
from sqlalchemy import Integer, cast, func
from sqlmodel import Session, col, select

from studio.errors import NotFound
from studio.runs.results import EvaluationView, Results, TaskResult
from studio.runs.series import Line
from studio.runs.service import Runs
from studio.runs.views import RunTask, RunView
from studio.store.database import Database
from studio.store.ids import is_id
from studio.store.tables import RolloutTable
from trainer.config import Plan, Settings, resolve
from trainer.errors import ConfigError, RunFolderError
from trainer.validation import Document

_log = logging.getLogger(__name__)

MOST: Final = 6
"""So many runs can be told apart."""
RECENT_STEPS: Final = 20
"""A training task is judged by the attempts of so many last steps of a run."""
POINTS: Final = 480
"""About so many points of one series are drawn for all runs together."""

_PLANNED: Final = {
    'learningRate': 'learning_rate', 'epochs': 'epochs', 'temperature': 'temperature', 'loraRank': 'lora_rank',
    'loraAlpha': 'lora_alpha', 'batchSize': 'batch_size', 'gradientAccumulationSteps': 'accumulation',
    'processes': 'processes', 'toolAnswerTokens': 'answer_tokens', 'rl.generationEngine': 'engine',
    'rl.numGenerations': 'generations', 'rl.maxCompletionLength': 'max_completion_length', 'rl.maxSteps': 'steps',
}  # fmt: skip
"""Settings of which the plan says what they came to: what was left to the preset in one run and given in another."""
_UNTOLD: Final = ('rl.enabled', 'rl.env', 'spot', 'beta')
"""The same in every run."""


class Difference(Document):
    """A key of the configuration with its value in each run, ``None`` where that is not known."""

    key: str
    values: tuple[str | None, ...]
    default: str = ''
    differs: bool


class Score(Document):
    """How a run does at a task. ``held_out``: share of attempts solved; ``train``: mean reward of the last steps.

    ``n`` attempts were scored; ``before`` is what the base model solved. ``low`` and ``high``: 95 % interval.
    """

    kind: Literal['held_out', 'train']
    mean: float | None
    n: int
    errors: int = 0
    before: float | None = None
    low: float | None = None
    high: float | None = None
    step: int | None = None
    version: int | None = None


class ComparedTask(Document):
    """A task with its score in each run; ``None``: that run does not have it. ``change``: highest less lowest mean."""

    title: str
    scores: tuple[Score | None, ...]
    change: float | None
    versions_differ: bool


class Comparison:
    """Compares runs of a store. Thread-safe. Ids of runs that are gone are left out by ``views`` alone."""

    def __init__(self, database: Database, runs: Runs, results: Results) -> None:
        self._database = database
        self._runs = runs
        self._results = results

    def views(self, ids: Iterable[str]) -> tuple[list[RunView], list[str]]:
        """The runs in the order they were named, at most ``MOST``, and the ids there is no run of."""
        found: list[RunView] = []
        gone: list[str] = []
        for id in list(dict.fromkeys(ids))[:MOST]:
            try:
                found.append(self._runs.get(id))
            except NotFound:
                gone.append(id)
        return found, gone

    def series(self, ids: Sequence[str]) -> dict[str, int]:
        """Every series any of the runs wrote, sorted, and how many of them did."""
        counts: dict[str, int] = {}
        for id in ids:
            for name in self._runs.metric_names(id):
                counts[name] = counts.get(name, 0) + 1
        return dict(sorted(counts.items()))

    def lines(self, ids: Sequence[str], names: Sequence[str]) -> list[dict[str, Line]]:
        """The series of each run over its steps, thinned the more the more runs there are."""
        return [self._runs.lines(id, names, buckets=max(60, POINTS // 2 // len(ids))) for id in ids]

    def configuration(self, views: Sequence[RunView]) -> tuple[Difference, ...]:
        """What each run was made with, key by key: those that differ first."""
        columns = [self._configuration(view) for view in views]
        keys = list(dict.fromkeys(key for column in columns for key in column))
        standard = _flat(Settings().model_dump(mode='json', by_alias=True))
        rows = []
        for key in keys:
            values = tuple(column.get(key) for column in columns)
            default = _text(standard[key]) if key in standard and standard[key] is not None else ''
            rows.append(Difference(key=key, values=values, default=default, differs=_differ(values)))
        return tuple(sorted(rows, key=lambda row: not row.differs))

    def tasks(self, views: Sequence[RunView]) -> tuple[ComparedTask, ...]:
        """The tasks of the runs, those that changed most first. One is the same where its content or its id is."""
        rows: list[list[tuple[RunTask, Score] | None]] = []
        places: dict[str, int] = {}
        for number, view in enumerate(views):
            for task, score in self._scores(view):
                known = [f'hash {task.hash}', *([f'id {task.id}'] if is_id(task.id) else [])]
                place = next((places[key] for key in known if key in places), None)
                if place is None or rows[place][number] is not None:
                    place = len(rows)
                    rows.append([None] * len(views))
                rows[place][number] = (task, score)
                for key in known:
                    places.setdefault(key, place)
        compared = [_compared(row) for row in rows]
        return tuple(sorted(compared, key=lambda row: (row.change is None, -(row.change or 0.0), row.title)))

    # ----------------------------------------------------------- configuration

    def _configuration(self, view: RunView) -> dict[str, str]:
        known: dict[str, Any] = {'model': view.model, 'trainingType': view.training_type}
        tasks = self._runs.tasks(view.id)
        for role, key in (('train', 'tasks'), ('held_out', 'heldOutTasks')):
            known[key] = _task_set([task for task in tasks if task.role == role])
        known |= {key: value for key, value in _flat(view.settings).items() if key not in _UNTOLD}
        if not view.settings.get('coldStart'):
            known['coldStart'] = 'off'
        plan = self._plan(view)
        if plan is not None:
            known |= {key: getattr(plan, field) for key, field in _PLANNED.items()}
            known['tasks per step'] = plan.groups
        known |= self._surroundings(view)
        return {key: _text(value) for key, value in known.items() if value is not None}

    def _plan(self, view: RunView) -> Plan | None:
        """What the settings came to: as the trainer wrote it, or as it would be made here."""
        folder = self._runs.folder(view.id)
        try:
            return Plan.model_validate_json((folder.path / 'plan.json').read_bytes())
        except (OSError, ValueError):
            pass  # Not begun yet, or made by another version.
        try:
            return resolve(folder.config(), max(1, view.task_count))[1]
        except (ConfigError, RunFolderError):
            return None

    def _surroundings(self, view: RunView) -> dict[str, Any]:
        """What a run recorded of the machine and the libraries."""
        path = self._runs.folder_path(view.id)
        lineage = _json(path / 'adapter' / 'lineage.json')
        libraries = {f'library {name}': version for name, version in _mapping(lineage.get('libraries')).items()}
        isolation = _json(path / 'isolation.json').get('name')
        notices = self._runs.events(view.id, types=('notice',), limit=20)
        texts = [event.text for event in notices if event.type == 'notice']
        device = next((text.removeprefix('Device: ') for text in texts if text.startswith('Device: ')), None)
        packages = [f'{name} {version}' for name, version in _json(path / 'packages.json').items()]
        return {'device': device, 'sandbox': isolation, 'installed packages': packages or None, **libraries}

    # ------------------------------------------------------------------- tasks

    def _scores(self, view: RunView) -> list[tuple[RunTask, Score]]:
        before, after = self._evaluation(view.id, 'before'), self._evaluation(view.id, 'after')
        with self._database.read() as session:
            trained = _recent(session, view.id)
            during = _newest_evaluation(session, view.id) if after is None else {}
        found = []
        for task in self._runs.tasks(view.id):
            if task.role == 'train':
                score = trained.get(task.id, Score(kind='train', mean=None, n=0))
            else:
                score = _held_out(before.get(task.id) if before else None, after.get(task.id) if after else None)
                if after is None and task.id in during:
                    score = during[task.id].model_copy(update={'before': score.before})
            found.append((task, score.model_copy(update={'version': task.version})))
        return found

    def _evaluation(self, id: str, stage: Literal['before', 'after']) -> dict[str, TaskResult] | None:
        try:
            view: EvaluationView | None = self._results.evaluation(id, stage)
        except RunFolderError as error:
            _log.warning('%s', error)  # A damaged file must not hide the other runs.
            return None
        return None if view is None else {task.id: task for task in view.tasks}


def _recent(session: Session, run_id: str) -> dict[str, Score]:
    """Mean rewards of the last steps by task."""
    last = session.exec(
        select(func.max(RolloutTable.step)).where(RolloutTable.run_id == run_id, RolloutTable.stage == 'train')
    ).one()
    if last is None:
        return {}
    rows = _sums(session, run_id, 'train', last + 1 - RECENT_STEPS)
    return {
        task: Score(kind='train', mean=total / n if n else None, n=n, errors=errors, step=last)
        for task, total, _, n, errors in rows
    }


def _newest_evaluation(session: Session, run_id: str) -> dict[str, Score]:
    """What was solved in the newest evaluation while training, by task."""
    last = session.exec(
        select(func.max(RolloutTable.step)).where(RolloutTable.run_id == run_id, RolloutTable.stage == 'during')
    ).one()
    if last is None:
        return {}
    return {
        task: Score(kind='held_out', mean=solved / n if n else None, n=n, errors=errors, step=last)
        for task, _, solved, n, errors in _sums(session, run_id, 'during', last)
    }


def _sums(session: Session, run_id: str, stage: str, first: int) -> Sequence[Any]:
    """Of each task since a step: sum of rewards, how many were solved, were scored, were errors."""
    outcome, reward = col(RolloutTable.outcome), col(RolloutTable.reward)
    sums = (func.coalesce(func.sum(reward), 0.0), func.sum(cast(outcome == 'passed', Integer)), func.count(reward))
    return session.execute(
        sqlalchemy.select(col(RolloutTable.task), *sums, func.sum(cast(outcome == 'error', Integer)))
        .where(col(RolloutTable.run_id) == run_id, col(RolloutTable.stage) == stage, col(RolloutTable.step) >= first)
        .group_by(col(RolloutTable.task))
    ).all()


def _held_out(before: TaskResult | None, after: TaskResult | None) -> Score:
    first = _share(before) if before else None
    if after is None:
        return Score(kind='held_out', mean=None, n=0, before=first)
    scored = max(0, after.attempts - after.errors)
    return Score(
        kind='held_out',
        mean=_share(after),
        n=scored,
        errors=after.errors,
        before=first,
        low=after.low if scored else None,
        high=after.high if scored else None,
    )


def _share(result: TaskResult) -> float | None:
    scored = result.attempts - result.errors
    return result.solved / scored if scored > 0 else None


def _compared(row: Sequence[tuple[RunTask, Score] | None]) -> ComparedTask:
    known = [pair for pair in row if pair is not None]
    means = [score.mean for _, score in known if score.mean is not None]
    return ComparedTask(
        title=known[0][0].title or known[0][0].id,
        scores=tuple(pair[1] if pair else None for pair in row),
        change=max(means) - min(means) if len(means) > 1 else None,
        versions_differ=len({task.hash for task, _ in known}) > 1,
    )


def _task_set(tasks: Sequence[RunTask]) -> str:
    """How many tasks, and a sum over what they are: two runs over the same tasks say the same."""
    if not tasks:
        return 'none'
    digest = hashlib.sha256('\n'.join(sorted(task.hash for task in tasks)).encode()).hexdigest()
    return f'{len(tasks)} · {digest[:6]}'


def _flat(values: Mapping[str, Any], lead: str = '') -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f'{lead}{key}.') if isinstance(value, Mapping) else {lead + key: value}
    return flat


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, int | float):
        return f'{value:g}' if abs(value) < 1e6 else f'{value}'
    if isinstance(value, list | tuple):
        return ', '.join(map(str, value)) or 'none'
    return str(value)


def _differ(values: Sequence[str | None]) -> bool:
    return len({value for value in values if value is not None}) > 1


def _json(path: Any) -> dict[str, Any]:
    """A JSON object that a trainer wrote; what cannot be read says nothing."""
    try:
        return _mapping(json.loads(path.read_text(encoding='utf-8')))
    except (OSError, ValueError):
        return {}


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
