"""What goes into and comes out of the document service: views, queries, reports, and the rules of title and topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import Field

from studio.documents.pass_rates import PassRate, Tier
from trainer.errors import FieldError, StoreError, TaskError
from trainer.task import MAX_TITLE_CHARS, Solution, TaskSpec, parse_task_spec
from trainer.validation import Document, Invalid, validate

Status = Literal['draft', 'published']
CertificateState = Literal['certified', 'failed', 'stale', 'uncertified']
"""Of the latest version: proven, disproven, proven or disproven before it or its solutions were changed, or never."""
MAX_TOPICS: Final = 50
MAX_TOPIC_CHARS: Final = 60


class DocumentView(Document):
    """A document as it is stored.

    ``draft`` is the task_spec as typed, ``problems`` what is wrong with it,
    ``remarks`` what was changed on reading it (clamped, normalised), ``task_spec`` the latest valid version.
    """

    id: str
    workspaceid: str
    type: Literal['rlTask'] = 'rlTask'
    title: str
    topics: tuple[str, ...] = ()
    status: Status
    scope: Literal['training'] = 'training'
    userid: str
    created_at: datetime
    updated_at: datetime
    version: int | None
    hash: str
    revision: int
    draft: dict[str, Any]
    problems: tuple[FieldError, ...] = ()
    remarks: tuple[FieldError, ...] = ()
    notes: str = ''
    task_spec: TaskSpec | None = None
    solutions: tuple[Solution, ...] = ()
    certificate: CertificateState = 'uncertified'


class DocumentRow(Document):
    """A document in a list: no spec, the first 200 characters of its prompt.

    ``pass_rate`` is known where a list was asked for a subject (who attempted it) that measured it.
    """

    id: str
    title: str
    topics: tuple[str, ...]
    status: Status
    checker: str
    prompt: str
    version: int | None
    hash: str
    revision: int
    problem_count: int
    solution_count: int
    created_at: datetime
    updated_at: datetime
    certificate: CertificateState = 'uncertified'
    pass_rate: PassRate | None = None


class DocumentQuery(Document):
    """Which documents to list: every word of ``search`` and every topic must occur, none of ``without_topics`` may.

    ``subject`` is whose pass rates are meant by ``tier`` and by the order ``rate``: the key of a calibration's subject.
    """

    search: str = ''
    workspaceid: str | None = None
    status: Status | None = None
    checker: str | None = None
    topics: tuple[str, ...] = ()
    without_topics: tuple[str, ...] = ()
    certificate: CertificateState | None = None
    subject: str = ''
    tier: Tier | None = None
    sort: Literal['updated', 'created', 'title', 'status', 'checker', 'rate'] = 'updated'
    descending: bool = True
    page: int = Field(default=1, ge=1)
    per_page: int = Field(default=50, ge=1, le=1000)


class DocumentPage(Document):
    """A page of a list; ``total`` counts all pages, ``counts`` each status whatever status was asked for."""

    rows: tuple[DocumentRow, ...]
    total: int
    counts: dict[str, int]


class VersionView(Document):
    """An immutable version."""

    number: int
    hash: str
    created_at: datetime
    task_spec: TaskSpec


class Conflict(StoreError):
    """The document was changed elsewhere since it was read; ``stored`` is what is there now, nothing was changed."""

    def __init__(self, stored: DocumentView) -> None:
        super().__init__(
            'This task was changed elsewhere', hint='Reload to see the other change, or save yours as a copy.'
        )
        self.stored = stored


def draft_problems(
    draft: Mapping[str, Any],
) -> tuple[TaskSpec | None, tuple[FieldError, ...], tuple[FieldError, ...]]:
    """Read a raw spec: ``(spec or None, problems, remarks)``; paths start at the spec, as in ``checker.config``."""
    try:
        spec, remarks = parse_task_spec(draft, root='')
    except TaskError as error:
        return None, error.fields, ()
    return spec, (), remarks


def check_title(title: str, *, needed: bool = False) -> str:
    """A title is free text and kept as typed. Raises ``TaskError`` at ``title``."""
    if needed and not title.strip():
        raise _refused('title', 'Give the task a title')
    if len(title) > MAX_TITLE_CHARS:
        raise _refused('title', f'At most {MAX_TITLE_CHARS} characters, not {len(title)}')
    if not _storable(title):
        raise _refused('title', 'A title cannot hold NUL or half a character')
    return title


def check_topics(topics: Iterable[str]) -> tuple[str, ...]:
    """Topics without blanks and repeats, in order. Raises ``TaskError`` at ``topics``."""
    kept = tuple(dict.fromkeys(' '.join(topic.split()) for topic in topics if topic.strip()))
    if len(kept) > MAX_TOPICS:
        raise _refused('topics', f'At most {MAX_TOPICS} topics, not {len(kept)}')
    for position, topic in enumerate(kept):
        if len(topic) > MAX_TOPIC_CHARS or not _storable(topic):
            raise _refused(f'topics.{position}', f'A topic has at most {MAX_TOPIC_CHARS} characters, and no NUL')
    return kept


def check_solutions(solutions: Sequence[Solution | Mapping[str, Any]]) -> tuple[Solution, ...]:
    """Validate solutions. Raises ``TaskError`` at ``solutions.N…``."""
    checked = []
    problems: list[FieldError] = []
    for position, solution in enumerate(solutions):
        try:
            checked.append(solution if isinstance(solution, Solution) else validate(Solution, solution, root='')[0])
        except Invalid as invalid:
            problems += [
                FieldError(loc=f'solutions.{position}.{field.loc}'.rstrip('.'), msg=field.msg)
                for field in invalid.fields
            ]
    if problems:
        raise TaskError(f'The solutions are not valid: {problems[0].loc}: {problems[0].msg}', problems)
    return tuple(checked)


def _storable(text: str) -> bool:
    try:
        text.encode('utf-8')
    except UnicodeEncodeError:
        return False
    return '\0' not in text


def _refused(loc: str, message: str) -> TaskError:
    return TaskError(message, [FieldError(loc=loc, msg=message)])
