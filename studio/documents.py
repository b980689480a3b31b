"""Task documents: raw drafts that are never lost, immutable versions of what was valid, one way in for every change.

A change names the revision it was made on (compare-and-set), so two tabs never overwrite each other in silence.
Searching is a ``LIKE`` over one casefolded column (title, topics, prompt, file names, commands), in any language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from sqlalchemy import func
from sqlmodel import Session, col, select

from studio.document_rows import (
    certificate_states,
    check_publishable,
    describe,
    keep_version,
    listed,
    new_row,
    now,
    plain,
    task_file,
    view,
)
from studio.document_views import (
    Conflict,
    DocumentPage,
    DocumentQuery,
    DocumentRow,
    DocumentView,
    ImportReport,
    ImportRow,
    NotFound,
    Status,
    VersionView,
    check_solutions,
    check_title,
    check_topics,
    marked_topic,
    search_text,
)
from studio.exchange.jsonl import Source, read_tasks, write_tasks
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
    'ImportReport',
    'ImportRow',
    'NotFound',
    'Status',
    'VersionView',
]

IMPORT_BATCH: Final = 100


class Documents:
    """The task documents of a store. Thread-safe. Raises ``NotFound``, ``Conflict``, ``TaskError``, ``StoreError``."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
            where = _where(query)
            if query.certificate:
                states = certificate_states(session, session.exec(select(DocumentTable).where(*where)).all())
                where.append(
                    col(DocumentTable.id).in_([id for id, state in states.items() if state == query.certificate])
                )
            by_status = select(DocumentTable.status, func.count()).where(*where).group_by(col(DocumentTable.status))
            counts = {'draft': 0, 'published': 0} | dict(session.exec(by_status).all())
            if query.status:
                where.append(col(DocumentTable.status) == query.status)
            order = _ORDER[query.sort]
            rows = session.exec(
                select(DocumentTable)
                .where(*where)
                .order_by(order.desc() if query.descending else order.asc(), col(DocumentTable.id).desc())
                .offset((query.page - 1) * query.per_page)
                .limit(query.per_page)
            ).all()
            total = counts[query.status] if query.status else sum(counts.values())
            states = certificate_states(session, rows)
            listing = tuple(listed(row, states[row.id]) for row in rows)
            return DocumentPage(rows=listing, total=total, counts=counts)

    def topics(self) -> tuple[str, ...]:
        """Every topic in use, sorted."""
        with self._database.read() as session:
            rows = session.exec(select(DocumentTable.topics).where(col(DocumentTable.deleted_at).is_(None))).all()
        return tuple(sorted({topic for topics in rows for topic in topics}, key=str.casefold))

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
        revision: int,
    ) -> DocumentView:
        """Change what lies beside the spec; ``None`` leaves a field as it is."""

        def apply(row: DocumentTable) -> None:
            if title is not None:
                row.title = check_title(title, needed=row.status == 'published')
            if topics is not None:
                row.topics = list(check_topics(topics))
            if notes is not None:
                row.notes = notes
            if solutions is not None:
                row.solutions = [solution.model_dump(mode='json') for solution in check_solutions(solutions)]

        return self._change(id, revision, apply)

    def publish(self, id: str, *, revision: int) -> DocumentView:
        """Offer a document for training. Raises ``TaskError`` with what is wrong with title or draft."""

        def apply(row: DocumentTable) -> None:
            check_publishable(row.title, row.draft)
            row.status = 'published'

        return self._change(id, revision, apply)

    def unpublish(self, id: str) -> DocumentView:
        """Make a document a draft again; runs that used it keep their copy."""
        return self._change(id, None, lambda row: setattr(row, 'status', 'draft'))

    def duplicate(self, id: str) -> DocumentView:
        """A new draft with the same content and its own history."""
        with self._database.write() as session:
            source = _row(session, id)
            copy = new_row(None, '', source.topics, source.userid, source.workspaceid, 'draft', source.draft)
            copy.title = f'{source.title[:193]} (copy)' if source.title.strip() else ''
            copy.notes, copy.solutions = source.notes, source.solutions
            copy.search = search_text(copy.title, copy.topics, copy.draft)
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

    def import_tasks(
        self, source: Source, *, status: Status = 'draft', topics: Iterable[str] = (), preview: bool = False
    ) -> ImportReport:
        """Add the tasks of a JSON or JSONL file (or its text); what is here already is left alone, bad lines are named.

        A task without a title gets the first line of its prompt. A ``preview`` stores nothing.
        """
        extra = check_topics(topics)
        report: dict[int, ImportRow] = {}
        lines = read_tasks(source)
        # In small transactions: an import of thousands must not keep others from saving meanwhile.
        while batch := tuple(islice(lines, IMPORT_BATCH)):
            with self._database.write() as session:
                for line, task in batch:
                    if isinstance(task, TaskError):
                        row = ImportRow(line=line, status='refused', reason=task.message, errors=task.fields)
                    else:
                        row = _import(session, line, task, status, extra)
                    report[line] = row
        return ImportReport(rows=tuple(report.values()))

    def export(self, ids: Iterable[str] | None = None) -> str:
        """JSONL of the latest versions, in the order asked for; ``None``: every document that has a version."""
        return write_tasks(task.model_copy(update={'id': '', 'hash': '', 'version': None}) for task in self._tasks(ids))

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


_ORDER: Final[Mapping[str, Any]] = {
    'updated': col(DocumentTable.updated_at),
    'created': col(DocumentTable.created_at),
    'title': func.lower(col(DocumentTable.title)),
    'status': col(DocumentTable.status),
    'checker': col(DocumentTable.checker),
}


def _row(session: Session, id: str, *, deleted: bool = False) -> DocumentTable:
    row = session.get(DocumentTable, id)
    if row is None or (row.deleted_at is not None and not deleted):
        raise NotFound(f'There is no task document {id}', hint='It may have been deleted in another tab.')
    return row


def _import(session: Session, line: int, task: TaskFile, status: Status, topics: tuple[str, ...]) -> ImportRow:
    same = session.exec(
        select(DocumentTable).where(DocumentTable.hash == task.task_spec.hash, col(DocumentTable.deleted_at).is_(None))
    ).first()
    if same is not None:
        return ImportRow(line=line, status='same', id=same.id, title=same.title)
    title = task.title if task.title.strip() else task.task_spec.prompt.strip().splitlines()[0][:80]
    try:
        row = new_row(task, title, (*task.topics, *topics), 'local', 'local', status, None)
    except TaskError as error:
        return ImportRow(line=line, status='refused', title=title, reason=error.message, errors=error.fields)
    session.add(row)
    session.flush()
    keep_version(session, row)
    return ImportRow(line=line, status='new', id=row.id, title=title)


def _where(query: DocumentQuery) -> list[Any]:
    where: list[Any] = [col(DocumentTable.deleted_at).is_(None)]
    where += [col(DocumentTable.search).contains(word, autoescape=True) for word in query.search.casefold().split()]
    if query.checker:
        where.append(col(DocumentTable.checker) == query.checker)
    if query.topic:
        where.append(col(DocumentTable.search).contains(marked_topic(query.topic), autoescape=True))
    return where
