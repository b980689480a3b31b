"""The tables.

Rows do not validate: everything passes a pydantic model before it gets here, and JSON columns are replaced whole,
never changed in place.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, ForeignKeyConstraint, Index, String
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, SQLModel


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC times in databases that keep no time zone."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Store UTC without its zone."""
        return value.astimezone(UTC).replace(tzinfo=None) if value is not None else None

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give the zone back."""
        return value.replace(tzinfo=UTC) if value is not None else None


class DocumentTable(SQLModel, table=True):
    """One task document. ``draft`` is the task_spec as typed and may be invalid; versions hold what was valid."""

    __tablename__ = 'document'
    __table_args__ = (Index('ix_document_list', 'deleted_at', 'updated_at', 'id', 'status', 'checker'),)

    id: str = Field(primary_key=True, sa_type=String(26))
    workspaceid: str = Field(index=True)
    userid: str
    title: str
    topics: list[str] = Field(sa_type=JSON)
    status: str
    notes: str = ''
    draft: dict[str, Any] = Field(sa_type=JSON)
    solutions: list[Any] = Field(sa_type=JSON)
    checker: str = ''
    problem_count: int = 0
    search: str = Field(default='', description='Folded title, prompt, file names, commands and topics.')
    evidence: str = Field(default='', description='Hash of the solutions.')
    version: int | None = None
    hash: str = Field(default='', index=True)
    revision: int = 1
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)
    deleted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class DocumentNumberTable(SQLModel, table=True):
    """The number of a document in the full-text index (``document_search``); both follow by triggers."""

    __tablename__ = 'document_number'

    number: int = Field(primary_key=True)
    document_id: str = Field(foreign_key='document.id', ondelete='CASCADE', unique=True, sa_type=String(26))


class VersionTable(SQLModel, table=True):
    """An immutable version of a document's task_spec."""

    __tablename__ = 'version'

    document_id: str = Field(primary_key=True, foreign_key='document.id', ondelete='CASCADE', sa_type=String(26))
    number: int = Field(primary_key=True)
    hash: str = Field(index=True)
    task_spec: dict[str, Any] = Field(sa_type=JSON)
    created_at: datetime = Field(sa_type=UtcDateTime)


class CertificateTable(SQLModel, table=True):
    """What was last proven of a task_spec: one row a hash, whichever documents have it as a version."""

    __tablename__ = 'certificate'

    hash: str = Field(primary_key=True)
    evidence: str = Field(description='Hash of the solutions it rests on.')
    state: str
    data: dict[str, Any] = Field(sa_type=JSON)
    created_at: datetime = Field(sa_type=UtcDateTime)


class RunTable(SQLModel, table=True):
    """One run: what was asked for, and what was last known of it.

    ``offset`` and ``last_seq`` say how far events.jsonl has been read; they change in the transaction of the rows.
    """

    __tablename__ = 'run'

    id: str = Field(primary_key=True, sa_type=String(26))
    workspaceid: str
    request: str | None = Field(default=None, unique=True, description='Key of the request that made it.')
    name: str
    model: str
    settings: dict[str, Any] = Field(sa_type=JSON)
    training_type: str
    state: str = Field(index=True)
    reason: str = ''
    step: int = 0
    total: int = 0
    eta_s: float | None = None
    latest: dict[str, float] = Field(sa_type=JSON)
    latest_step: int = -1
    notes: list[Any] = Field(sa_type=JSON, description='What was clamped or adjusted when it was made.')
    task_count: int = 0
    has_adapter: bool = False
    pid: int | None = None
    created_at: datetime = Field(sa_type=UtcDateTime, index=True)
    queued_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    place: int = Field(default=0, description='Among the runs that wait: the lowest starts next.')
    started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    stop_requested_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    ended_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_event_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    offset: int = 0
    last_seq: int = 0


class SlotTable(SQLModel, table=True):
    """A place where one run at a time works: holding the row is the right to launch."""

    __tablename__ = 'slot'

    name: str = Field(primary_key=True)
    run_id: str = Field(foreign_key='run.id', ondelete='CASCADE', sa_type=String(26), unique=True)
    taken_at: datetime = Field(sa_type=UtcDateTime)


class RunTaskTable(SQLModel, table=True):
    """A frozen task of a run; the copy itself is in the run folder. ``task_id`` may name a document long gone."""

    __tablename__ = 'run_task'

    run_id: str = Field(primary_key=True, foreign_key='run.id', ondelete='CASCADE', sa_type=String(26))
    role: str = Field(primary_key=True)
    position: int = Field(primary_key=True)
    task_id: str = Field(index=True)
    title: str
    version: int | None = None
    hash: str


class EventTable(SQLModel, table=True):
    """State, notice, artifact and progress events, as written."""

    __tablename__ = 'event'
    __table_args__ = (Index('ix_event_type', 'run_id', 'type', 'seq'),)

    run_id: str = Field(primary_key=True, foreign_key='run.id', ondelete='CASCADE', sa_type=String(26))
    seq: int = Field(primary_key=True)
    type: str
    data: dict[str, Any] = Field(sa_type=JSON)


class MetricTable(SQLModel, table=True):
    """One number. A step that was done twice has two rows; the later ``seq`` counts."""

    __tablename__ = 'metric'
    __table_args__ = (
        ForeignKeyConstraint(['run_id'], ['run.id'], ondelete='CASCADE'),
        {'sqlite_with_rowid': False},
    )

    run_id: str = Field(primary_key=True, sa_type=String(26))
    name: str = Field(primary_key=True)
    step: int = Field(primary_key=True)
    seq: int = Field(primary_key=True)
    value: float


class MetricBlockTable(SQLModel, table=True):
    """A stretch of ``width`` steps of a series: made from its points, so that long series are read in few rows."""

    __tablename__ = 'metric_block'
    __table_args__ = (
        ForeignKeyConstraint(['run_id'], ['run.id'], ondelete='CASCADE'),
        {'sqlite_with_rowid': False},
    )

    run_id: str = Field(primary_key=True, sa_type=String(26))
    name: str = Field(primary_key=True)
    width: int = Field(primary_key=True)
    number: int = Field(primary_key=True, description='Its first step over its width.')
    low_step: int
    low: float
    high_step: int
    high: float
    total: float
    n: int


class RolloutTable(SQLModel, table=True):
    """One finished episode; the record is in rollouts.jsonl at ``offset``."""

    __tablename__ = 'rollout'
    __table_args__ = (
        ForeignKeyConstraint(['run_id'], ['run.id'], ondelete='CASCADE'),
        Index('ix_rollout_step', 'run_id', 'stage', 'step'),
        Index('ix_rollout_task', 'run_id', 'task'),
    )

    run_id: str = Field(primary_key=True, sa_type=String(26))
    seq: int = Field(primary_key=True)
    step: int
    stage: str
    task: str
    group: int
    index: int
    outcome: str
    reward: float | None = None
    offset: int
