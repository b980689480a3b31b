"""Search over the rollouts of a run: by words, outcome, task, reward and ending.

The records stay in ``rollouts.jsonl``. An index beside it (``search.db`` in the run folder) is made from them, kept up
while the run works, and made anew whenever it is missing or damaged; it goes where its run goes.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from pydantic import Field, ValidationError
from sqlalchemy import func
from sqlmodel import col, select

from studio.store.database import Database
from studio.store.tables import EventTable, RolloutTable, SlotTable
from trainer.errors import StoreError
from trainer.events import as_event
from trainer.recording import Ending, Rollout
from trainer.validation import Document
from trainer.verdict import Outcome

VERSION: Final = 3
BATCH: Final = 200
MAX_CHARS: Final = 200_000
"""Of one rollout; what comes after is not found."""
KEEP_UP_S: Final = 2.0
SLICE_S: Final = 0.2
TRAINED_FIRST: Final = "stage <> 'train'"
"""The attempts of a step before those of the evaluation made after it."""
SCHEMA: Final = (
    'CREATE TABLE rollout(seq INTEGER PRIMARY KEY, step INTEGER, stage TEXT, task TEXT, grp INTEGER, idx INTEGER,'
    ' outcome TEXT, reward REAL, ending TEXT, tokens INTEGER, turns INTEGER, calls INTEGER, offset INTEGER)',
    f'CREATE INDEX ix_rollout_order ON rollout(step DESC, {TRAINED_FIRST}, grp, idx)',
    "CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2')",
    'CREATE TABLE redone(seq INTEGER PRIMARY KEY)',
    f'PRAGMA user_version = {VERSION}',
)
_WORD: Final = re.compile(r'"([^"]*)"|(\S+)')


class SearchQuery(Document):
    """Which rollouts to find. Empty means any; ``text`` has words that all must be there, or "phrases".

    The outcome ``not_passed`` is ``failed`` or ``partial``: a reward below 1.
    """

    text: str = Field(default='', max_length=1000)
    outcome: Outcome | Literal['not_passed', ''] = ''
    task: str = ''
    stage: str = ''
    ending: Ending | Literal[''] = ''
    low: float | None = None
    high: float | None = None
    page: int = Field(default=1, ge=1)
    per_page: int = Field(default=40, ge=1, le=200)


class Hit(Document):
    """One rollout that fits; ``id`` opens it, ``excerpt`` shows the first word that was looked for in its place."""

    id: int
    step: int
    stage: str
    task: str
    title: str
    group: int
    index: int
    outcome: Outcome
    reward: float | None
    ending: Ending | None
    tokens: int
    turns: int
    calls: int
    excerpt: str = ''


class Hits(Document):
    """A page of what was found; ``indexed`` of ``recorded`` rollouts have been looked through."""

    rows: tuple[Hit, ...]
    total: int
    indexed: int
    recorded: int

    @property
    def is_complete(self) -> bool:
        """Whether every rollout has been looked through."""
        return self.indexed >= self.recorded


class RolloutSearch:
    """The indices of all runs. Thread-safe. Raises ``StoreError`` where one cannot be written."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._lock = threading.Lock()
        self._kept_up = 0.0

    def find(self, run_id: str, query: SearchQuery, titles: dict[str, str], *, seconds: float = 0.5) -> Hits:
        """Look, after indexing what is new for at most so many seconds."""
        with self._opened(run_id) as index:
            indexed, recorded = self._catch_up(index, run_id, seconds)
            where, values = _where(query)
            total = index.execute(f'SELECT count(*) FROM rollout WHERE {where}', values).fetchone()[0]
            rows = index.execute(
                'SELECT seq, step, stage, task, grp, idx, outcome, reward, ending, tokens, turns, calls, offset'
                f' FROM rollout WHERE {where} ORDER BY step DESC, {TRAINED_FIRST}, grp, idx, seq LIMIT ? OFFSET ?',
                (*values, query.per_page, (query.page - 1) * query.per_page),
            ).fetchall()
        hits = list(self._hits(run_id, rows, _words(query.text), titles))
        return Hits(rows=tuple(hits), total=total, indexed=indexed, recorded=recorded)

    def keep_up(self) -> None:
        """Index what the active runs have written, a slice of each at a time; called again and again."""
        if time.monotonic() - self._kept_up < KEEP_UP_S:
            return
        self._kept_up = time.monotonic()
        with self._database.read() as session:
            active = session.exec(select(SlotTable.run_id)).all()
        for run_id in active:
            if (self._folder / run_id).is_dir():
                with self._opened(run_id) as index:
                    self._catch_up(index, run_id, SLICE_S / len(active))

    @contextmanager
    def _opened(self, run_id: str) -> Iterator[sqlite3.Connection]:
        path = self._folder / run_id / 'search.db'
        with self._lock:
            try:
                index = _open(path)
            except sqlite3.DatabaseError:  # damaged, or not ours: it can be made anew
                path.unlink(missing_ok=True)
                try:
                    index = _open(path)
                except sqlite3.DatabaseError as error:
                    raise StoreError(
                        f'The rollouts cannot be indexed in {path.parent}: {error}',
                        hint='See whether the disk is full or the folder cannot be written.',
                    ) from None
            try:
                yield index
            except sqlite3.DatabaseError as error:
                path.unlink(missing_ok=True)
                hint = 'Try again: it is made anew.'
                raise StoreError(f'The index of the rollouts failed: {error}', hint=hint) from None
            finally:
                index.close()

    def _catch_up(self, index: sqlite3.Connection, run_id: str, seconds: float) -> tuple[int, int]:
        """Index what is new; return how many rollouts are indexed and how many there are."""
        self._take_back(index, run_id)
        until = time.monotonic() + seconds
        path = self._folder / run_id / 'rollouts.jsonl'
        last = index.execute('SELECT max(seq) FROM rollout').fetchone()[0] or 0
        while rows := self._rows_after(run_id, last):
            with index, _records(path) as records:
                for row in rows:
                    _add(index, row, _read(records, row.offset))
            last = rows[-1].seq
            if time.monotonic() > until:
                break
        with self._database.read() as session:
            recorded = session.exec(select(func.count()).where(RolloutTable.run_id == run_id)).one()
        return index.execute('SELECT count(*) FROM rollout').fetchone()[0], recorded

    def _rows_after(self, run_id: str, seq: int) -> Sequence[RolloutTable]:
        with self._database.read() as session:
            return session.exec(
                select(RolloutTable)
                .where(RolloutTable.run_id == run_id, col(RolloutTable.seq) > seq)
                .order_by(col(RolloutTable.seq))
                .limit(BATCH)
            ).all()

    def _take_back(self, index: sqlite3.Connection, run_id: str) -> None:
        """Forget what a resumed run, or an evaluation that was cut short, does again."""
        last = index.execute('SELECT max(seq) FROM redone').fetchone()[0] or 0
        with self._database.read() as session:
            events = session.exec(
                select(EventTable.seq, EventTable.data).where(
                    EventTable.run_id == run_id,
                    col(EventTable.type).in_(('resumed', 'evaluating')),
                    col(EventTable.seq) > last,
                )
            ).all()
        with index:
            for seq, data in events:
                if (redone := as_event(data).redone) is not None:
                    stages = ', '.join('?' * len(redone.stages))
                    index.execute(
                        'DELETE FROM rollout WHERE seq < ? AND step BETWEEN ? AND coalesce(?, step)'
                        f' AND stage IN ({stages})',
                        (seq, redone.first, redone.last, *redone.stages),
                    )
                index.execute('INSERT INTO redone VALUES (?)', (seq,))

    def _hits(
        self, run_id: str, rows: Iterable[Sequence[Any]], words: Sequence[str], titles: dict[str, str]
    ) -> Iterator[Hit]:
        with _records(self._folder / run_id / 'rollouts.jsonl') as records:
            for seq, step, stage, task, group, number, outcome, reward, ending, tokens, turns, calls, offset in rows:
                record = _read(records, offset) if words else None
                yield Hit(
                    id=seq,
                    step=step,
                    stage=stage,
                    task=task,
                    title=titles.get(task) or task,
                    group=group,
                    index=number,
                    outcome=outcome,
                    reward=reward,
                    ending=ending,
                    tokens=tokens,
                    turns=turns,
                    calls=calls,
                    excerpt=excerpt(text_of(record), words) if record else '',
                )


