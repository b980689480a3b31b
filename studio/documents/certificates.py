"""Certificates of documents: made of their latest version, kept by its hash, and the state a list shows of each."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from sqlmodel import Session, col, select

from studio.documents.rows import certificate_states, task_file
from studio.documents.views import CertificateState
from studio.errors import NotFound
from studio.settings import Settings
from studio.store.database import Database
from studio.store.ids import is_id
from studio.store.tables import CertificateTable, DocumentTable, VersionTable
from trainer.certify import REPEATS, Certificate, certify
from trainer.errors import TaskError
from trainer.task import TaskFile
from trainer.trials import OnProgress


class Certificates:
    """The certificates of a store. Thread-safe. Raises ``NotFound``, ``StoreError``."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def run(
        self,
        document_id: str,
        *,
        repeats: int = REPEATS,
        on_progress: OnProgress | None = None,
        cancel: threading.Event | None = None,
    ) -> Certificate:
        """Certify the latest version of a document and keep the result; takes seconds, so never in an event loop.

        ``on_progress(done, total, name)`` is called from this thread. Raises ``Cancelled`` when ``cancel`` is set,
        ``TaskError`` where there is no valid version, ``SandboxUnavailable`` where there is no isolation. What was
        proven of this hash before is kept until there is something new.
        """
        task = self._task(document_id)
        certificate = certify(
            task,
            home=self._settings.home,
            isolation=self._settings.sandbox,
            environment=self._settings.python(),
            repeats=repeats,
            on_progress=on_progress,
            cancel=cancel,
        )
        self.keep(certificate)
        return certificate

    def keep(self, certificate: Certificate) -> None:
        """Store a certificate in place of an earlier one of the same hash."""
        with self._database.write() as session:
            session.merge(
                CertificateTable(
                    hash=certificate.hash,
                    evidence=certificate.evidence,
                    state=certificate.state,
                    data=certificate.model_dump(mode='json'),
                    created_at=certificate.created_at,
                )
            )

    def get(self, document_id_or_hash: str) -> Certificate | None:
        """The last certificate: of this hash, or of a document's latest version, else of the version before that.

        Its ``hash`` says of which; ``None`` where none was ever made.
        """
        with self._database.read() as session:
            if not is_id(document_id_or_hash):
                row = session.get(CertificateTable, document_id_or_hash)
            else:
                _document(session, document_id_or_hash)
                row = session.exec(
                    select(CertificateTable)
                    .join(VersionTable, col(VersionTable.hash) == col(CertificateTable.hash))
                    .where(VersionTable.document_id == document_id_or_hash)
                    .order_by(col(VersionTable.number).desc())
                ).first()
            return Certificate.model_validate(row.data) if row is not None else None

    def state(self, document_id_or_hash: str) -> CertificateState:
        """What is proven of a document, or of a hash (which is never stale)."""
        if is_id(document_id_or_hash):
            with self._database.read() as session:
                row = _document(session, document_id_or_hash)
                return certificate_states(session, [row])[row.id]
        certificate = self.get(document_id_or_hash)
        return certificate.state if certificate is not None else 'uncertified'

    def for_documents(self, ids: Iterable[str]) -> dict[str, CertificateState]:
        """The states of many documents; ids that are not there are left out."""
        with self._database.read() as session:
            rows = session.exec(
                select(DocumentTable).where(
                    col(DocumentTable.id).in_(list(ids)), col(DocumentTable.deleted_at).is_(None)
                )
            ).all()
            return certificate_states(session, rows)

    def _task(self, document_id: str) -> TaskFile:
        with self._database.read() as session:
            row = _document(session, document_id)
            version = session.get(VersionTable, (row.id, row.version)) if row.version else None
            if version is None:
                raise TaskError(
                    'This task has no valid version yet', hint='Correct what the editor marks, then certify it.'
                )
            return task_file(row, version.task_spec)


def _document(session: Session, id: str) -> DocumentTable:
    row = session.get(DocumentTable, id)
    if row is None or row.deleted_at is not None:
        raise NotFound(f'There is no task document {id}', hint='It may have been deleted in another tab.')
    return row
