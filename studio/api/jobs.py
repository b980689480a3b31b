"""What goes into and comes out of ``/finetuning``: jobs, their progress and their series."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator

from studio.api.fields import Label, shown_as
from studio.documents.held_out import HELD_OUT
from studio.runs.series import Line, measured
from studio.runs.views import RunView
from trainer.config import Settings, TrainingType
from trainer.errors import FieldError
from trainer.events import RunState
from trainer.validation import Document, at

MAX_TASKS = 10_000
Config = Annotated[dict[str, Any], shown_as(Settings)]
Ids = Annotated[tuple[str, ...], Field(max_length=MAX_TASKS)]


class JobIn(Document):
    """A job to be made: a base model, the tasks to learn from, and how. Nothing starts yet.

    The tasks are those of ``document_ids``, or every published one with at least one of ``topics``, or, where neither
    is there, all published ones. Of tasks that were not named one by one, those held out are never trained on. They
    are frozen: what is changed later changes nothing in the job.
    """

    model_config = ConfigDict(
        json_schema_extra={
            'examples': [
                {
                    'name': 'Greetings',
                    'base_model': 'starter',
                    'training_type': 'grpoTraining',
                    'rlvr': True,
                    'topics': ['files'],
                    'config': {'rl': {'enabled': True, 'numGenerations': 8}},
                }
            ]
        }
    )

    workspaceid: Label = 'local'
    name: str
    base_model: str = Field(
        min_length=1,
        max_length=500,
        description='An id of `GET /finetuning/models`, a folder on this machine, or owner/name of a hub.',
    )
    training_type: TrainingType = 'grpoTraining'
    rlvr: bool | None = Field(
        default=None, strict=True, description='True for grpoTraining, false for conversationalTraining.'
    )
    document_ids: Ids | None = None
    topics: Ids | None = None
    held_out_ids: Ids | None = Field(
        default=None,
        description='Tasks to measure success on before and after, never trained on. Where neither this nor '
        'held_out_topics nor document_ids is there, those of the tasks that have the topic `held-out`, and `notes` say '
        'how many; `[]` holds none out, and neither does the topic `held-out` in topics.',
    )
    held_out_topics: Ids | None = Field(default=None, description='As held_out_ids, by topic.')
    config: Config = Field(default_factory=dict)

    @property
    def splits_by_topic(self) -> bool:
        """Whether what is held out is left to the topics of the tasks."""
        named = (self.document_ids, self.held_out_ids, self.held_out_topics)
        return all(choice is None for choice in named) and HELD_OUT not in (self.topics or ())

    @model_validator(mode='after')
    def _one_choice_of_tasks(self) -> Self:
        if self.document_ids is not None and self.topics is not None:
            raise at('topics', 'name document_ids or topics, not both')
        return self

    @model_validator(mode='after')
    def _rewards_belong_to_grpo(self) -> Self:
        if self.rlvr is not None and self.rlvr != (self.training_type == 'grpoTraining'):
            wanted = (
                'true: rewards are what it learns from' if not self.rlvr else 'false: it learns from demonstrations'
            )
            raise at('rlvr', f'with {self.training_type} this is {wanted}')
        return self


class StartIn(Document):
    """Settings that change those the job was made with, key by key."""

    model_config = ConfigDict(
        json_schema_extra={'examples': [{'config': {'rl': {'enabled': True, 'numGenerations': 8, 'maxSteps': 20}}}]}
    )

    config: Config = Field(default_factory=dict)


class ResumeIn(Document):
    """How to go on."""

    steps: int | None = Field(
        default=None, strict=True, ge=1, le=100_000, description='Raise the number of steps to this.'
    )


class Progress(Document):
    """How far a job is: optimizer steps done of ``total``, as a share, and the seconds that are left if known."""

    step: int
    total: int
    share: float | None
    eta_s: float | None


class Job(Document):
    """A job.

    ``started`` says whether it was; ``waiting`` that it starts by itself when its turn comes. ``notes`` say which
    settings were clamped or adjusted and how many tasks were held out by their topic, ``config`` is what is in force,
    times are in UTC, durations in seconds, ``elapsed_s`` is time spent working, without the pauses between its goes.
    """

    id: str
    name: str
    base_model: str
    training_type: str
    rlvr: bool
    state: RunState
    reason: str
    started: bool
    waiting: bool
    stopping: bool
    progress: Progress
    document_count: int
    config: dict[str, Any]
    notes: tuple[FieldError, ...]
    has_adapter: bool
    created_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    elapsed_s: float | None

    @classmethod
    def of(cls, run: RunView) -> Self:
        """The job that a run is."""
        return cls.model_validate(cls.values(run))

    @classmethod
    def values(cls, run: RunView) -> dict[str, Any]:
        """The fields of a job from those of its run."""
        same = {'id', 'name', 'training_type', 'state', 'reason', 'stopping', 'has_adapter', 'elapsed_s'}
        times = {'created_at', 'queued_at', 'started_at', 'ended_at'}
        return {
            **run.model_dump(include=same | times),
            'base_model': run.model,
            'rlvr': run.training_type == 'grpoTraining',
            'started': run.queued_at is not None,
            'waiting': run.waiting,
            'progress': Progress(
                step=run.step,
                total=run.total,
                share=min(1.0, run.step / run.total) if run.total else None,
                eta_s=run.eta_s,
            ),
            'document_count': run.task_count,
            'config': run.settings,
            'notes': [FieldError(loc=f'config.{note.loc}', msg=note.msg) for note in run.notes],
        }


class Series(Document):
    """Values of one metric at steps, ascending. A step without a value is not there: missing is never 0."""

    steps: tuple[int, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, line: Line) -> Series:
        """The points of a line, without its gaps."""
        steps, values = measured(line)
        return cls(steps=tuple(round(step) for step in steps), values=tuple(values))


class Status(Job):
    """A job with its latest metrics, and every series thinned so that spikes survive."""

    metrics: dict[str, float]
    series: dict[str, Series]


class JobList(Document):
    """A page of jobs; ``counts`` are by state, whatever states were asked for."""

    data: tuple[Job, ...]
    total: int
    counts: dict[str, int]
    page: int
    per_page: int


class ModelOut(Document):
    """A model that a job may start from."""

    id: str
    title: str
    kind: str
    parameters: int | None
    supports_rl: bool = Field(serialization_alias='supportsRl')
    learning_rate_cap: float
    about: str


class ModelList(Document):
    """The models there are; any local folder and hub id whose tokenizer passes the pre-flight works too."""

    data: tuple[ModelOut, ...]


class LogOut(Document):
    """The last lines of what the trainer wrote."""

    lines: tuple[str, ...]


class Freed(Document):
    """What was deleted, and the bytes that this freed."""

    id: str
    freed_bytes: int


def in_body(loc: str) -> str:
    """The path in a body of what the services call differently."""
    first, _, rest = loc.partition('.')
    renamed: Mapping[str, str] = {'model': 'base_model', 'tasks': 'document_ids'}
    if first in renamed or first in JobIn.model_fields:
        return '.'.join(filter(None, (renamed.get(first, first), rest)))
    return f'config.{loc}'