def text_of(record: Rollout) -> str:
    """What is searched of an episode: what the model said and did, what tools answered, what the checker said."""
    parts: list[str] = []
    for turn in record.turns:
        parts.append(turn.text)
        for call in turn.calls:
            parts += [call.name, *(str(value) for value in call.args.values()), call.result]
    verdict = record.verdict
    parts += [verdict.reason, verdict.output, *(f'{item.name} {item.detail}' for item in verdict.items)]
    parts += [f'{change.path}\n{change.diff}' for change in record.changes]
    return '\n'.join(parts)[:MAX_CHARS]


def excerpt(text: str, words: Sequence[str], around: int = 70) -> str:
    """The line around the first word that is found."""
    found = (re.search(rf'\b{re.escape(word)}', text, re.IGNORECASE) for word in words if word)
    at = min((place.start() for place in found if place), default=-1)
    if at < 0:
        return ''
    start, end = max(0, at - around), min(len(text), at + 2 * around)
    cut = ' '.join(text[start:end].split())
    return f'{"… " if start else ""}{cut}{" …" if end < len(text) else ""}'


def _open(path: Path) -> sqlite3.Connection:
    index = sqlite3.connect(path, timeout=5, check_same_thread=False)
    try:
        index.execute('PRAGMA synchronous = OFF')  # it can be made anew
        version = index.execute('PRAGMA user_version').fetchone()[0]
        if version == 0:
            with index:
                for statement in SCHEMA:
                    index.execute(statement)
        elif version != VERSION:
            raise sqlite3.DatabaseError(f'version {version}')
        index.execute('SELECT max(seq) FROM rollout')
    except sqlite3.DatabaseError:
        index.close()
        raise
    return index


