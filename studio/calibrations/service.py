"""Calibrations: how often a model or an adapter solves tasks, measured in the background and kept by task version.

One calibration works at a time. More attempts by the same model with the same sampling add up; whatever ends a
calibration early, what it had counted stays.
"""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from sqlmodel import col, select

from studio.adapters.service import Adapters
from studio.calibrations.forecast import Forecast
from studio.calibrations.job import CalibrationJob
from studio.calibrations.rows import job_view, keep_subject, latest_versions, new_subject, subject_view
from studio.calibrations.views import (
    MAX_ATTEMPTS,
    USUAL_ATTEMPTS,
    AlreadyCalibrating,
    JobView,
    Subject,
    Who,
)
from studio.documents.pass_rates import PassRate
from studio.documents.tiers import rates_of
from studio.errors import NotFound
from studio.runs.service import Runs
from studio.settings import Settings
from studio.store.database import Database
from studio.store.ids import new_id
from studio.store.tables import CalibrationJobTable, CalibrationSubjectTable
from trainer.errors import ConfigError, FieldError, RlvrError, TaskError
from trainer.models import STARTER

_ACTIVE: Final = ('waiting', 'running')


class Calibrations:
    """The calibrations of a studio. Thread-safe. Raises ``ConfigError``, ``TaskError``, ``StoreError``."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        runs: Runs,
        adapters: Adapters,
        *,
        module: str = 'trainer.calibrate',
    ) -> None:
        self._database, self._settings, self._runs, self._adapters = database, settings, runs, adapters
        self._module = module
        self._lock = threading.Lock()
        self._job: CalibrationJob | None = None

    # ---------------------------------------------------------------------------------------------------- the work

    def start(self, ids: Sequence[str], who: Who, *, k: int = USUAL_ATTEMPTS, beside_runs: bool = False) -> JobView:
        """Begin to attempt the latest versions of documents, ``k`` times each. Returns at once.

        It waits while a training run works, unless it may work ``beside_runs``. Raises ``AlreadyCalibrating``,
        ``TaskError`` where none of the documents has a valid version, ``ConfigError`` at what is wrong.
        """
        if not 1 <= k <= MAX_ATTEMPTS:
            said = f'1 to {MAX_ATTEMPTS} attempts, not {k}'
            raise ConfigError(said, [FieldError(loc='k', msg=said)])
        wanted = self._subject(who)
        with self._lock:
            self._refuse_a_second()
            with self._database.write() as session:
                tasks = latest_versions(session, ids)
                if not tasks:
                    raise TaskError('None of these tasks has a valid version', hint='Open one and mend its problems.')
                subject = keep_subject(session, wanted)
                row = CalibrationJobTable(
                    id=new_id(),
                    subject=subject.key,
                    k=k,
                    seed=secrets.randbelow(2**31),
                    beside_runs=beside_runs,
                    state='waiting',
                    tasks=[task.id for task in tasks],
                    counted={},
                    created_at=datetime.now(UTC),
                )
                session.flush()
                session.add(row)
                view = job_view(row, self._seen(subject))
            skipped = len(set(ids)) - len(tasks)
            return self._begin(CalibrationJob(
                self._database,
                self._settings,
                tasks,
                view.model_copy(update={'skipped': skipped}),
                seed=row.seed,
                beside_runs=beside_runs,
                busy=self._training,
                module=self._module,
            ))  # fmt: skip

    def go_on(self, job_id: str) -> JobView:
        """Begin a calibration of what an earlier one left, with the same settings."""
        with self._database.read() as session:
            row = session.get(CalibrationJobTable, job_id)
            subject = session.get(CalibrationSubjectTable, row.subject) if row is not None else None
        if row is None or subject is None:
            raise NotFound('This calibration is not known any more', hint='Start a new one.')
        who = Who(
            model=subject.model,
            adapter=subject.adapter,
            adapter_id=subject.adapter_id,
            temperature=subject.temperature,
            tokens=subject.tokens,
        )
        return self.start(row.tasks[row.counted.get('tasks', 0) :], who, k=row.k, beside_runs=row.beside_runs)

    def cancel(self) -> None:
        """End the calibration that works; what it counted stays. Returns when its processes are gone."""
        if self._job is not None:
            self._job.end('cancelled')

    def job(self) -> JobView | None:
        """The newest calibration, whatever became of it."""
        if self._job is not None:
            return self._job.view
        with self._database.read() as session:
            found = session.exec(
                select(CalibrationJobTable, CalibrationSubjectTable)
                .join(CalibrationSubjectTable, col(CalibrationSubjectTable.key) == col(CalibrationJobTable.subject))
                .order_by(col(CalibrationJobTable.id).desc())
            ).first()
            return job_view(found[0], self._seen(found[1])) if found is not None else None

    def wait(self, timeout_s: float | None = None) -> JobView | None:
        """Wait until the calibration that works has ended."""
        if self._job is not None:
            self._job.join(timeout_s)
        return self.job()

    def recover(self) -> None:
        """Say of calibrations that ended with an earlier studio that they were interrupted."""
        with self._database.write() as session:
            query = select(CalibrationJobTable).where(col(CalibrationJobTable.state).in_(_ACTIVE))
            for row in session.exec(query).all():
                row.state, row.reason, row.ended_at = 'interrupted', 'The studio ended meanwhile', datetime.now(UTC)
        shutil.rmtree(self._settings.home / 'calibrations', ignore_errors=True)

    def close(self) -> None:
        """End what works: it is interrupted, and can be gone on with."""
        if self._job is not None:
            self._job.end('interrupted', 'The studio ended meanwhile')

    # ---------------------------------------------------------------------------------------------- what is known

    def subjects(self) -> tuple[Subject, ...]:
        """Every model and adapter that attempted tasks, the one that was used last first."""
        with self._database.read() as session:
            query = select(CalibrationSubjectTable).order_by(col(CalibrationSubjectTable.used_at).desc())
            return tuple(self._seen(row) for row in session.exec(query).all())

    def nearest(self, who: Who) -> Subject | None:
        """The subject that says most of what this one will do: the same weights, with the same sampling if known."""
        wanted = self._subject(who)
        same = [one for one in self.subjects() if (one.model, one.adapter_hash) == (wanted.model, wanted.adapter_hash)]
        return next((one for one in same if one.key == wanted.key), next(iter(same), None))

    def rates(self, ids: Iterable[str], subject: str) -> dict[str, PassRate]:
        """What a subject earned on the latest versions of documents; those that it never attempted are left out."""
        with self._database.read() as session:
            return rates_of(session, ids, subject)

    def known(self, ids: Iterable[str], who: Who) -> tuple[Subject | None, dict[str, PassRate]]:
        """Whose attempts say most of a model, and what they say of documents; nothing where there were none."""
        try:
            subject = self.nearest(who)
        except RlvrError:  # a model that is not there has attempted nothing
            subject = None
        return subject, self.rates(ids, subject.key) if subject is not None else {}

    def forecast(self, ids: Sequence[str], who: Who) -> Forecast:
        """The forecast for tasks that a model is trained on."""
        return Forecast(ids, self.known(ids, who)[1])

    def seconds(self, who: Who) -> float | None:
        """What one attempt of this model took before, whatever the sampling; ``None`` where none is known."""
        try:
            wanted = self._subject(who)
        except RlvrError:
            return None
        timed = [one for one in self.subjects() if one.seconds_each is not None and one.model == wanted.model]
        best = next((one for one in timed if one.key == wanted.key), next(iter(timed), None))
        return best.seconds_each if best is not None else None

    # ----------------------------------------------------------------------------------------------------- details

    def _begin(self, job: CalibrationJob) -> JobView:
        self._job = job
        job.start()
        return job.view

    def _refuse_a_second(self) -> None:
        if self._job is not None and self._job.view.is_active:
            raise AlreadyCalibrating(
                'Another calibration works now', hint='Wait for its end, or cancel it in the library.'
            )

    def _training(self) -> str:
        """The name of the training run that uses the device."""
        return next((run.name for run in self._runs.working()), '')

    def _subject(self, who: Who) -> CalibrationSubjectTable:
        adapter = self._adapters.get(who.adapter_id).path if who.adapter_id else who.adapter
        return new_subject(who.model or STARTER.id, adapter, who.adapter_id, who.temperature, who.tokens)

    def _seen(self, row: CalibrationSubjectTable) -> Subject:
        name = ''
        if row.adapter_id:
            try:
                found = self._adapters.get(row.adapter_id)
                name = f'{found.name} v{found.number}'
            except RlvrError:  # deleted since: its folder still tells it apart
                name = row.adapter_id[-6:]
        return subject_view(row, name)
