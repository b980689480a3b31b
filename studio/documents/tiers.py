"""How often a model solves documents, in SQL: the tier to filter by, the rate to sort by, and the counts of a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from sqlalchemy import ColumnElement, Float, case, cast, func
from sqlmodel import Session, col, select

from studio.documents.pass_rates import EASY, HARD, PassRate, Tier
from studio.documents.views import DocumentRow
from studio.store.tables import CalibrationTable, DocumentTable, VersionTable

AT_ONCE: Final = 500
"""Values of one statement."""
_RATE: Final[ColumnElement[Any]] = cast(CalibrationTable.passes, Float) / func.nullif(col(CalibrationTable.attempts), 0)
"""The same division as in ``tier_of``, so that both find the same tier at its bounds."""


def tier(subject: str) -> ColumnElement[Tier]:
    """The tier of the latest version of a document for a subject; the words of ``Tier``."""
    word = case((_RATE.is_(None), 'unknown'), (_RATE > EASY, 'easy'), (_RATE < HARD, 'hard'), else_='band')
    return func.coalesce(_of_document(word, subject), 'unknown')


def pass_rate(subject: str) -> ColumnElement[float]:
    """The pass rate of the latest version of a document for a subject; null where nothing was scored."""
    return _of_document(_RATE, subject)


def _of_document(value: ColumnElement[Any], subject: str) -> ColumnElement[Any]:
    """Something of the counts of a document's latest version: one look at the index for each document."""
    measured = select(value).where(CalibrationTable.subject == subject, CalibrationTable.hash == DocumentTable.hash)
    return measured.correlate(DocumentTable).scalar_subquery()


def rated(session: Session, rows: Sequence[DocumentRow], subject: str) -> tuple[DocumentRow, ...]:
    """Rows with what is known of each; without a subject as they are."""
    if not subject:
        return tuple(rows)
    rates = _rates(session, {row.id: row.hash for row in rows}, subject)
    return tuple(row.model_copy(update={'pass_rate': rates.get(row.id)}) for row in rows)


def rates_of(session: Session, ids: Iterable[str], subject: str) -> dict[str, PassRate]:
    """What a subject earned on the latest versions of documents; those that it never attempted are left out."""
    found: dict[str, PassRate] = {}
    for some in batches(ids):
        query = select(DocumentTable.id, DocumentTable.hash).where(col(DocumentTable.id).in_(some))
        found |= _rates(session, dict(session.exec(query).all()), subject)
    return found


def _rates(session: Session, hashes: Mapping[str, str], subject: str) -> dict[str, PassRate]:
    """The rates of some documents (as many as one statement takes) by their ids, from the hashes of their versions."""
    rows = _counts(session, hashes.values(), subject)
    found = {id: view(rows[hash]) for id, hash in hashes.items() if hash in rows}
    left = [id for id in hashes if id not in found]
    query = select(VersionTable.document_id, VersionTable.hash).where(col(VersionTable.document_id).in_(left))
    earlier = list(session.exec(query).all()) if left else []
    rows = _counts(session, (hash for _, hash in earlier), subject)
    for id, hash in earlier:
        if hash in rows:
            found[id] = PassRate(is_stale=True, measured_at=rows[hash].updated_at)
    return found


def _counts(session: Session, hashes: Iterable[str], subject: str) -> dict[str, CalibrationTable]:
    found: dict[str, CalibrationTable] = {}
    # By the key alone: a join would have the database walk through everything that the subject ever attempted.
    for some in batches(dict.fromkeys(hashes)):
        query = select(CalibrationTable).where(
            CalibrationTable.subject == subject, col(CalibrationTable.hash).in_(some)
        )
        found |= {row.hash: row for row in session.exec(query)}
    return found


def view(row: CalibrationTable) -> PassRate:
    """The counts of a row."""
    return PassRate(
        passes=row.passes,
        attempts=row.attempts,
        errors=row.errors,
        rewards=row.rewards,
        error=row.error,
        measured_at=row.updated_at,
    )


def batches(values: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Values in pieces that one statement takes."""
    left = iter(values)
    while some := tuple(islice(left, AT_ONCE)):
        yield some
