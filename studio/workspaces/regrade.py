"""Grading final workspaces again in the background: one job at a time, its result kept beside the run."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from sqlmodel import col, select

from studio.documents.rows import task_file
from studio.errors import NotFound
from studio.runs.service import Runs
from studio.settings import Settings
from studio.store.database import Database
from studio.store.tables import DocumentTable, RolloutTable, VersionTable
from studio.workspaces.regrade_views import Asked, Choices, RegradeView, Row, Stored, TaskChoice
from trainer.errors import RlvrError, RunFolderError, StoreError
from trainer.kept_workspaces import FOLDER_NAME, KeptWorkspace, WorkspaceFolder
from trainer.regrade import CHANGES, Change, Ground, Regraded, counted, obstacle, regrade
from trainer.runfolder import write_json
from trainer.sandbox import SandboxScope, open_sandbox
from trainer.sandbox.python_env import package_environment
from trainer.task import TaskFile, TaskSpec

FILE: Final = 'regrade.json'
PAGE: Final = 50
_log = logging.getLogger(__name__)


class Regrades:
    """Jobs by run. Thread-safe. Raises ``NotFound``, ``StoreError``, ``RunFolderError``."""

    def __init__(self, database: Database, settings: Settings, runs: Runs) -> None:
        self._database, self._settings = database, settings
        self._runs = runs
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}

    def choices(self, run_id: str) -> Choices:
        """What of a run can be graded again, and with which checkers."""
        rows = self._rollouts(run_id, Asked())
        of_offset = {row.offset: row.task for row in rows}
        kept = Counter(of_offset[offset] for offset in self._folder(run_id).offsets() if offset in of_offset)
        now = self._library(run_id)
        tasks = tuple(self._choice(task, kept[task.id], now.get(task.id)) for task in self._frozen(run_id))
        return Choices(
            recorded=len(rows),
            kept=sum(kept.values()),
            bytes=_bytes(self._runs.folder_path(run_id) / FOLDER_NAME),
            tasks=tasks,
            why_none='' if kept else self._why_none(run_id, len(rows)),
        )

    def specs(self, run_id: str, task_id: str) -> tuple[TaskSpec, TaskSpec | None]:
        """A task as the run has it, and as the library has it now, if it has."""
        frozen = next((task for task in self._frozen(run_id) if task.id == task_id), None)
        if frozen is None:
            raise NotFound(f'The run has no task {task_id}')
        now = self._library(run_id).get(task_id)
        return frozen.task_spec, now.task_spec if now else None

    def start(self, run_id: str, asked: Asked) -> RegradeView:
        """Begin to grade again. Raises ``StoreError`` where something is being graded already."""
        view = self._runs.get(run_id)
        with self._lock:
            busy = next((id for id, job in self._jobs.items() if job.view.is_active), None)
            if busy is not None:
                other = 'This run' if busy == run_id else f'"{self._runs.get(busy).name}"'
                raise StoreError(f'{other} is being graded again now', hint='Wait until it is done, or cancel it.')
            job = self._jobs[run_id] = _Job(self, run_id, asked)
        _log.info('Grading %s again', view.name)
        job.start()
        return job.view

    def view(self, run_id: str) -> RegradeView | None:
        """The job of a run, or how its last one ended; ``None`` where none was made."""
        job = self._jobs.get(run_id)
        if job is not None:
            return job.view
        stored = self._stored(run_id)
        return stored.view if stored else None

    def rows(self, run_id: str, *, change: Change | str = '', page: int = 1) -> tuple[list[Row], int]:
        """A page of results, what flipped first and then the newest; and how many there are."""
        job = self._jobs.get(run_id)
        stored = None if job is not None else self._stored(run_id)
        rows = job.rows if job is not None else list(stored.rows) if stored else []
        fitting = [row for row in rows if change in ('', row.result.change)]
        fitting.sort(key=lambda row: (CHANGES.index(row.result.change), -row.result.step, row.id))
        return fitting[(page - 1) * PAGE : page * PAGE], len(fitting)

    def cancel(self, run_id: str) -> None:
        """End what runs; what was graded by then stays."""
        job = self._jobs.get(run_id)
        if job is not None:
            job.cancel()

    def close(self) -> None:
        """End every job and wait for it."""
        for job in list(self._jobs.values()):
            job.cancel()
            job.join()

    # ------------------------------------------------------------ for the job

    def selected(self, run_id: str, asked: Asked) -> tuple[list[tuple[int, KeptWorkspace]], int]:
        """The workspaces that were asked for with the ids of their rollouts; and how many rollouts have none."""
        rows = self._rollouts(run_id, asked)
        kept = {one.offset: one for one in self._folder(run_id).all()}
        found = [(row.seq, kept[row.offset]) for row in rows if row.offset in kept]
        return found, len(rows) - len(found)

    def tasks(self, run_id: str, asked: Asked) -> dict[str, TaskSpec | str]:
        """The spec to grade each task with, or why it cannot be graded."""
        frozen = {task.id: task.task_spec for task in self._frozen(run_id)}
        if asked.source == 'frozen':
            return dict(frozen)
        now = self._library(run_id)
        found: dict[str, TaskSpec | str] = {}
        for id, spec in frozen.items():
            other = now.get(id)
            if other is None:
                found[id] = 'the library has no valid version of this task'
            else:
                found[id] = obstacle(spec, other.task_spec) or other.task_spec
        return found

    def ground(self, run_id: str) -> Ground:
        """Where the run's checks run: with the packages it was trained with. Raises ``SandboxError``.

        Making a sandbox is the only proof that one can be made: without one every verdict would become an error.
        """
        open_sandbox(isolation=self._settings.sandbox).close()
        packages = self._runs.folder(run_id).config().settings.rl.pip_packages
        home = self._settings.home
        return Ground(home, self._settings.sandbox, package_environment(home, packages))

    def grade(self, run_id: str, kept: Sequence[KeptWorkspace], asked: Asked, **more: Any) -> None:
        """Grade workspaces with what was asked for."""
        regrade(self._runs.folder(run_id), kept, self.tasks(run_id, asked), self.ground(run_id), **more)

    def keep(self, run_id: str, stored: Stored) -> None:
        """Write the result beside the run. Raises ``OSError``."""
        write_json(self._runs.folder_path(run_id) / FILE, stored.model_dump(mode='json'))

    # ------------------------------------------------------------------ reads

    def _choice(self, frozen: TaskFile, kept: int, now: TaskFile | None) -> TaskChoice:
        choice = TaskChoice(id=frozen.id, title=frozen.title, kept=kept, version=frozen.version)
        if now is None:
            return choice.model_copy(update={'obstacle': 'it is not in the library any more'})
        then, spec = frozen.task_spec, now.task_spec
        changed = (then.checker, then.setup_files) != (spec.checker, spec.setup_files)
        why = obstacle(then, spec)
        return choice.model_copy(update={'now': now.version, 'is_changed': changed, 'obstacle': why})

    def _rollouts(self, run_id: str, asked: Asked) -> Sequence[RolloutTable]:
        where = [col(RolloutTable.run_id) == run_id]
        if asked.task:
            where.append(col(RolloutTable.task) == asked.task)
        if asked.results == 'not_passed':
            where.append(col(RolloutTable.outcome).in_(('failed', 'partial')))
        elif asked.results:
            where.append(col(RolloutTable.outcome) == asked.results)
        with self._database.read() as session:
            rows = session.exec(select(RolloutTable).where(*where).order_by(col(RolloutTable.seq))).all()
        picked = set(asked.rollouts)
        return [row for row in rows if row.seq in picked] if picked else rows

    def _frozen(self, run_id: str) -> list[TaskFile]:
        folder = self._runs.folder(run_id)
        try:
            return [*folder.tasks(), *folder.held_out_tasks()]
        except OSError as error:
            raise RunFolderError(f'The tasks of this run cannot be read: {error.strerror or error}') from None

    def _library(self, run_id: str) -> dict[str, TaskFile]:
        """The current versions of a run's tasks, as far as the library has them."""
        ids = [task.id for task in self._frozen(run_id)]
        with self._database.read() as session:
            rows = session.exec(
                select(DocumentTable, VersionTable.task_spec)
                .join(VersionTable, col(VersionTable.document_id) == col(DocumentTable.id))
                .where(col(DocumentTable.id).in_(ids), col(DocumentTable.deleted_at).is_(None))
                .where(col(VersionTable.number) == col(DocumentTable.version))
            ).all()
        return {row.id: task_file(row, spec) for row, spec in rows}

    def _folder(self, run_id: str) -> WorkspaceFolder:
        return WorkspaceFolder(self._runs.folder_path(run_id))

    def _why_none(self, run_id: str, recorded: int) -> str:
        if not recorded:
            return 'No rollout has ended yet.'
        if not self._runs.folder(run_id).config().settings.keep_workspaces_mb:
            return 'This run keeps no final workspaces: its setting keepWorkspacesMb is 0.'
        return 'No final workspace of this run is there: it was made before they were kept, or none could be stored.'

    def _stored(self, run_id: str) -> Stored | None:
        path = self._runs.folder_path(run_id) / FILE
        try:
            return Stored.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            _log.warning('%s cannot be read: %s', path, error)
            return None


