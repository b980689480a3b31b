"""Import and export of task documents: a plan that says what each row would become, storing it, and taking it back.

Making a plan stores nothing. A row is *new*, the *same* as a task that is here, in *conflict* with one (the same id,
the same spec or the same title, and something differs), or *refused*. What is stored rests on what the plan saw: a task
that was changed meanwhile is left alone and named.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from sqlmodel import Session, col, select

from studio.documents.rows import describe, keep_version, new_row, now
from studio.documents.service import Documents
from studio.documents.views import Status, check_title, check_topics
from studio.exchange.formats import AUTO, Reading, read_all, read_paths, titles, writer
from studio.exchange.pool import Found, Incoming
from studio.store.tables import DocumentTable
from trainer.errors import FieldError, TaskError
from trainer.task import MAX_TITLE_CHARS, TaskFile

RowStatus = Literal['new', 'same', 'conflict', 'refused']
Choice = Literal['keep', 'version', 'copy']
"""What becomes of a conflict: the task that is here stays, gets a new version, or gets the other one beside it."""
Result = Literal['added', 'version', 'copy', 'kept', 'here', 'refused', 'left']
Progress = Callable[[int, int], Any]

BATCH: Final = 100
_BESIDE: Final = ('title', 'topics', 'notes', 'solutions')


@dataclass(frozen=True)
class PlanRow:
    """One row of an import and what it would become; ``id`` is the task that is here already, or none."""

    found: Found
    status: RowStatus
    title: str = ''
    id: str = ''
    revision: int = 0
    reason: str = ''
    errors: tuple[FieldError, ...] = ()

    def to_json(self, result: str = '', id: str = '') -> dict[str, Any]:
        """The row as plain values, for ``--json``."""
        return {
            'file': self.found.source,
            'line': self.found.line,
            'where': self.found.where,
            'format': self.found.format,
            'status': self.status,
            **({'result': result} if result else {}),
            'id': id or self.id,
            'title': self.title,
            'reason': self.reason,
            'errors': [error.model_dump() for error in self.errors],
            'warnings': list(self.found.warnings),
        }


@dataclass(frozen=True)
class Plan:
    """Everything an import would do. Nothing is stored yet."""

    rows: tuple[PlanRow, ...]
    skipped: tuple[str, ...] = ()

    def count(self, status: RowStatus) -> int:
        """Number of rows with a status."""
        return sum(row.status == status for row in self.rows)

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that were recognised, by the names people know."""
        known = titles()
        return tuple(dict.fromkeys(known[row.found.format] for row in self.rows if row.found.format in known))


@dataclass(frozen=True)
class Stored:
    """What became of one row: the id of the document it is now, or what stood in the way."""

    row: PlanRow
    result: Result
    id: str = ''
    reason: str = ''


@dataclass(frozen=True)
class Receipt:
    """What an import stored, and what is needed to take it back."""

    rows: tuple[Stored, ...] = ()
    added: tuple[tuple[str, int], ...] = ()
    replaced: tuple[tuple[str, int, Mapping[str, Any]], ...] = ()

    def count(self, *results: Result) -> int:
        """Number of rows with one of these results."""
        return sum(stored.result in results for stored in self.rows)


@dataclass
class _Writing:
    """An import that is being stored."""

    topics: tuple[str, ...]
    publish: bool
    rows: list[Stored] = field(default_factory=list)
    added: list[tuple[str, int]] = field(default_factory=list)
    replaced: list[tuple[str, int, Mapping[str, Any]]] = field(default_factory=list)


