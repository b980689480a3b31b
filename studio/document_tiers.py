"""How often a model solves documents, in SQL: the tier to filter by, the rate to sort by, and the counts of a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from sqlalchemy import ColumnElement, Float, case, cast, func, literal
from sqlmodel import Session, col, select

from studio.document_views import DocumentRow
from studio.pass_rates import EASY, HARD, PassRate, Tier
from studio.store.tables import CalibrationTable, DocumentTable, VersionTable

AT_ONCE: Final = 500
"""Documents of one statement."""


def tier(subject: str) -> ColumnElement[Tier]:
    """The tier of the latest version of a document for a subject; the words of ``Tier``."""
    rate = pass_rate(subject)
    return case((rate.is_(None), literal('unknown')), (rate > EASY, 'easy'), (rate < HARD, 'hard'), else_='band')


def pass_rate(subject: str) -> ColumnElement[float]:
    """The pass rate of the latest version of a document for a subject; null where nothing was scored."""
    # Hard and easy are told by comparing with HARD and EASY: the division must be the one of ``tier_of``.
    rate = cast(CalibrationTable.passes, Float) / func.nullif(col(CalibrationTable.attempts), 0)
    measured = select(rate).where(CalibrationTable.subject == subject, CalibrationTable.hash == DocumentTable.hash)
    return measured.correlate(DocumentTable).scalar_subquery()


def rated(session: Session, rows: Sequence[DocumentRow], subject: str) -> tuple[DocumentRow, ...]:
    """Rows with what is known of each; without a subject as they are."""
    if not subject:
        return tuple(rows)
    rates = rates_of(session, [row.id for row in rows], subject)
    return tuple(row.model_copy(update={'pass_rate': rates.get(row.id)}) for row in rows)


def rates_of(session: Session, ids: Iterable[str], subject: str) -> dict[str, PassRate]:
    """What a subject earned on the latest versions of documents; those that it never attempted are left out."""
    found: dict[str, PassRate] = {}
    for some in batches(ids):
        found |= _measured_before(session, some, subject)
        query = (
            select(DocumentTable.id, CalibrationTable)
            .join(CalibrationTable, col(CalibrationTable.hash) == col(DocumentTable.hash))
            .where(col(DocumentTable.id).in_(some), CalibrationTable.subject == subject)
        )
        found |= {id: view(row) for id, row in session.exec(query).all()}
    return found


def _measured_before(session: Session, ids: Sequence[str], subject: str) -> dict[str, PassRate]:
    query = (
        select(VersionTable.document_id, func.max(CalibrationTable.updated_at))
        .join(CalibrationTable, col(CalibrationTable.hash) == col(VersionTable.hash))
        .where(col(VersionTable.document_id).in_(ids), CalibrationTable.subject == subject)
        .group_by(col(VersionTable.document_id))
    )
    return {id: PassRate(is_stale=True, measured_at=at) for id, at in session.exec(query).all()}


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


def batches(ids: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Ids in pieces that one statement takes."""
    left = iter(ids)
    while some := tuple(islice(left, AT_ONCE)):
        yield some
