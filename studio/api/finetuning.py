"""``/finetuning``: jobs from their making to their adapter. A job of the API is a run of the studio."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Body, Header, Query
from fastapi.responses import FileResponse
from pydantic import Field

from studio.api.access import KeyedRoute, StudioOf, needs
from studio.api.fields import Id
from studio.api.files import zip_answer, zip_file
from studio.api.jobs import (
    Freed,
    Job,
    JobIn,
    JobList,
    LogOut,
    ModelList,
    ModelOut,
    ResumeIn,
    Series,
    StartIn,
    Status,
    in_body,
)
from studio.documents.held_out import HELD_OUT
from studio.documents.service import DocumentQuery
from studio.runs.views import RunQuery
from studio.services import Studio
from trainer.errors import ConfigError, FieldError, FieldsError
from trainer.models import offered_models
from trainer.validation import Document

router = APIRouter(prefix='/finetuning', tags=['Jobs'], route_class=KeyedRoute)


class StatusQuery(Document):
    """How much of the series to send."""

    points: int = Field(default=200, ge=2, le=2000, description='Points of one series, about.')


class LogQuery(Document):
    """How much of the log to send."""

    lines: int = Field(default=200, ge=1, le=5000)


class JobQuery(RunQuery):
    """Which jobs to list, newest first; ``states`` may be given several times."""

    per_page: int = Field(default=50, ge=1, le=200)
    page: int = Field(default=1, ge=1, le=1_000_000)


@router.post('/create', **needs('write', 404, 409, 413, 415))
def create(
    body: JobIn,
    studio: StudioOf,
    idempotency_key: Annotated[
        str | None, Header(max_length=200, description='The same key makes no second job: it answers with the first.')
    ] = None,
) -> Job:
    """Make a job: tasks and settings are frozen, nothing starts."""
    with _paths_of_the_body():
        task_ids, held_out = _tasks(studio, body)
        if errors := studio.runs.draft_plan(body.base_model, body.config, task_ids).errors:
            raise ConfigError(f'This cannot work: {errors[0].msg}', errors)
        run = studio.runs.create(
            body.name,
            body.base_model,
            body.config,
            task_ids,
            held_out,
            request=f'api:{idempotency_key}' if idempotency_key else '',
            workspaceid=body.workspaceid,
            training_type=body.training_type,
        )
    job = Job.of(run)
    if not (body.splits_by_topic and held_out):
        return job
    count = sum(frozen.role == 'held_out' for frozen in studio.runs.tasks(run.id))
    words = f'{count} held out by the topic {HELD_OUT}: success on them is measured before and after'
    return job.model_copy(update={'notes': (*job.notes, FieldError(loc='held_out_topics', msg=words))})


@router.post('/start/{id}', **needs('run', 404, 409, 413, 415))
def start(id: Id, studio: StudioOf, body: Annotated[StartIn, Body()] = StartIn()) -> Job:  # noqa: B008
    """Start a job, exactly once: every later call is told so with 409. It waits where another one works."""
    with _paths_of_the_body():
        return Job.of(studio.runs.start(id, body.config))


@router.get('/status/{id}', **needs('read', 404))
def status(id: Id, query: Annotated[StatusQuery, Query()], studio: StudioOf) -> Status:
    """Where a job stands: state, progress, latest metrics and every series, thinned."""
    run = studio.runs.get(id)
    lines = studio.runs.lines(id, studio.runs.metric_names(id), buckets=max(1, query.points // 2))
    return Status.model_validate(
        {**Job.values(run), 'metrics': run.latest, 'series': {name: Series.of(line) for name, line in lines.items()}}
    )


@router.post('/stop/{id}', **needs('run', 404))
def stop(id: Id, studio: StudioOf) -> Job:
    """Stop a job; it is ``stopped`` when its processes are gone. What has ended stays as it is."""
    stopped = studio.runs.stop(id)
    studio.supervisor.wake()
    return Job.of(stopped)


@router.post('/resume/{id}', **needs('run', 404, 409, 413, 415))
def resume(id: Id, studio: StudioOf, body: Annotated[ResumeIn, Body()] = ResumeIn()) -> Job:  # noqa: B008
    """Go on with a job that has ended, from its last checkpoint."""
    with _paths_of_the_body():
        return Job.of(studio.runs.resume(id, steps=body.steps))


@router.get('/list', **needs('read'))
def list_jobs(query: Annotated[JobQuery, Query()], studio: StudioOf) -> JobList:
    """A page of jobs, newest first."""
    page = studio.runs.list(query)
    return JobList(
        data=tuple(map(Job.of, page.rows)),
        total=page.total,
        counts=page.counts,
        page=query.page,
        per_page=query.per_page,
    )


@router.get('/models', **needs('read'))
def models(studio: StudioOf) -> ModelList:
    """The models a job may start from."""
    return ModelList(
        data=tuple(
            ModelOut(
                id=model.id,
                title=model.title,
                kind=model.kind,
                parameters=model.parameters,
                supports_rl=model.supports_rl,
                learning_rate_cap=model.rate_cap,
                about=model.about,
            )
            for model in offered_models()
        )
    )


@router.get('/log/{id}', **needs('read', 404))
def log(id: Id, query: Annotated[LogQuery, Query()], studio: StudioOf) -> LogOut:
    """The last lines of a job's log."""
    studio.runs.get(id)
    return LogOut(lines=tuple(studio.runs.log_tail(id, query.lines)))


