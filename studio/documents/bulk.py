"""Changes to many documents at once, each in one transaction; they say what they changed, so that it can be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from sqlmodel import Session, col, select, update

from studio.documents.rows import check_publishable, check_variant, copied, describe, keep_version, new_row, now, view
from studio.documents.views import DocumentView, Status, check_topics
from studio.store.database import Database
from studio.store.tables import DocumentTable
from trainer.errors import TaskError
from trainer.task import Solution

AT_ONCE: Final = 500
"""Rows of one statement: SQLite takes some thousand values in one."""


@dataclass(frozen=True)
class NewDocument:
    """A document to be made: its ``task_spec`` as it came, and what lies beside it."""

    raw: Mapping[str, Any]
    title: str = ''
    topics: Sequence[str] = ()
    status: Status = 'draft'
    notes: str = ''
    solutions: Sequence[Solution] = ()
    userid: str = 'local'
    workspaceid: str = 'local'


@dataclass
class Refusal:
    """A document that stayed as it was, and why."""

    id: str
    title: str
    reason: str


@dataclass
class Changes:
    """What a change of many did. ``changed`` are the ids it did something to, in order."""

    changed: list[str] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)


class BulkDocuments:
    """The documents of a store, many at a time. Ids that are gone are passed over. Raises ``StoreError``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, documents: Iterable[NewDocument]) -> tuple[DocumentView, ...]:
        """Store new documents: all of them, or none where one is refused. Raises ``TaskError``."""
        with self._database.write() as session:
            rows = []
            for new in documents:
                row = new_row(None, new.title, new.topics, new.userid, new.workspaceid, new.status, new.raw)
                row.notes = new.notes
                row.solutions = [solution.model_dump(mode='json') for solution in new.solutions]
                describe(row)
                session.add(row)
                session.flush()
                keep_version(session, row)
                rows.append(row)
            return tuple(view(session, row) for row in rows)

    def publish(self, ids: Sequence[str]) -> Changes:
        """Offer for training what is fit for it."""
        return self._each(ids, lambda row: _set_status(row, 'published'))

    def unpublish(self, ids: Sequence[str]) -> Changes:
        """Make documents drafts again."""
        return self._each(ids, lambda row: _set_status(row, 'draft'))

    def retopic(self, ids: Sequence[str], *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> Changes:
        """Add topics to documents and take others away. Raises ``TaskError`` where a topic cannot be one."""
        added, gone = check_topics(add), {topic.casefold() for topic in remove}

        def change(row: DocumentTable) -> bool:
            kept = [topic for topic in row.topics if topic.casefold() not in gone]
            there = {topic.casefold() for topic in kept}
            return _set_topics(row, [*kept, *(topic for topic in added if topic.casefold() not in there)])

        return self._each(ids, change)

    def set_topics(self, topics: Mapping[str, Sequence[str]]) -> Changes:
        """Give each document exactly these topics."""
        return self._each(list(topics), lambda row: _set_topics(row, list(topics[row.id])))

    def titles(self, ids: Sequence[str]) -> dict[str, str]:
        """The title of each document."""
        with self._database.read() as session:
            return {row.id: row.title for row in _rows(session, ids)}

    def topics(self, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The topics of each document."""
        with self._database.read() as session:
            return {row.id: tuple(row.topics) for row in _rows(session, ids)}

    def duplicate(self, ids: Sequence[str]) -> Changes:
        """Make a draft with the same content of each; ``changed`` are the copies."""
        changes = Changes()
        with self._database.write() as session:
            for row in _rows(session, ids):
                copy = copied(row)
                session.add(copy)
                session.flush()
                keep_version(session, copy)
                changes.changed.append(copy.id)
        return changes

    def delete(self, ids: Sequence[str]) -> Changes:
        """Put documents away."""
        return self._put(ids, away=True)

    def restore(self, ids: Sequence[str]) -> Changes:
        """Bring documents back whole."""
        return self._put(ids, away=False)

    def _put(self, ids: Sequence[str], *, away: bool) -> Changes:
        changes, deleted = Changes(), col(DocumentTable.deleted_at)
        with self._database.write() as session:
            for some in _batches(ids):
                here = col(DocumentTable.id).in_(some), deleted.is_(None) if away else deleted.is_not(None)
                found = session.exec(select(DocumentTable.id).where(*here)).all()
                session.exec(
                    update(DocumentTable)
                    .where(col(DocumentTable.id).in_(found))
                    .values(deleted_at=now() if away else None, revision=col(DocumentTable.revision) + 1)
                )
                changes.changed += found
        return changes

    def _each(self, ids: Sequence[str], change: Callable[[DocumentTable], bool]) -> Changes:
        changes = Changes()
        with self._database.write() as session:
            for row in _rows(session, ids):
                try:
                    if not change(row):
                        continue
                except TaskError as error:
                    changes.refused.append(Refusal(row.id, row.title, error.message))
                    continue
                describe(row)
                row.revision += 1
                row.updated_at = now()
                changes.changed.append(row.id)
        return changes


def _batches(ids: Iterable[str]) -> Iterator[tuple[str, ...]]:
    left = iter(ids)
    while some := tuple(islice(left, AT_ONCE)):
        yield some


def _rows(session: Session, ids: Sequence[str]) -> Iterator[DocumentTable]:
    """Those that are there, in the order asked for."""
    for some in _batches(ids):
        here = col(DocumentTable.id).in_(some), col(DocumentTable.deleted_at).is_(None)
        found = {row.id: row for row in session.exec(select(DocumentTable).where(*here))}
        yield from (found[id] for id in dict.fromkeys(some) if id in found)


def _set_status(row: DocumentTable, status: Status) -> bool:
    if row.status == status:
        return False
    if status == 'published':
        check_publishable(row.title, row.draft)
        check_variant(row)
    row.status = status
    return True


def _set_topics(row: DocumentTable, topics: list[str]) -> bool:
    checked = list(check_topics(topics))
    if checked == row.topics:
        return False
    row.topics = checked
    return True
