"""Rows of documents: how a new one is made, when it gets a version, and the views made of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy.orm import object_session
from sqlmodel import Session, col, select, update

from studio.documents.search import certificate_state
from studio.documents.text import search_text
from studio.documents.views import (
    CertificateState,
    DocumentRow,
    DocumentView,
    Status,
    check_title,
    check_topics,
    draft_problems,
)
from studio.store.ids import new_id
from studio.store.tables import DocumentTable, VersionTable
from trainer.errors import FieldError, TaskError
from trainer.task import Solution, TaskFile, TaskSpec, content_hash, parse_task_spec

BLANK: Final[Mapping[str, Any]] = {
    'prompt': '',
    'env': 'tfcode',
    'max_steps': 16,
    'setup_files': {},
    'setup_commands': [],
    'checker': {'type': 'exit_code', 'config': {'command': ''}},
}
"""The draft of a new document: every field of the table is there to be filled."""
VARIANTS: Final = 'variants of '
"""How the topic begins that holds the variants of a task together."""


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def plain(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that shares nothing with the caller's object. Raises ``TaskError`` where it is no JSON."""
    try:
        copy: dict[str, Any] = json.loads(json.dumps(dict(raw), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TaskError(f'The draft is no JSON: {error}', [FieldError(loc='task_spec', msg=str(error))]) from None
    return copy


def new_row(
    task: TaskFile | None,
    title: str,
    topics: Iterable[str],
    userid: str,
    workspaceid: str,
    status: Status,
    raw: Mapping[str, Any] | None,
) -> DocumentTable:
    """A row that is not stored yet, from a task, a raw spec or nothing. Raises ``TaskError``."""
    title = title or (task.title if task else '')
    draft = task.task_spec.to_json() if task else plain(BLANK if raw is None else raw)
    title = check_title(title, needed=status == 'published')
    if status == 'published':
        check_publishable(title, draft)
    created = now()
    row = DocumentTable(
        id=new_id(),
        workspaceid=workspaceid,
        userid=userid,
        title=title,
        topics=list(check_topics([*topics] or (task.topics if task else ()))),
        status=status,
        notes=task.notes if task else '',
        draft=draft,
        solutions=[solution.model_dump(mode='json') for solution in task.solutions] if task else [],
        created_at=created,
        updated_at=created,
    )
    describe(row)
    return row


def copied(source: DocumentTable) -> DocumentTable:
    """A draft with the same content that is not stored yet."""
    copy = new_row(None, '', source.topics, source.userid, source.workspaceid, 'draft', source.draft)
    copy.title = f'{source.title[:193]} (copy)' if source.title.strip() else ''
    copy.notes, copy.solutions = source.notes, source.solutions
    describe(copy)
    return copy


def check_publishable(title: str, draft: Mapping[str, Any]) -> None:
    """Raise ``TaskError`` unless title and draft are fit for training."""
    check_title(title, needed=True)
    parse_task_spec(draft, root='')


def check_variant(row: DocumentTable) -> None:
    """Raise ``TaskError`` where a stored row is a variant of a task and its checker is not proven."""
    session = object_session(row)
    if session is None or not any(topic.startswith(VARIANTS) for topic in row.topics):
        return
    query = select(certificate_state()).where(DocumentTable.id == row.id)
    if session.execute(query).scalar_one() != 'certified':
        message = 'A variant is published with a certificate only: certify it first'
        raise TaskError(message, [FieldError(loc='certificate', msg=message)])


def describe(row: DocumentTable) -> None:
    """Fill the columns that lists are searched and filtered by."""
    checker = row.draft.get('checker')
    kind = checker.get('type') if isinstance(checker, dict) else ''
    row.checker = kind if isinstance(kind, str) else ''
    row.problem_count = len(draft_problems(row.draft)[1])
    row.search = search_text(row.title, row.topics, row.draft)
    row.evidence = content_hash(row.solutions)


def keep_version(session: Session, row: DocumentTable) -> None:
    """Make a version of a valid draft that differs from the latest one."""
    spec, _, _ = draft_problems(row.draft)
    if spec is None or spec.hash == row.hash:
        return
    number = (row.version or 0) + 1
    session.add(
        VersionTable(
            document_id=row.id, number=number, hash=spec.hash, task_spec=spec.to_json(), created_at=row.updated_at
        )
    )
    session.exec(update(DocumentTable).where(col(DocumentTable.id) == row.id).values(version=number, hash=spec.hash))
    session.flush()
    session.refresh(row)


def task_file(row: DocumentTable, spec: Mapping[str, Any]) -> TaskFile:
    """A frozen copy of a version."""
    return TaskFile(
        id=row.id,
        title=row.title,
        topics=tuple(row.topics),
        version=row.version,
        hash=row.hash,
        task_spec=TaskSpec.model_validate(spec),
        solutions=tuple(Solution.model_validate(solution) for solution in row.solutions),
        notes=row.notes,
    )


def certificate_states(session: Session, rows: Iterable[DocumentTable]) -> dict[str, CertificateState]:
    """What is proven of the latest version of each document, by its id, in one query."""
    ids = [row.id for row in rows]
    query = select(DocumentTable.id, certificate_state()).where(col(DocumentTable.id).in_(ids))
    return dict(session.exec(query).all())


def listed(row: DocumentTable, certificate: CertificateState) -> DocumentRow:
    """The view of a row in a list."""
    prompt = row.draft.get('prompt')
    return DocumentRow(
        id=row.id,
        title=row.title,
        topics=tuple(row.topics),
        status=row.status,
        checker=row.checker,
        prompt=prompt[:200] if isinstance(prompt, str) else '',
        version=row.version,
        hash=row.hash,
        revision=row.revision,
        problem_count=row.problem_count,
        solution_count=len(row.solutions),
        created_at=row.created_at,
        updated_at=row.updated_at,
        certificate=certificate,
    )


def view(session: Session, row: DocumentTable) -> DocumentView:
    """The whole view of a row."""
    _, problems, remarks = draft_problems(row.draft)
    latest = session.get(VersionTable, (row.id, row.version)) if row.version else None
    return DocumentView(
        id=row.id,
        workspaceid=row.workspaceid,
        title=row.title,
        topics=tuple(row.topics),
        status=row.status,
        userid=row.userid,
        created_at=row.created_at,
        updated_at=row.updated_at,
        version=row.version,
        hash=row.hash,
        revision=row.revision,
        draft=plain(row.draft),
        problems=problems,
        remarks=remarks,
        notes=row.notes,
        task_spec=TaskSpec.model_validate(latest.task_spec) if latest else None,
        solutions=tuple(Solution.model_validate(solution) for solution in row.solutions),
        certificate=certificate_states(session, [row])[row.id],
    )