@contextmanager
def _records(path: Path) -> Iterator[BinaryIO | None]:
    if not path.exists():
        yield None
        return
    with path.open('rb') as file:
        yield file


def _read(records: BinaryIO | None, offset: int) -> Rollout | None:
    """The record at an offset; ``None`` where it is missing or damaged: its row is still found without words."""
    if records is None:
        return None
    records.seek(offset)
    try:
        return Rollout.model_validate(json.loads(records.readline()))
    except (ValueError, ValidationError):
        return None


def _add(index: sqlite3.Connection, row: RolloutTable, record: Rollout | None) -> None:
    told: tuple[Ending | None, int, int, int] = (None, 0, 0, 0)
    if record is not None:
        calls = sum(len(turn.calls) for turn in record.turns)
        told = (record.ending, record.tokens, len(record.turns), calls)
        text = text_of(record).encode('utf-8', 'replace').decode()
        index.execute('INSERT INTO words(rowid, text) VALUES (?, ?)', (row.seq, text))
    index.execute(
        'INSERT INTO rollout VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
        (row.seq, row.step, row.stage, row.task, row.group, row.index, row.outcome, row.reward, *told, row.offset),
    )


def _where(query: SearchQuery) -> tuple[str, list[Any]]:
    where, values = ['1'], list[Any]()
    if query.outcome == 'not_passed':
        where.append("outcome IN ('failed', 'partial')")
    elif query.outcome:
        where.append('outcome = ?')
        values.append(query.outcome)
    for name in ('task', 'stage', 'ending'):
        if wanted := getattr(query, name):
            where.append(f'{name} = ?')
            values.append(wanted)
    if query.low is not None:
        where.append('reward >= ?')
        values.append(query.low)
    if query.high is not None:
        where.append('reward <= ?')
        values.append(query.high)
    if query.text.strip():
        phrases = _phrases(query.text)
        where.append('seq IN (SELECT rowid FROM words WHERE words MATCH ?)' if phrases else '0')
        values += [' '.join(phrases)] if phrases else []
    return ' AND '.join(where), values


def _phrases(text: str) -> list[str]:
    """FTS5 strings: a phrase as it stands, a word as the beginning of one. What has no letter or digit is left out."""
    found = []
    for phrase, word in _WORD.findall(text):
        wanted = (phrase or word).replace('"', '').replace('\0', '')
        if any(letter.isalnum() for letter in wanted):
            found.append(f'"{wanted}"' + ('' if phrase else '*'))
    return found


def _words(text: str) -> list[str]:
    return [(phrase or word).replace('"', '') for phrase, word in _WORD.findall(text)]