class Transfer:
    """Brings tasks in and out. Thread-safe. Raises ``ConfigError``, ``TaskError``, ``StoreError``."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._database = documents.database

    def plan(self, incoming: Iterable[Incoming], format: str = AUTO) -> Plan:
        """Say what an import of these files would do."""
        return self._plan(read_all(incoming, format))

    def plan_paths(self, paths: Sequence[Path], format: str = AUTO) -> Plan:
        """Say what an import of files and folders on disk would do."""
        return self._plan(read_paths(paths, format))

    def store(
        self,
        plan: Plan,
        choices: Mapping[int, Choice] | None = None,
        *,
        conflicts: Choice = 'keep',
        publish: bool = False,
        topics: Iterable[str] = (),
        on_progress: Progress | None = None,
        cancel: threading.Event | None = None,
    ) -> Receipt:
        """Store what a plan says; ``choices`` decide single conflicts by row number, ``conflicts`` all others.

        A ``cancel`` ends it between two batches; what was stored until then is in the receipt.
        """
        writing = _Writing(check_topics(topics), publish)
        for start in range(0, len(plan.rows), BATCH):
            if cancel is not None and cancel.is_set():
                break
            # In small transactions: an import of thousands must not keep others from saving meanwhile.
            with self._database.write() as session:
                done = _working_copy(writing)
                for number, row in enumerate(plan.rows[start : start + BATCH], start=start):
                    _store(session, done, row, (choices or {}).get(number, conflicts))
            writing = done
            if on_progress is not None:
                on_progress(min(start + BATCH, len(plan.rows)), len(plan.rows))
        return Receipt(tuple(writing.rows), tuple(writing.added), tuple(writing.replaced))

    def undo(self, receipt: Receipt) -> tuple[str, ...]:
        """Take an import back; return the titles of what was changed since, which stays as it is."""
        left = []
        with self._database.write() as session:
            for id, revision in receipt.added:
                row = session.get(DocumentTable, id)
                if row is None or row.deleted_at is not None:
                    continue
                if row.revision != revision:
                    left.append(row.title)
                    continue
                row.deleted_at = now()
                row.revision += 1
            for id, revision, before in receipt.replaced:
                row = session.get(DocumentTable, id)
                if row is None or row.deleted_at is not None or row.revision != revision:
                    left.append(row.title if row is not None else id)
                    continue
                _change(session, row, before)
        return tuple(left)

    def export(self, ids: Iterable[str] | None, format: str = 'jsonl') -> str | bytes:
        """The latest versions in a format, in the order asked for; ``None``: every document that has a version."""
        return writer(format).write(self._documents.tasks(ids))

    def _plan(self, reading: Reading) -> Plan:
        with self._database.read() as session:
            here = _Here(session)
            return Plan(tuple(here.row(found) for found in reading.found), reading.skipped)


class _Here:
    """The tasks of the library, to compare an import with."""

    def __init__(self, session: Session) -> None:
        columns = (DocumentTable.id, DocumentTable.hash, DocumentTable.title)
        rows = session.exec(
            select(*columns).where(col(DocumentTable.deleted_at).is_(None)).order_by(col(DocumentTable.updated_at))
        ).all()
        self._session = session
        self._ids = {id for id, _, _ in rows}
        self._by_hash = {hash: id for id, hash, _ in rows if hash}
        self._by_title = {title.strip(): id for id, _, title in rows if title.strip()}
        self._seen: dict[str, str] = {}

    def row(self, found: Found) -> PlanRow:
        """What a row of the import would become."""
        task = found.task
        if task is None:
            reason = found.errors[0].msg if found.errors else 'It cannot be read'
            return PlanRow(found, 'refused', found.title, reason=reason, errors=found.errors)
        title = _title(found, task)
        try:
            check_title(title)
            check_topics(task.topics)
        except TaskError as error:
            return PlanRow(found, 'refused', title, reason=error.message, errors=error.fields)
        hash = task.task_spec.hash
        if hash in self._seen:
            return PlanRow(found, 'same', title, reason=f'The same as {self._seen[hash]}')
        target = self._target(task, hash)
        if target is None:
            self._seen[hash] = found.where
            return PlanRow(found, 'new', title)
        document = self._session.get_one(DocumentTable, target)
        differs = _differences(document, task)
        name = document.title.strip() or 'Untitled task'
        if not differs:
            return PlanRow(found, 'same', title, target, document.revision, 'Here already')
        version = f' (v{document.version})' if document.version else ''
        reason = f'Here as “{name}”{version}; {", ".join(differs)} {"differs" if len(differs) == 1 else "differ"}'
        return PlanRow(found, 'conflict', title, target, document.revision, reason)

    def _target(self, task: TaskFile, hash: str) -> str | None:
        if task.id in self._ids:
            return task.id
        return self._by_hash.get(hash) or self._by_title.get(task.title.strip())


def _working_copy(writing: _Writing) -> _Writing:
    """A copy to work on: a batch that fails must leave no trace of rows that were rolled back."""
    return replace(writing, rows=[*writing.rows], added=[*writing.added], replaced=[*writing.replaced])


def _store(session: Session, writing: _Writing, row: PlanRow, choice: Choice) -> None:
    task = row.found.task
    if row.status == 'refused' or task is None:
        writing.rows.append(Stored(row, 'refused', reason=row.reason))
    elif row.status == 'same' or (row.status == 'conflict' and choice == 'keep'):
        writing.rows.append(Stored(row, 'here' if row.status == 'same' else 'kept', row.id, row.reason))
    elif row.status == 'conflict' and choice == 'version':
        _store_version(session, writing, row, task)
    else:
        _add(session, writing, row, task)


def _add(session: Session, writing: _Writing, row: PlanRow, task: TaskFile) -> None:
    is_copy = row.status == 'conflict'
    if not is_copy and (twin := _with_hash(session, task.task_spec.hash)):
        writing.rows.append(Stored(row, 'here', twin, 'Added elsewhere meanwhile'))
        return
    title = f'{row.title[: MAX_TITLE_CHARS - 7]} (copy)' if is_copy else row.title
    status: Status = 'published' if writing.publish or row.found.status == 'published' else 'draft'
    try:
        document = new_row(task, title, (*task.topics, *writing.topics), 'local', 'local', status, None)
    except TaskError as error:
        writing.rows.append(Stored(row, 'refused', reason=error.message))
        return
    session.add(document)
    session.flush()
    keep_version(session, document)
    writing.added.append((document.id, document.revision))
    writing.rows.append(Stored(row, 'copy' if is_copy else 'added', document.id))


def _store_version(session: Session, writing: _Writing, row: PlanRow, task: TaskFile) -> None:
    document = session.get(DocumentTable, row.id)
    if document is None or document.deleted_at is not None or document.revision != row.revision:
        writing.rows.append(Stored(row, 'left', row.id, 'Changed elsewhere since the preview: nothing was stored'))
        return
    before = {name: getattr(document, name) for name in ('draft', *_BESIDE)}
    changes: dict[str, Any] = {'draft': task.task_spec.to_json()}
    if task.title.strip():
        changes['title'] = task.title
    if task.topics or writing.topics:
        changes['topics'] = list(check_topics((*document.topics, *task.topics, *writing.topics)))
    if task.notes:
        changes['notes'] = task.notes
    if task.solutions:
        changes['solutions'] = [solution.model_dump(mode='json') for solution in task.solutions]
    _change(session, document, changes)
    writing.replaced.append((document.id, document.revision, before))
    writing.rows.append(Stored(row, 'version', document.id))


def _change(session: Session, document: DocumentTable, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(document, name, value)
    describe(document)
    document.revision += 1
    document.updated_at = now()
    session.flush()
    keep_version(session, document)


def _with_hash(session: Session, hash: str) -> str | None:
    return session.exec(
        select(DocumentTable.id).where(DocumentTable.hash == hash, col(DocumentTable.deleted_at).is_(None))
    ).first()


def _differences(document: DocumentTable, task: TaskFile) -> list[str]:
    """What the task would change in the document that is here, in words of the spec."""
    spec = task.task_spec.to_json()
    differs = [] if document.hash == task.task_spec.hash else _changed_keys(document.draft, spec)
    if task.title.strip() and task.title != document.title:
        differs.append('title')
    if not set(check_topics(task.topics)) <= set(document.topics):
        differs.append('topics')
    if task.notes and task.notes != document.notes:
        differs.append('notes')
    solutions = [solution.model_dump(mode='json') for solution in task.solutions]
    if solutions and solutions != document.solutions:
        differs.append('solutions')
    return differs


def _changed_keys(draft: Mapping[str, Any], spec: Mapping[str, Any]) -> list[str]:
    return [name for name, value in spec.items() if draft.get(name) != value] or ['task_spec']


def _title(found: Found, task: TaskFile) -> str:
    if task.title.strip():
        return task.title
    return found.title.strip() or task.task_spec.prompt.strip().splitlines()[0][:80]
