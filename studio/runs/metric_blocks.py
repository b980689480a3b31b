"""Series in stretches of 8, 64 and 512 steps, kept beside their points: a long run opens as fast as a short one.

A stretch holds the lowest and the highest point with their steps, the sum and the count of its values. Stretches are
always made from the points themselves: a step that was done again, or taken back, leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import sqlalchemy
from sqlalchemy import delete, func, insert
from sqlmodel import Session, col, select

from studio.store.tables import MetricBlockTable, MetricTable

WIDTHS: Final = (8, 64, 512)
RAW_STEPS: Final = 2_400
"""So many steps are read point by point."""
MAX_BLOCKS: Final = 1_600
"""More stretches of one width than this are not read: the next width has fewer."""
COLD_START: Final = 'cold_start/'
"""How the names of its series begin."""


class Block(NamedTuple):
    """One stretch of a series; ``number`` is its first step over its width."""

    number: int
    low_step: int
    low: float
    high_step: int
    high: float
    total: float
    n: int


def width_for(first: int, last: int) -> int:
    """How wide stretches should be for a chart of these steps; 1 stands for the points themselves."""
    steps = last - first + 1
    if steps <= RAW_STEPS:
        return 1
    return next((width for width in WIDTHS if steps / width <= MAX_BLOCKS), WIDTHS[-1])


def points(session: Session, run_id: str, names: Iterable[str], first: int, last: int) -> dict[str, dict[int, float]]:
    """Values by name and step, as they were last; a name without values is not there."""
    rows = session.exec(
        select(MetricTable.name, MetricTable.step, MetricTable.value)
        .where(MetricTable.run_id == run_id, col(MetricTable.name).in_(tuple(names)))
        .where(col(MetricTable.step) >= first, col(MetricTable.step) <= last)
        .order_by(MetricTable.name, col(MetricTable.step), col(MetricTable.seq))
    ).all()
    return {name: {step: value for _, step, value in some} for name, some in groupby(rows, key=lambda row: row[0])}


def blocks(
    session: Session, run_id: str, names: Iterable[str], width: int, first: int, last: int
) -> dict[str, list[Block]]:
    """Stretches that hold any of these steps, by name."""
    table = MetricBlockTable
    rows = session.execute(
        sqlalchemy.select(*(col(getattr(table, field)) for field in ('name', *Block._fields)))
        .where(col(table.run_id) == run_id, col(table.name).in_(tuple(names)), col(table.width) == width)
        .where(col(table.number) >= first // width, col(table.number) <= last // width)
        .order_by(table.name, col(table.number))
    ).all()
    return {name: [Block(*row[1:]) for row in some] for name, some in groupby(rows, key=lambda row: row[0])}


def refresh(session: Session, run_id: str, names: Sequence[str], first: int, last: int) -> None:
    """Make the stretches that hold any of these steps anew."""
    table = MetricBlockTable
    for width in WIDTHS:
        start, end = first // width * width, (last // width + 1) * width - 1
        session.execute(
            delete(table)
            .where(col(table.run_id) == run_id, col(table.name).in_(tuple(names)), col(table.width) == width)
            .where(col(table.number) >= start // width, col(table.number) <= end // width)
        )
        made: list[dict[str, Any]] = []
        for name, parts in _parts(session, run_id, names, width, start, end).items():
            for number, some in groupby(parts, key=lambda part: part.number):
                made.append({'run_id': run_id, 'name': name, 'width': width, **_merged(number, list(some))._asdict()})
        if made:
            session.execute(insert(table), made)


def forget(session: Session, run_id: str, after: int, before_seq: int, *, cold_start: bool = False) -> None:
    """Take back what was measured of steps after ``after`` by events before ``before_seq``.

    The steps of the cold start are counted on their own: either its series are meant, or all the others.
    """
    names = session.exec(select(MetricTable.name).where(MetricTable.run_id == run_id).distinct()).all()
    names = [name for name in names if name.startswith(COLD_START) == cold_start]
    gone = (
        col(MetricTable.run_id) == run_id,
        col(MetricTable.name).in_(names),
        col(MetricTable.step) > after,
        col(MetricTable.seq) < before_seq,
    )
    last = session.exec(select(func.max(MetricTable.step)).where(*gone)).one()
    if last is not None:
        session.execute(delete(MetricTable).where(*gone))
        refresh(session, run_id, names, after + 1, last)


def _parts(
    session: Session, run_id: str, names: Sequence[str], width: int, first: int, last: int
) -> dict[str, Iterator[Block]]:
    """What stretches of a width are made of: points, or stretches of the width below, with the number to go to."""
    if width == WIDTHS[0]:
        found = points(session, run_id, names, first, last)
        return {
            name: (Block(step // width, step, value, step, value, value, 1) for step, value in values.items())
            for name, values in found.items()
        }
    below = WIDTHS[WIDTHS.index(width) - 1]
    smaller = blocks(session, run_id, names, below, first, last)
    return {
        name: (part._replace(number=part.number * below // width) for part in some) for name, some in smaller.items()
    }


def _merged(number: int, parts: Sequence[Block]) -> Block:
    low, high = min(parts, key=lambda part: part.low), max(parts, key=lambda part: part.high)
    total, count = sum(part.total for part in parts), sum(part.n for part in parts)
    return Block(number, low.low_step, low.low, high.high_step, high.high, total, count)
