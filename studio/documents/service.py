"""Task documents: raw drafts that are never lost, immutable versions of what was valid, one way in for every change.

A change names the revision it was made on (compare-and-set), so two tabs never overwrite each other in silence.
How they are found is in ``search``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from studio.documents.held_out import split
from studio.documents.rows import (
    check_publishable,
    check_variant,
    copied,
    describe,
    keep_version,
    listed,
    new_row,
    now,
    plain,
    task_file,
    view,
)
from studio.documents.search import certificate_state, conditions, order
from studio.documents.tiers import rated
from studio.documents.views import (
    Conflict,
    DocumentPage,
    DocumentQuery,
    DocumentRow,
    DocumentView,
    Status,
    VersionView,
    check_solutions,
    check_title,
    check_topics,
)
from studio.errors import NotFound
from studio.store.database import Database
from studio.store.tables import DocumentTable, VersionTable
from trainer.errors import FieldError, TaskError
from trainer.task import Solution, TaskFile

__all__ = [
    'Conflict',
    'DocumentPage',
    'DocumentQuery',
    'DocumentRow',
    'DocumentView',
    'Documents',
    'NotFound',
    'Status',
    'VersionView',
]


class Documents:
    """The task documents of a store. Thread-safe. Raises ``NotFound``, ``Conflict``, ``TaskError``, ``StoreError``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def database(self) -> Database:
        """The store, for the services beside this one."""
        return self._database

    def create(
        self,
        task: TaskFile | None = None,
        *,
        title: str = '',
        topics: Iterable[str] = (),
        userid: str = 'local',
        workspaceid: str = 'local',
        status: Status = 'draft',
        raw: Mapping[str, Any] | None = None,
    ) -> DocumentView:
        """Store a new document: from a task, from a raw task_spec, or blank. Refused input stores nothing."""
        with self._database.write() as session:
            row = new_row(task, title, tuple(topics), userid, workspaceid, status, raw)
            session.add(row)
            session.flush()
            keep_version(session, row)
            return view(session, row)

    def get(self, id: str) -> DocumentView:
        """A document that is not deleted."""
        with self._database.read() as session:
            return view(session, _row(session, id))

    def list(self, query: DocumentQuery | None = None) -> DocumentPage:
        """A page of documents; ``counts`` are by status for the same search and filters."""
        query = query or DocumentQuery()
        with self._database.read() as session:
            where = conditions(query)
            by_status = select(DocumentTable.status, func.count()).where(*where).group_by(col(DocumentTable.status))
            counts = {'draft': 0, 'published': 0} | dict(session.exec(by_status).all())
            rows = session.exec(
                _ordered(select(DocumentTable, certificate_state()), where, query)
                .offset((query.page - 1) * query.per_page)
                .limit(query.per_page)
            ).all()
            total = counts[query.status] if query.status else sum(counts.values())
            shown = rated(session, [listed(*row) for row in rows], query.subject)
            return DocumentPage(rows=shown, total=total, counts=counts)

    def count(self) -> int:
        """How many documents there are."""
        with self._database.read() as session:
            return session.exec(
                select(func.count()).select_from(DocumentTable).where(col(DocumentTable.deleted_at).is_(None))
            ).one()

    def ids(self, query: DocumentQuery) -> tuple[str, ...]:
        """The ids of every document that a query asks for, whatever its page, in its order."""
        with self._database.read() as session:
            return tuple(session.exec(_ordered(select(DocumentTable.id), conditions(query), query)).all())

    def split(self, query: DocumentQuery) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """As ``ids``, those to train on and those held out by their topic."""
        select_both = select(DocumentTable.id, DocumentTable.topics)
        with self._database.read() as session:
            return split(session.exec(_ordered(select_both, conditions(query), query)).all())

    def rows(self, ids: Sequence[str]) -> tuple[DocumentRow, ...]:
        """Documents as in a list, by their ids (some thousand at most); those that are gone are left out."""
        query = select(DocumentTable, certificate_state()).where(
            col(DocumentTable.id).in_(ids), col(DocumentTable.deleted_at).is_(None)
        )
        with self._database.read() as session:
            return tuple(listed(*row) for row in session.exec(query).all())

    def topics(self) -> dict[str, int]:
        """Every topic in use, sorted, and how many documents have it."""
        each = func.json_each(DocumentTable.topics).table_valued('value', joins_implicitly=True)
        query = select(each.c.value, func.count()).where(col(DocumentTable.deleted_at).is_(None)).group_by(each.c.value)
        with self._database.read() as session:
            return dict(sorted(session.exec(query).all(), key=lambda found: str(found[0]).casefold()))

    def save_draft(self, id: str, raw: Mapping[str, Any], *, revision: int) -> DocumentView:
        """Store the task_spec as typed; a valid spec that differs from the last version becomes a new version."""
        return self._change(id, revision, lambda row: setattr(row, 'draft', plain(raw)))

    def update(
        self,
        id: str,
        *,
        title: str | None = None,
        topics: Iterable[str] | None = None,
        notes: str | None = None,
        solutions: Sequence[Solution | Mapping[str, Any]] | None = None,
        raw: Mapping[str, Any] | None = None,
        status: Status | None = None,
        revision: int,
    ) -> DocumentView:
        """Change several parts of a document at once; ``None`` leaves a part as it is."""

        def apply(row: DocumentTable) -> None:
            if raw is not None:
                row.draft = plain(raw)
            row.status = status or row.status
            if title is not None:
                row.title = check_title(title, needed=row.status == 'published')
            if topics is not None:
                row.topics = list(check_topics(topics))
            if notes is not None:
                row.notes = notes
            if solutions is not None:
                row.solutions = [solution.model_dump(mode='json') for solution in check_solutions(solutions)]
            if status == 'published' or (raw is not None and row.status == 'published'):
                check_publishable(row.title, row.draft)
                check_variant(row)

        return self._change(id, revision, apply)

    def publish(self, id: str, *, revision: int) -> DocumentView:
        """Offer a document for training. Raises ``TaskError`` with what is wrong with title or draft."""

        def apply(row: DocumentTable) -> None:
            check_publishable(row.title, row.draft)
            check_variant(row)
            row.status = 'published'

        return self._change(id, revision, apply)

    def unpublish(self, id: str) -> DocumentView:
        """Make a document a draft again; runs that used it keep their copy."""
        return self._change(id, None, lambda row: setattr(row, 'status', 'draft'))

    def duplicate(self, id: str) -> DocumentView:
        """A new draft with the same content and its own history."""
        with self._database.write() as session:
            copy = copied(_row(session, id))
            session.add(copy)
            session.flush()
            keep_version(session, copy)
            return view(session, copy)

    def delete(self, id: str) -> None:
        """Put a document away; ``restore`` brings it back whole."""
        with self._database.write() as session:
            row = _row(session, id)
            row.deleted_at = now()
            row.revision += 1

    def restore(self, id: str) -> DocumentView:
        """Bring a deleted document back."""
        with self._database.write() as session:
            row = _row(session, id, deleted=True)
            if row.deleted_at is not None:
                row.deleted_at = None
                row.revision += 1
            session.flush()
            return view(session, row)

    def versions(self, id: str) -> tuple[VersionView, ...]:
        """Every version, newest first."""
        with self._database.read() as session:
            _row(session, id)
            rows = session.exec(
                select(VersionTable).where(VersionTable.document_id == id).order_by(col(VersionTable.number).desc())
            ).all()
        return tuple(
            VersionView(number=row.number, hash=row.hash, created_at=row.created_at, task_spec=row.task_spec)
            for row in rows
        )

    def tasks(self, ids: Iterable[str] | None = None) -> tuple[TaskFile, ...]:
        """The latest versions in the order asked for, or with ``None`` of every document. Raises ``TaskError``."""
        return self._tasks(ids)

    def published(self, ids: Iterable[str] | None = None) -> tuple[TaskFile, ...]:
        """Frozen copies for a manifest. Raises ``TaskError`` naming ids that are missing or not published."""
        return self._tasks(ids, only_published=True)

    def _tasks(self, ids: Iterable[str] | None, *, only_published: bool = False) -> tuple[TaskFile, ...]:
        with self._database.read() as session:
            query = (
                select(DocumentTable, VersionTable.task_spec)
                .join(VersionTable, col(VersionTable.document_id) == DocumentTable.id)
                .where(col(DocumentTable.deleted_at).is_(None), VersionTable.number == DocumentTable.version)
                .order_by(col(DocumentTable.id))
            )
            if only_published:
                query = query.where(DocumentTable.status == 'published')
            found = {row.id: (row, spec) for row, spec in session.exec(query).all()}
        wanted = tuple(dict.fromkeys(ids)) if ids is not None else tuple(found)
        missing = [id for id in wanted if id not in found]
        if missing:
            what = 'is not a published task' if only_published else 'has no valid version'
            raise TaskError(
                f'{len(missing)} of {len(wanted)} tasks cannot be used',
                [FieldError(loc=f'tasks.{wanted.index(id)}', msg=f'{id} {what}') for id in missing],
            )
        return tuple(task_file(*found[id]) for id in wanted)

    def _change(self, id: str, revision: int | None, apply: Callable[[DocumentTable], None]) -> DocumentView:
        """Change a row on the revision the caller saw; what changes nothing makes no new revision."""
        with self._database.write() as session:
            row = _row(session, id)
            if revision is not None and row.revision != revision:
                raise Conflict(view(session, row))
            before = row.model_dump()
            apply(row)
            if row.model_dump() != before:
                describe(row)
                row.revision += 1
                row.updated_at = now()
                session.flush()
                keep_version(session, row)
            return view(session, row)


def _ordered(select: Any, where: Sequence[Any], query: DocumentQuery) -> Any:
    if query.status:
        where = [*where, col(DocumentTable.status) == query.status]
    return select.where(*where).order_by(*order(query))


def _row(session: Session, id: str, *, deleted: bool = False) -> DocumentTable:
    row = session.get(DocumentTable, id)
    if row is None or (row.deleted_at is not None and not deleted):
        raise NotFound(f'There is no task document {id}', hint='It may have been deleted in another tab.')
    return row