class _Job:
    """One thread that grades."""

    def __init__(self, service: Regrades, run_id: str, asked: Asked) -> None:
        self._service, self._run_id, self._asked = service, run_id, asked
        self._lock = threading.Lock()
        self._scope = SandboxScope()
        self._rows: list[Row] = []
        self._ids: dict[int, int] = {}
        self._began = time.monotonic()
        self._view = RegradeView(state='running', asked=asked, text='Looking', started_at=datetime.now(UTC))
        self._thread = threading.Thread(target=self._run, name='regrade', daemon=True)

    @property
    def view(self) -> RegradeView:
        """How far it is."""
        with self._lock:
            return self._view

    @property
    def rows(self) -> list[Row]:
        """What was graded by now."""
        with self._lock:
            return list(self._rows)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def cancel(self) -> None:
        """End what runs."""
        self._scope.end()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        state, reason = 'done', ''
        try:
            self._grade()
        except RlvrError as error:
            state, reason = 'stopped', f'{error.message}. {error.hint}' if error.hint else error.message
        except Exception as error:
            # Whatever else breaks must not leave a page that waits for ever.
            _log.exception('Grading again failed')
            state, reason = 'stopped', f'{type(error).__name__}: {error}'
        if self._scope.ended:
            state, reason = 'cancelled', ''
        with self._lock:
            counts = counted(row.result for row in self._rows)
            ended = {'state': state, 'reason': reason, 'text': '', 'eta_s': None, 'ended_at': datetime.now(UTC)}
            final = self._view.model_copy(update={**ended, 'counts': counts})
            stored = Stored(view=final, rows=tuple(self._rows))
        try:
            self._service.keep(self._run_id, stored)
        except OSError as error:
            said = f'The result could not be stored, it is gone when the studio ends: {error.strerror or error}'
            final = final.model_copy(update={'reason': f'{reason} {said}'.strip()})
        with self._lock:
            self._view = final

    def _grade(self) -> None:
        found, missing = self._service.selected(self._run_id, self._asked)
        self._ids = {kept.offset: id for id, kept in found}
        self._set(total=len(found), not_kept=missing, text='Grading')
        kept = [kept for _, kept in found]
        self._service.grade(self._run_id, kept, self._asked, on_result=self._graded, scope=self._scope)

    def _graded(self, result: Regraded) -> None:
        with self._lock:
            self._rows.append(Row(id=self._ids[result.offset], result=result))
            done = len(self._rows)
            counts = dict(self._view.counts) or dict.fromkeys(CHANGES, 0)
        counts[result.change] += 1
        each = (time.monotonic() - self._began) / done
        self._set(done=done, counts=counts, eta_s=each * (self._view.total - done))

    def _set(self, **changes: Any) -> None:
        with self._lock:
            self._view = self._view.model_copy(update=changes)


def _bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob('*') if not path.is_dir())