@router.get('/download/{id}', response_class=FileResponse, **zip_answer(needs('read', 404)))
def download(id: Id, studio: StudioOf) -> FileResponse:
    """The newest adapter that a job left, as a zip in PEFT layout."""
    studio.runs.get(id)
    kept = studio.adapters.of_run(id)
    path = studio.adapters.zip(kept.id) if kept is not None else studio.results.zip(id)
    return zip_file(path, f'{kept.file_name}.zip' if kept is not None else path.name)


@router.delete('/delete/{id}', **needs('write', 404, 409))
def delete(id: Id, studio: StudioOf) -> Freed:
    """Delete a job with its folder. Adapters that were registered stay."""
    studio.runs.get(id)
    return Freed(id=id, freed_bytes=studio.runs.delete(id))


def _tasks(studio: Studio, body: JobIn) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids of the tasks to train on and of those held out. Raises ``ConfigError``."""
    if body.splits_by_topic:
        return _split(studio, body)
    by_topic = _with_topics(studio, body.held_out_topics or (), 'held_out_topics')
    held_out = tuple(dict.fromkeys((*(body.held_out_ids or ()), *by_topic)))
    if body.document_ids is not None:
        return body.document_ids, held_out
    apart = set(held_out)
    chosen = studio.documents.ids(_published()) if body.topics is None else _with_topics(studio, body.topics, 'topics')
    return tuple(id for id in chosen if id not in apart), held_out


def _split(studio: Studio, body: JobIn) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What was asked for, without and with the topic that holds a task out. Raises ``ConfigError``."""
    train, held_out = studio.documents.split(_published())
    if body.topics is not None:
        chosen = set(_with_topics(studio, body.topics, 'topics'))
        train, held_out = (tuple(id for id in ids if id in chosen) for ids in (train, held_out))
    if held_out and not train:
        problem = f'Every task that was chosen has the topic {HELD_OUT}: none is left to train on'
        raise ConfigError(problem, [FieldError(loc='topics' if body.topics else 'document_ids', msg=problem)])
    return train, held_out


def _with_topics(studio: Studio, topics: tuple[str, ...], loc: str) -> tuple[str, ...]:
    """Ids of the published documents that have at least one of the topics. Raises ``ConfigError``."""
    found: dict[str, None] = {}
    for number, topic in enumerate(topics):
        ids = studio.documents.ids(_published(topic)) if topic.strip() else ()
        if not ids:
            problem = f'No published task has the topic {topic!r}'
            raise ConfigError(problem, [FieldError(loc=f'{loc}.{number}', msg=problem)])
        found.update(dict.fromkeys(ids))
    return tuple(found)


def _published(*topics: str) -> DocumentQuery:
    """Published documents, oldest first."""
    return DocumentQuery(status='published', topics=topics, sort='created', descending=False)


@contextmanager
def _paths_of_the_body() -> Iterator[None]:
    """Give the errors of the services the paths that the body has."""
    try:
        yield
    except FieldsError as error:
        error.fields = tuple(FieldError(loc=in_body(field.loc), msg=field.msg) for field in error.fields)
        raise
