"""Parity proofs of adapters: asked for when a run ends or by a button, made one at a time when no run works.

Which proofs are asked for stands in the store; the process that makes one ends with this studio, or when a run starts
(training comes first), and the proof is then made anew.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from sqlmodel import col, select

from studio.adapters.rows import named_base, version_row
from studio.adapters.service import Adapters
from studio.adapters.views import ProofState
from studio.errors import NotFound
from studio.runs.queue import RunQueue
from studio.settings import Settings
from studio.side_jobs.service import SideJobs, SideJobView
from studio.store.database import Database
from studio.store.tables import AdapterVersionTable
from trainer.errors import StoreError
from trainer.proof import EXPECTED, ProofResult

KIND: Final = 'proof'
NOTHING: Final = 'Nothing was recorded to compare with: only adapters that were trained here can be proven'
UNREADABLE: Final = 'unreadable'
"""The ``error`` of a proof whose result is of another version of the trainer."""
_log = logging.getLogger(__name__)


class Proofs:
    """The proofs of a store. Thread-safe. Raises ``NotFound``, ``StoreError``."""

    def __init__(self, database: Database, adapters: Adapters, runs: RunQueue, settings: Settings) -> None:
        self._database = database
        self._adapters = adapters
        self._runs = runs
        self._settings = settings
        self._jobs = SideJobs()
        self._lock = threading.Lock()
        self._job: SideJobView | None = None

    def can_prove(self, id: str) -> bool:
        """Whether there is anything to compare a version with."""
        return (self._adapters.proof_path(id) / EXPECTED).is_file()

    def ask(self, id: str, *, base: str = '') -> None:
        """Ask for a proof; it is made when it is its turn. ``base`` names the base model where it has moved since.

        What was named once holds for later proofs, until something else is.
        """
        with self._database.write() as session:
            row = version_row(session, id)
            if not self.can_prove(id):
                raise StoreError(NOTHING, hint='Train it again, and the proof is made when the run ends.')
            if row.proof_state not in ('queued', 'running'):
                row.proof_state, row.proof_asked_at = 'queued', datetime.now(UTC)
                row.proof = {'base': base or named_base(row)}

    def cancel(self, id: str) -> None:
        """Take a proof that waits or works back; returns when its process is gone."""
        with self._lock:
            self._set(id, ('queued', 'running'), 'cancelled', {})
            if self._job is not None and self._job.subject == id:
                self._jobs.cancel(self._job.id)
                self._job = None

    def progress(self, id: str) -> SideJobView | None:
        """How far the proof of a version is, while it is being made."""
        with self._lock:
            return self._jobs.view(self._job.id) if self._job is not None and self._job.subject == id else None

    def waits_for(self) -> str:
        """What a proof that is asked for waits for, in words; empty where it is being made or starts now."""
        busy = self._runs.working() or self._runs.waiting()
        return f'Waits for "{busy[0].name}" to end' if busy else ''

    def keep_up(self) -> None:
        """Look after the proof that is being made, and begin the next one. Cheap where there is nothing to do."""
        with self._lock:
            if self._job is not None:
                self._look_after(self._job)
            if self._job is None:
                self._begin_next()

    def close(self) -> None:
        """End what works; it is made anew by the next studio."""
        with self._lock:
            if self._job is not None:
                self._put_back(self._job)

    def _look_after(self, job: SideJobView) -> None:
        seen = self._jobs.view(job.id)
        if seen.state == 'running':
            if self.waits_for():
                self._put_back(job)
            return
        self._job = None
        try:
            result = ProofResult.model_validate(seen.result) if seen.state == 'done' else None
        except ValidationError:  # of another version of the trainer
            result = None
        if result is not None:
            with suppress(NotFound):  # deleted meanwhile
                self._adapters.keep_proof(job.subject, result)
        else:
            reason = _reason(seen)
            _log.warning(
                'The proof of adapter %s could not be made: %s\n%s', job.subject, reason, self._jobs.tail(job.id)
            )
            self._set(job.subject, ('running',), 'error', {'reason': reason, 'error': seen.error or UNREADABLE})

    def _begin_next(self) -> None:
        query = select(AdapterVersionTable).where(
            col(AdapterVersionTable.proof_state).in_(('queued', 'running')),
            col(AdapterVersionTable.deleted_at).is_(None),
        )
        with self._database.read() as session:
            row = session.exec(query.order_by(col(AdapterVersionTable.proof_asked_at))).first()
        if row is None or self.waits_for():
            return
        folder = self._adapters.proof_path(row.id)
        if not self._set(row.id, ('queued', 'running'), 'running', {}):
            return
        try:
            self._job = self._jobs.start(KIND, row.id, 'trainer.parity', self._arguments(row, folder))
        except StoreError as error:
            reason = f'{error.message}. {error.hint}'.strip()
            self._set(row.id, ('running',), 'error', {'reason': reason, 'error': type(error).__name__})

    def _arguments(self, row: AdapterVersionTable, folder: Path) -> list[str]:
        arguments = [
            '--adapter',
            str(folder.with_name('files').resolve()),
            '--home',
            str(self._settings.home.resolve()),
        ]
        arguments += ['--isolation', self._settings.sandbox]
        arguments += ['--expected', str((folder / EXPECTED).resolve())]
        arguments += ['--held-out', str((folder / 'heldout.jsonl').resolve())]
        return [*arguments, '--base', named_base(row)]

    def _put_back(self, job: SideJobView) -> None:
        self._jobs.cancel(job.id)
        self._job = None
        self._set(job.subject, ('running',), 'queued', None)

    def _set(self, id: str, before: tuple[ProofState, ...], state: ProofState, proof: dict[str, object] | None) -> bool:
        """Move a version on from one of some states; ``None`` keeps what is known. False where it is in none.

        Where the base model is stays known in any case.
        """
        with self._database.write() as session:
            row = session.get(AdapterVersionTable, id)
            if row is None or row.deleted_at is not None or row.proof_state not in before:
                return False
            row.proof_state = state
            if proof is not None:
                row.proof = {'base': named_base(row), **proof}
        return True


def _reason(seen: SideJobView) -> str:
    """Why a proof could not be made, and what to do: where nobody knows, the log has what its process wrote last."""
    if not seen.message:
        return 'Its result cannot be read'
    return f'{seen.message.rstrip(".")}. {seen.hint or "The log of the studio says more."}'
