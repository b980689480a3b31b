"""The tables.

Rows do not validate: everything passes a pydantic model before it gets here, and JSON columns are replaced whole,
never changed in place.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, ForeignKeyConstraint, Index, String, UniqueConstraint
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
    worked_s: float = Field(default=0.0, description='Seconds it worked before it was resumed, without the pauses.')
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


class AdapterTable(SQLModel, table=True):
    """A name under which adapters are kept; ``key`` is the folded name, so that names differ by more than case."""

    __tablename__ = 'adapter'

    id: str = Field(primary_key=True, sa_type=String(26))
    name: str
    key: str = Field(unique=True)
    next_number: int = Field(default=1, description='Of its next version: the number of a deleted one never returns.')
    created_at: datetime = Field(sa_type=UtcDateTime)


class AdapterVersionTable(SQLModel, table=True):
    """One adapter; its files are in a folder of its own. ``run_id`` may name a run long deleted, empty: imported.

    ``deleted_at`` stays behind, so that what was deleted does not come back from its run.
    """

    __tablename__ = 'adapter_version'
    __table_args__ = (
        UniqueConstraint('adapter_id', 'number'),
        UniqueConstraint('run_id', 'sha256'),
    )

    id: str = Field(primary_key=True, sa_type=String(26))
    adapter_id: str = Field(foreign_key='adapter.id', ondelete='CASCADE', sa_type=String(26), index=True)
    number: int
    run_id: str | None = Field(default=None, sa_type=String(26), index=True)
    run_ended_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    run_name: str = ''
    model: str
    step: int = 0
    rank: int | None = None
    size: int
    sha256: str = Field(description='Of the weights.')
    notes: str = ''
    lineage: dict[str, Any] = Field(sa_type=JSON)
    files: list[Any] = Field(sa_type=JSON, description='Name, bytes and sha256 of each.')
    before: dict[str, Any] | None = Field(default=None, sa_type=JSON(none_as_null=True))
    after: dict[str, Any] | None = Field(default=None, sa_type=JSON(none_as_null=True))
    proof_state: str = Field(default='none', index=True)
    proof: dict[str, Any] | None = Field(default=None, sa_type=JSON(none_as_null=True))
    proof_asked_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    created_at: datetime = Field(sa_type=UtcDateTime, index=True)
    deleted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class CalibrationSubjectTable(SQLModel, table=True):
    """Who attempts tasks and how: a model, an adapter or none, and the sampling. Counts of one subject add up."""

    __tablename__ = 'calibration_subject'

    key: str = Field(primary_key=True, sa_type=String(16), description='Hash of model, adapter and sampling.')
    model: str
    adapter: str = Field(default='', description='Folder of the adapter; empty for the base model.')
    adapter_id: str | None = None
    adapter_hash: str = ''
    temperature: float
    tokens: int = Field(description='Tokens of one episode.')
    attempts: int = 0
    seconds: float = Field(default=0.0, description='What its attempts took, all together.')
    used_at: datetime = Field(sa_type=UtcDateTime)


class CalibrationTable(SQLModel, table=True):
    """What a subject earned on a version of a task, by the version's hash: errors are counted apart."""

    __tablename__ = 'calibration'
    __table_args__ = (
        ForeignKeyConstraint(['subject'], ['calibration_subject.key'], ondelete='CASCADE'),
        {'sqlite_with_rowid': False},
    )

    subject: str = Field(primary_key=True, sa_type=String(16))
    hash: str = Field(primary_key=True)
    passes: int = 0
    attempts: int = Field(default=0, description='Attempts that were scored.')
    errors: int = 0
    rewards: dict[str, int] = Field(sa_type=JSON, description='How often each reward was earned.')
    error: str = Field(default='', description='What the last error said.')
    updated_at: datetime = Field(sa_type=UtcDateTime)


class CalibrationJobTable(SQLModel, table=True):
    """One calibration: ``k`` attempts at each of its tasks, which are attempted in their order."""

    __tablename__ = 'calibration_job'

    id: str = Field(primary_key=True, sa_type=String(26))
    subject: str = Field(foreign_key='calibration_subject.key', ondelete='CASCADE', sa_type=String(16))
    k: int
    seed: int
    beside_runs: bool = Field(default=False, description='Works although a training run does.')
    state: str
    reason: str = ''
    tasks: list[Any] = Field(sa_type=JSON, description='Ids of the documents, in the order they are attempted.')
    counted: dict[str, int] = Field(sa_type=JSON, description='How many tasks and errors are counted by now.')
    created_at: datetime = Field(sa_type=UtcDateTime)
    ended_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class ApiKeyTable(SQLModel, table=True):
    """A key of the API. The key itself is nowhere: ``digest`` is its HMAC, ``prefix`` the part that may be shown."""

    __tablename__ = 'api_key'

    id: str = Field(primary_key=True, sa_type=String(26))
    name: str
    prefix: str = Field(unique=True)
    digest: str
    scopes: list[str] = Field(sa_type=JSON)
    created_at: datetime = Field(sa_type=UtcDateTime)
    last_used_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    revoked_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
