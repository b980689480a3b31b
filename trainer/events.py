"""What a trainer writes to ``events.jsonl``: one JSON object a line, numbered from 1 without gaps (design section 4).

The writer flushes each line, so a reader in another process sees it at once; the reader takes whole lines only and
says where to go on, so a line caught half-written is read the next time.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, field_validator

from trainer.errors import RunFolderError
from trainer.line_file import LineFile, last_line
from trainer.validation import Document
from trainer.verdict import Outcome

RunState = Literal[
    'queued', 'preparing', 'cold_start', 'training', 'evaluating', 'finished', 'failed', 'stopped', 'interrupted'
]
Stage = Literal['train', 'before', 'during', 'after']
"""The purpose of an episode: training, or the held-out evaluation before it, between its steps or after it."""
FINAL_STATES: frozenset[RunState] = frozenset({'finished', 'failed', 'stopped', 'interrupted'})


@dataclass(frozen=True)
class Redone:
    """Episodes that are played again: those of ``stages`` from step ``first`` on, to ``last`` where that is known."""

    stages: tuple[Stage, ...]
    first: int
    last: int | None = None

    def covers(self, stage: str, step: int) -> bool:
        """Whether an episode of this stage and step is among them."""
        return stage in self.stages and self.first <= step <= (step if self.last is None else self.last)


class Event(Document):
    """Shared by all events: the number of the line, and when it was written (seconds since the epoch)."""

    seq: int = Field(default=0, ge=0)
    time: float = 0.0

    @property
    def redone(self) -> Redone | None:
        """Whose episodes, written before this event, are superseded by what follows it."""
        return None


class State(Event):
    """The run entered a state; ``reason`` says why where that is not plain."""

    type: Literal['state'] = 'state'
    state: RunState
    reason: str = ''


class Progress(Event):
    """Optimizer steps done; ``total`` may shrink when a run stops early. ``eta_s`` is missing until it can be known."""

    type: Literal['progress'] = 'progress'
    step: int = Field(ge=0)
    total: int = Field(ge=0)
    eta_s: float | None = None


class Resumed(Event):
    """A stage goes on from the checkpoint of ``step``; what was written before about its later steps is superseded."""

    type: Literal['resumed'] = 'resumed'
    stage: Literal['cold_start', 'training'] = 'training'
    step: int = Field(ge=0)

    @property
    def redone(self) -> Redone | None:
        """Steps of training, and the evaluations between them."""
        return Redone(('train', 'during'), self.step + 1) if self.stage == 'training' else None

    @property
    def words(self) -> str:
        """Where it goes on, for a person."""
        what = 'Resumed' if self.stage == 'training' else 'Cold start resumed'
        return f'{what} from step {self.step}'


class Evaluating(Event):
    """A held-out evaluation begins; one that was cut short, of the same stage and step, is superseded."""

    type: Literal['evaluating'] = 'evaluating'
    stage: Stage
    step: int = Field(ge=0)

    @property
    def redone(self) -> Redone:
        """The same evaluation."""
        return Redone((self.stage,), self.step, self.step)


class Metrics(Event):
    """Values of one step. A number that is not there was not measured: absent, never 0 or NaN."""

    type: Literal['metrics'] = 'metrics'
    step: int = Field(ge=0)
    values: dict[str, float]

    @field_validator('values')
    @classmethod
    def _only_numbers(cls, values: dict[str, float]) -> dict[str, float]:
        return finite(values)


class RolloutEvent(Event):
    """One finished episode; ``offset`` is the byte position of its record in ``rollouts.jsonl``.

    ``group`` numbers the groups of a step from 0, ``index`` the attempts of a group. ``stage`` is the purpose:
    training, or the held-out evaluation before or after it.
    """

    type: Literal['rollout'] = 'rollout'
    step: int = Field(ge=0)
    task: str
    group: int = Field(default=0, ge=0)
    index: int = Field(ge=0)
    stage: Stage = 'train'
    outcome: Outcome
    reward: float | None = None
    offset: int = Field(ge=0)


class Notice(Event):
    """Something the user should know; ``setting`` names what to change, where there is such a thing."""

    type: Literal['notice'] = 'notice'
    level: Literal['info', 'warning', 'error'] = 'info'
    text: str
    setting: str = ''


class Artifact(Event):
    """A file or folder the run made, path relative to the run folder."""

    type: Literal['artifact'] = 'artifact'
    kind: str
    path: str
    sha256: str = ''


class Heartbeat(Event):
    """Sign of life while nothing else is written."""

    type: Literal['heartbeat'] = 'heartbeat'


AnyEvent = Annotated[
    State | Progress | Resumed | Evaluating | Metrics | RolloutEvent | Notice | Artifact | Heartbeat,
    Field(discriminator='type'),
]
_ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


def finite(values: Mapping[str, float | None]) -> dict[str, float]:
    """Drop what is no number (``None``, NaN, infinities): missing is missing."""
    return {key: float(value) for key, value in values.items() if value is not None and math.isfinite(value)}


class EventWriter:
    """Appends events to a file; safe to use from several threads.

    What cannot be written (the disk is full) waits in memory, so that numbers keep no gap, and is written with the
    next event that can be. Raises ``RunFolderError`` where another process writes to the file.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        try:
            self._file = LineFile(path)
        except BlockingIOError:
            raise RunFolderError(
                f'{path.parent} is still written by another process', hint='Wait until it has ended, or end it.'
            ) from None
        self._seq = _last_seq(path)
        self._waiting: deque[bytes] = deque()

    def write(self, event: Event) -> int:
        """Number, stamp and append an event; return its number."""
        with self._lock:
            self._seq += 1
            line = event.model_copy(update={'seq': self._seq, 'time': round(time.time(), 3)})
            self._waiting.append(
                json.dumps(as_json(line), ensure_ascii=False, allow_nan=False).encode('utf-8', 'replace')
            )
            self._flush()
            return self._seq

    @property
    def seq(self) -> int:
        """Number of the last event."""
        return self._seq

    @property
    def waiting(self) -> int:
        """Number of events that could not be written yet."""
        return len(self._waiting)

    def close(self) -> None:
        """Flush to disk and close."""
        with self._lock:
            self._flush()
            self._file.close()

    def _flush(self) -> None:
        while self._waiting:
            try:
                self._file.append(self._waiting[0])
            except OSError:
                return
            self._waiting.popleft()

    def __enter__(self) -> Self:
        """Use as a context manager that closes the file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()


def _last_seq(path: Path) -> int:
    """Number of the last whole event."""
    line = last_line(path)
    return int(json.loads(line)['seq']) if line else 0


def read_events(path: Path, offset: int = 0, *, limit: int = 4 * 1024**2) -> tuple[list[AnyEvent], int]:
    """Read whole lines from byte ``offset`` on, about ``limit`` bytes at most; return the events and the next offset.

    A line that is no event of this version (a newer trainer's, or damage) becomes a ``Notice``: seen, never lost.
    """
    if not path.exists():
        return [], offset
    with path.open('rb') as file:
        file.seek(offset)
        data = file.read(limit)
    whole = data[: data.rfind(b'\n') + 1]
    if not whole and len(data) == limit:
        return read_events(path, offset, limit=limit * 4)
    return [_event(line) for line in whole.splitlines() if line.strip()], offset + len(whole)


def last_state(path: Path, start: int = 0) -> RunState | None:
    """The state that was entered last behind byte ``start``; ``None`` where none was."""
    state: RunState | None = None
    offset, after = -1, start
    while after != offset:
        offset = after
        events, after = read_events(path, offset)
        state = next((event.state for event in reversed(events) if isinstance(event, State)), state)
    return state


def _event(line: bytes) -> AnyEvent:
    try:
        return _ADAPTER.validate_json(line)
    except ValueError:
        return Notice(level='warning', text=f'Unreadable line in events.jsonl: {line[:200].decode("utf-8", "replace")}')


def as_event(values: Mapping[str, Any]) -> AnyEvent:
    """An event of its plain JSON values. Raises ``ValueError`` where they are none."""
    return _ADAPTER.validate_python(values)


def as_json(event: Event) -> dict[str, Any]:
    """An event as plain JSON values, absent numbers left out."""
    return event.model_dump(mode='json', exclude_none=True)
