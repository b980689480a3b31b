"""``/doc``: task documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field, JsonValue

from studio.api.access import KeyedRoute, StudioOf, needs
from studio.api.fields import Id, Label, shown_as
from studio.documents.bulk import NewDocument
from studio.documents.views import (
    CertificateState,
    Conflict,
    DocumentQuery,
    DocumentRow,
    DocumentView,
    Status,
    check_solutions,
    check_title,
    check_topics,
)
from trainer.errors import FieldError, TaskError
from trainer.task import Solution, TaskSpec, parse_task_spec
from trainer.validation import Document

MAX_AT_ONCE: Final = 1000
TRIES: Final = 5
"""How often a change without a revision is made anew because somebody else was faster."""
_SPEC: Final[dict[str, JsonValue]] = {
    'prompt': 'Create greeting.txt containing the word Bonjour',
    'env': 'tfcode',
    'max_steps': 8,
    'checker': {'type': 'exit_code', 'config': {'command': 'grep -q Bonjour greeting.txt'}},
}

router = APIRouter(prefix='/doc', tags=['Task documents'], route_class=KeyedRoute)

RawSpec = Annotated[dict[str, Any], shown_as(TaskSpec)]


class TrainingData(Document):
    """What training needs of a document."""

    task_spec: RawSpec


class DocumentIn(Document):
    """A task document to be made. ``autoParse`` is taken for compatibility: the spec is always parsed."""

    raw_training_data: TrainingData = Field(alias='rawTrainingData')
    type: Literal['rlTask'] = 'rlTask'
    title: str = Field(default='', description='Needed to publish.')
    topics: tuple[str, ...] = ()
    status: Status = 'draft'
    scope: Literal['training'] = 'training'
    userid: Label = 'local'
    auto_parse: bool = Field(default=True, strict=True, alias='autoParse')
    notes: str = Field(default='', max_length=100_000)
    solutions: tuple[Annotated[dict[str, Any], shown_as(Solution)], ...] = ()


class CreateBody(Document):
    """Documents to be made: all of them, or none where one is not valid."""

    model_config = ConfigDict(
        json_schema_extra={
            'examples': [
                {
                    'workspaceid': 'local',
                    'data': [
                        {
                            'autoParse': True,
                            'rawTrainingData': {'task_spec': _SPEC},
                            'type': 'rlTask',
                            'userid': 'me',
                            'title': 'Greeting task',
                            'topics': ['files'],
                            'status': 'published',
                            'scope': 'training',
                        }
                    ],
                }
            ]
        }
    )

    workspaceid: Label = 'local'
    data: tuple[DocumentIn, ...] = Field(min_length=1, max_length=MAX_AT_ONCE)


class UpdateBody(Document):
    """What to change; what is not there stays. With ``revision`` only if nobody changed the document since."""

    model_config = ConfigDict(json_schema_extra={'examples': [{'title': 'Another title', 'status': 'draft'}]})

    raw_training_data: TrainingData | None = Field(default=None, alias='rawTrainingData')
    title: str | None = None
    topics: tuple[str, ...] | None = None
    status: Status | None = None
    notes: str | None = Field(default=None, max_length=100_000)
    solutions: tuple[Annotated[dict[str, Any], shown_as(Solution)], ...] | None = None
    revision: int | None = Field(default=None, strict=True, ge=1)


class TrainingDataOut(Document):
    """The spec as it was sent, and with clamps in ``remarks`` of its document."""

    task_spec: dict[str, Any]


class DocumentOut(Document):
    """A task document.

    ``remarks`` say what was changed on reading the spec (a budget that was lowered, line ends), ``problems`` what is
    wrong with a draft, ``hash`` and ``version`` name its latest valid version, ``revision`` counts every change.
    """

    id: str
    workspaceid: str
    userid: str
    type: Literal['rlTask'] = 'rlTask'
    scope: Literal['training'] = 'training'
    title: str
    topics: tuple[str, ...]
    status: Status
    raw_training_data: TrainingDataOut = Field(alias='rawTrainingData')
    version: int | None
    hash: str
    revision: int
    certificate: CertificateState
    problems: tuple[FieldError, ...]
    remarks: tuple[FieldError, ...]
    notes: str
    solutions: tuple[Solution, ...]
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, view: DocumentView) -> DocumentOut:
        """The document that a view shows."""
        same = view.model_dump(include=set(cls.model_fields) - {'raw_training_data'})
        return cls(**same, raw_training_data=TrainingDataOut(task_spec=view.draft))


class DocumentsOut(Document):
    """Documents that were made, in the order of the request."""

    data: tuple[DocumentOut, ...]


class DocumentListOut(Document):
    """A page of documents; ``counts`` are by status, whatever status was asked for."""

    data: tuple[DocumentRow, ...]
    total: int
    counts: dict[str, int]
    page: int
    per_page: int


class DocumentListQuery(DocumentQuery):
    """Which documents to list."""

    per_page: int = Field(default=50, ge=1, le=200)
    page: int = Field(default=1, ge=1, le=1_000_000)


class Deleted(Document):
    """What was deleted."""

    id: str
    deleted: Literal[True] = True


@router.post('/create', **needs('write', 413, 415))
def create(body: CreateBody, studio: StudioOf) -> DocumentsOut:
    """Make task documents: all of them, or none where one is not valid."""
    problems = [problem for number, item in enumerate(body.data) for problem in _problems(item, f'data.{number}')]
    if problems:
        _refuse(problems)
    views = studio.bulk.create([_new(item, body.workspaceid) for item in body.data])
    return DocumentsOut(data=tuple(map(DocumentOut.of, views)))


@router.get('/get/{id}', **needs('read', 404))
def get(id: Id, studio: StudioOf) -> DocumentOut:
    """One task document."""
    return DocumentOut.of(studio.documents.get(id))


@router.get('/list', **needs('read'))
def list_documents(query: Annotated[DocumentListQuery, Query()], studio: StudioOf) -> DocumentListOut:
    """A page of task documents; every word of ``search`` and every topic must occur."""
    page = studio.documents.list(query)
    return DocumentListOut(
        data=page.rows, total=page.total, counts=page.counts, page=query.page, per_page=query.per_page
    )


@router.post('/update/{id}', **needs('write', 404, 409, 413, 415))
def update(id: Id, body: UpdateBody, studio: StudioOf) -> DocumentOut:
    """Change a task document. A changed spec becomes a new version; runs keep the one they were made with."""
    problems = list(_problems(body, ''))
    if problems:
        _refuse(problems)
    changes = {
        name: value
        for name in ('title', 'topics', 'status', 'notes', 'solutions')
        if (value := getattr(body, name)) is not None
    }
    if body.raw_training_data is not None:
        changes['raw'] = body.raw_training_data.task_spec
    for left in range(TRIES, 0, -1):
        revision = body.revision or studio.documents.get(id).revision
        try:
            return DocumentOut.of(studio.documents.update(id, **changes, revision=revision))
        except Conflict:
            if body.revision is not None or left == 1:
                raise
    raise AssertionError('unreachable')


@router.delete('/delete/{id}', **needs('write', 404))
def delete(id: Id, studio: StudioOf) -> Deleted:
    """Delete a task document. Runs that used it keep their copy."""
    studio.documents.delete(id)
    return Deleted(id=id)


def _new(item: DocumentIn, workspaceid: str) -> NewDocument:
    return NewDocument(
        raw=item.raw_training_data.task_spec,
        title=item.title,
        topics=item.topics,
        status=item.status,
        notes=item.notes,
        solutions=check_solutions(item.solutions),
        userid=item.userid,
        workspaceid=workspaceid,
    )


def _problems(item: DocumentIn | UpdateBody, root: str) -> Iterator[FieldError]:
    """Everything that is wrong with a document beyond the types of its fields, with paths below ``root``."""
    spec, title, published = item.raw_training_data, item.title, item.status == 'published'
    checks: tuple[tuple[str, Callable[[], Any]], ...] = (
        ('rawTrainingData', lambda: spec and parse_task_spec(spec.task_spec)),
        ('', lambda: None if title is None else check_title(title, needed=published)),
        ('', lambda: check_topics(item.topics or ())),
        ('', lambda: check_solutions(item.solutions or ())),
    )
    for below, check in checks:
        try:
            check()
        except TaskError as error:
            for field in error.fields:
                yield FieldError(loc='.'.join(filter(None, (root, below, field.loc))), msg=field.msg)


def _refuse(problems: list[FieldError]) -> None:
    message = f'Nothing was stored: {problems[0].loc}: {problems[0].msg}'
    if len(problems) > 1:
        message += f' (and {len(problems) - 1} more)'
    raise TaskError(message, problems)
