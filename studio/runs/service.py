"""Runs: made once with frozen tasks, started exactly once, stopped whole, read from any page.

Starting is a claim in the database: of twenty parallel calls one wins, the others learn which run it made. Whose turn
it is when several are started is the business of ``queue``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import func
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select

from studio.documents.service import Documents
from studio.launchers import LocalLauncher
from studio.runs.queue import RunQueue, next_place, row_of
from studio.runs.views import (
    AlreadyStarted,
    HeatCell,
    HeatRow,
    PlanView,
    RolloutRow,
    RunPage,
    RunQuery,
    RunTask,
    RunView,
    Saved,
    Series,
    StillActive,
)
from studio.settings import Settings
from studio.store.database import Database
from studio.store.ids import is_id, new_id
from studio.store.tables import RunTable, RunTaskTable
from trainer import __version__, config
from trainer.errors import ConfigError, FieldError, RunFolderError, StoreError
from trainer.events import FINAL_STATES
from trainer.models import find_model
from trainer.runfolder import CHECKPOINT, STOP, RunFolder
from trainer.task import MAX_TITLE_CHARS, TaskFile

__all__ = [
    'AlreadyStarted',
    'HeatCell',
    'HeatRow',
    'PlanView',
    'RolloutRow',
    'RunPage',
    'RunQuery',
    'RunTask',
    'RunView',
    'Runs',
    'Series',
    'StillActive',
]


class Runs(RunQueue):
    """The runs of a store. Thread-safe. Raises ``NotFound``, ``ConfigError``, ``TaskError``, ``StoreError``."""

    def __init__(self, database: Database, settings: Settings, launcher: LocalLauncher, documents: Documents) -> None:
        super().__init__(database, settings, launcher)
        self._documents = documents

    def draft_plan(self, model: str, settings: Mapping[str, Any], task_ids: Iterable[str]) -> PlanView:
        """What a run with these settings would do; everything that is wrong with them at once."""
        count = len(set(task_ids))
        notes: tuple[FieldError, ...] = ()
        errors: list[FieldError] = []
        parsed = info = plan = None
        try:
            parsed, notes = config.parse_settings(settings)
        except ConfigError as error:
            errors += error.fields
        try:
            info = find_model(model)
        except ConfigError as error:
            errors += error.fields
        if parsed is not None and info is not None:
            try:
                plan = config.plan(parsed, info, count)
            except ConfigError as error:
                errors += error.fields
        return PlanView(
            plan=plan, notes=(*notes, *(plan.notes if plan else ())), errors=tuple(errors), task_count=count
        )

    def create(
        self,
        name: str,
        model: str,
        settings: Mapping[str, Any],
        task_ids: Iterable[str],
        held_out_ids: Iterable[str] = (),
        *,
        request: str = '',
        workspaceid: str = 'local',
        training_type: config.TrainingType = 'grpoTraining',
    ) -> RunView:
        """Freeze settings and tasks into a new run folder; nothing starts. Refused input leaves nothing behind.

        ``request`` is a key the caller chose for this wish: the same key returns the run it made before.
        """
        if request and (made := self._made_by(request)):
            return made
        name = _check_name(name)
        tasks = self._documents.published(task_ids)
        held_out = self._documents.published(held_out_ids)
        _check_apart(tasks, held_out)
        parsed, notes = config.parse_settings(settings)
        plan = config.plan(parsed, find_model(model), len(tasks))
        run = config.RunConfig(
            id=new_id(),
            name=name,
            created_at=datetime.now(UTC),
            training_type=training_type,
            rlvr=training_type == 'grpoTraining',
            model=model,
            settings=_switched(parsed, training_type),
            isolation=self._settings.sandbox,
            home=str(self._settings.home.resolve()),
            lineage={'studio': __version__},
        )
        folder = RunFolder.create(self.folder_path(run.id), run, tasks, held_out)
        try:
            with self._database.write() as session:
                session.add(_new_row(run, plan.steps, len(tasks), (*notes, *plan.notes), request, workspaceid))
                session.flush()
                session.add_all(_task_rows(run.id, 'train', tasks))
                session.add_all(_task_rows(run.id, 'held_out', held_out))
        except IntegrityError:
            shutil.rmtree(folder.path)
            if made := self._made_by(request):
                return made
            raise
        except BaseException:
            shutil.rmtree(folder.path)
            raise
        return self.get(run.id)

    def start(self, id: str, settings: Mapping[str, Any] | None = None) -> RunView:
        """Start a run, or let it wait for the active one. Raises ``AlreadyStarted`` for every caller but the first.

        ``settings`` change those the run was made with, key by key; refused ones start nothing.
        """
        with self._database.write() as session:
            row = row_of(session, id)
            first = row.queued_at is None and row.state == 'queued'
            if first:
                if settings:
                    self._configure(row, settings)
                row.queued_at, row.place = datetime.now(UTC), next_place(session)
        if not first:
            raise AlreadyStarted(self.get(id))
        self.launch_waiting()
        return self.get(id)

    def resume(self, id: str, *, steps: int | None = None) -> RunView:
        """Go on with a run that has ended, from its last checkpoint; ``steps`` raises its step count.

        Raises ``StillActive``, and ``RunFolderError`` or ``ConfigError`` where there is nothing to go on with.
        """
        with self._database.write() as session:
            row = row_of(session, id)
            if row.state not in FINAL_STATES:
                raise StillActive(f'"{row.name}" has not ended', hint='Stop it first, or let it end.')
            folder = self.folder(id)
            folder.reopen(steps=steps)
            row.settings = folder.config().settings.model_dump(mode='json', by_alias=True)
            row.worked_s = self.view(row).elapsed_s or 0.0
            row.state, row.reason, row.queued_at = 'queued', '', datetime.now(UTC)
            row.place = next_place(session)
            row.started_at = row.ended_at = row.stop_requested_at = row.pid = None
        self.launch_waiting()
        return self.get(id)

    def stop(self, id: str) -> RunView:
        """Ask a run to stop; the supervisor ends it whole if it does not. What has ended stays as it is."""
        with self._database.write() as session:
            row = row_of(session, id)
            if row.state in FINAL_STATES:
                return self.view(row)
            if row.started_at is None:
                row.state, row.reason, row.ended_at = 'stopped', 'stopped before it started', datetime.now(UTC)
            elif row.stop_requested_at is None and not (self.folder_path(id) / 'exit.json').exists():
                row.stop_requested_at = datetime.now(UTC)
            asked = row.stop_requested_at is not None
        if asked:
            self.folder(id).request(STOP)
        return self.get(id)

    def checkpoint(self, id: str) -> RunView:
        """Ask for a checkpoint after the step that is being done. Raises ``StoreError`` where nothing is trained."""
        with self._database.read() as session:
            row = row_of(session, id)
        view = self.view(row)
        if view.state != 'training' or view.stopping:
            raise StoreError(
                f'"{view.name}" is not training now',
                hint='A checkpoint can be made from the first step on, until the run ends.',
            )
        self.folder(id).request(CHECKPOINT)
        return view

    def saved(self, id: str) -> Saved:
        """What of a run is on disk now, as far as one can go on from it."""
        with self._database.read() as session:
            row = row_of(session, id)
        steps = [step for step in map(_checkpoint_step, self.folder(id).checkpoints.glob('step-*')) if step]
        return Saved(step=row.step, checkpoint=max(steps, default=0), grace_s=self._settings.stop_grace_s)

    def get(self, id: str) -> RunView:
        """A run: what it waits for while it waits, the last line of its log while it works."""
        with self._database.read() as session:
            row = row_of(session, id)
            waits_for = self.waits_for(session, row)
        view = self.view(row)
        if waits_for:
            return view.model_copy(update={'reason': waits_for})
        if view.is_active:
            lines = [line for line in self.folder(id).log_tail(5) if line.strip()]
            return view.model_copy(update={'last_line': lines[-1][-500:] if lines else ''})
        return view

    def list(self, query: RunQuery | None = None) -> RunPage:
        """A page of runs, newest first."""
        query = query or RunQuery()
        with self._database.read() as session:
            where = [func.lower(RunTable.name).contains(word, autoescape=True) for word in query.search.lower().split()]
            by_state = select(RunTable.state, func.count()).where(*where).group_by(RunTable.state)
            counts = dict(session.exec(by_state).all())
            if query.states:
                where.append(col(RunTable.state).in_(query.states))
            rows = session.exec(
                select(RunTable)
                .where(*where)
                .order_by(col(RunTable.created_at).desc(), col(RunTable.id).desc())
                .offset((query.page - 1) * query.per_page)
                .limit(query.per_page)
            ).all()
        total = sum(count for state, count in counts.items() if not query.states or state in query.states)
        return RunPage(rows=tuple(map(self.view, rows)), total=total, counts=counts)

    def rename(self, id: str, name: str) -> RunView:
        """Change the name; the folder keeps its id."""
        with self._database.write() as session:
            row_of(session, id).name = _check_name(name)
        return self.get(id)

    def delete(self, id: str) -> int:
        """Remove a run, its rows and its folder; return the bytes freed. Raises ``StillActive``."""
        freed = self.folder_bytes(id)
        path = self.folder_path(id)
        doomed = path.with_name(f'.deleted-{id}')
        try:
            with self._database.write() as session:
                row = row_of(session, id)
                if row.started_at is not None and row.state not in FINAL_STATES:
                    raise StillActive(f'"{row.name}" is running', hint='Stop it first, then delete it.')
                session.delete(row)
                if path.exists():
                    path.rename(doomed)
        except BaseException:
            if doomed.exists() and not path.exists():
                doomed.rename(path)  # the row is still there, so its files must be
            raise
        shutil.rmtree(doomed, ignore_errors=True)
        return freed

    def _configure(self, row: RunTable, changes: Mapping[str, Any]) -> None:
        """Change the settings of a run that was not started yet. Raises ``ConfigError``."""
        folder = self.folder(row.id)
        run = folder.config()
        known = run.settings.model_dump(mode='json', by_alias=True, exclude_unset=True)
        rl = changes.get('rl', {})
        merged = {**known, **changes, 'rl': {**known.get('rl', {}), **rl} if isinstance(rl, Mapping) else rl}
        parsed, notes = config.parse_settings(merged)
        plan = config.plan(parsed, find_model(row.model), row.task_count)
        parsed = _switched(parsed, run.training_type)
        row.settings = parsed.model_dump(mode='json', by_alias=True)
        row.notes = [note.model_dump() for note in (*notes, *plan.notes)]
        row.total = plan.steps
        folder.configure(parsed)

    def _made_by(self, request: str) -> RunView | None:
        with self._database.read() as session:
            row = session.exec(select(RunTable).where(RunTable.request == request)).first()
        return self.view(row) if row and request else None

    def adopt(self, path: Path) -> None:
        """Take a run folder that is not in the store (another machine's, or an older store's) into it."""
        run = RunFolder(path).config()
        if run.id != path.name or not is_id(run.id):
            raise RunFolderError(f'{path} was not made by a studio', hint='A run folder is named by its id.')
        folder = RunFolder(path)
        tasks, held_out = folder.tasks(), folder.held_out_tasks()
        claim = folder.claim()
        with self._database.write() as session:
            row = _new_row(run, 0, len(tasks), (), '', 'local')
            if claim is not None:
                row.queued_at = row.started_at = datetime.fromtimestamp(claim.started, UTC)
                row.state, row.pid = 'preparing', claim.pid
            session.add(row)
            session.flush()
            session.add_all(_task_rows(run.id, 'train', tasks))
            session.add_all(_task_rows(run.id, 'held_out', held_out))


def _switched(parsed: config.Settings, training_type: config.TrainingType) -> config.Settings:
    """The settings with ``rl.enabled`` as the kind of training has it. Raises ``ConfigError``."""
    if training_type == 'conversationalTraining':
        if parsed.rl.enabled:
            problem = 'only valid with training_type grpoTraining'
            raise ConfigError(f'rl.enabled is {problem}', [FieldError(loc='rl.enabled', msg=problem)])
        return parsed
    return parsed.model_copy(update={'rl': parsed.rl.model_copy(update={'enabled': True})})


def _checkpoint_step(path: Path) -> int:
    found = re.fullmatch(r'step-(\d+)', path.name)
    return int(found[1]) if found else 0


def _check_name(name: str) -> str:
    """A name is free text and kept as typed. Raises ``ConfigError`` at ``name``."""
    problem = ''
    if not name.strip():
        problem = 'Give the run a name'
    elif len(name) > MAX_TITLE_CHARS:
        problem = f'At most {MAX_TITLE_CHARS} characters, not {len(name)}'
    elif '\0' in name or any(0xD800 <= ord(character) <= 0xDFFF for character in name):
        problem = 'A name cannot hold NUL or half a character'
    if problem:
        raise ConfigError(problem, [FieldError(loc='name', msg=problem)])
    return name


def _check_apart(tasks: Iterable[TaskFile], held_out: Iterable[TaskFile]) -> None:
    """What is trained on proves nothing when it is held out too."""
    trained = {task.id for task in tasks} | {task.hash for task in tasks}
    both = [task for task in held_out if task.id in trained or task.hash in trained]
    if both:
        raise ConfigError(
            f'{len(both)} held-out tasks are training tasks too',
            [FieldError(loc='held_out_ids', msg=f'"{task.title}" is trained on') for task in both],
            hint='Choose each task for one of the two.',
        )


def _new_row(
    run: config.RunConfig, total: int, tasks: int, notes: Iterable[FieldError], request: str, workspaceid: str
) -> RunTable:
    return RunTable(
        id=run.id,
        workspaceid=workspaceid,
        request=request or None,
        name=run.name,
        model=run.model,
        settings=run.settings.model_dump(mode='json', by_alias=True),
        training_type=run.training_type,
        state='queued',
        total=total,
        latest={},
        notes=[note.model_dump() for note in notes],
        task_count=tasks,
        created_at=run.created_at,
    )


def _task_rows(run_id: str, role: str, tasks: Iterable[TaskFile]) -> Iterable[RunTaskTable]:
    for position, task in enumerate(tasks):
        yield RunTaskTable(
            run_id=run_id,
            role=role,
            position=position,
            task_id=task.id,
            title=task.title,
            version=task.version,
            hash=task.hash or task.task_spec.hash,
        )
