"""``/finetuning/metrics``: series of a job over a range of steps, whole or thinned, as JSON or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import Field

from studio.api.access import KeyedRoute, StudioOf, needs
from studio.api.fields import Id
from studio.api.jobs import Series
from trainer.validation import Document

router = APIRouter(prefix='/finetuning', tags=['Metrics'], route_class=KeyedRoute)


class MetricsQuery(Document):
    """Which series, over which steps. Without ``points`` every value is sent, with it about so many of each series."""

    names: tuple[str, ...] = Field(default=(), max_length=1000, description='Repeat for several; none: all.')
    first: int = Field(default=0, ge=0, le=10**9, description='First step.')
    last: int | None = Field(default=None, ge=0, le=10**9, description='Last step.')
    points: int | None = Field(default=None, ge=2, le=100_000, description='Thinned so that spikes survive.')
    format: Literal['json', 'csv'] = 'json'


class MetricsOut(Document):
    """Series of a job; ``names`` are all that it has."""

    id: str
    names: tuple[str, ...]
    series: dict[str, Series]


_NEEDS = needs('read', 404)
_NEEDS['responses'][200] = {
    'description': 'The series.',
    'content': {'text/csv': {'schema': {'type': 'string'}, 'example': 'step,loss\n1,0.5\n2,\n'}},
}


@router.get('/metrics/{id}', response_model=MetricsOut, **_NEEDS)
def metrics(id: Id, query: Annotated[MetricsQuery, Query()], studio: StudioOf) -> MetricsOut | Response:
    """Series of a job. A step without a value is not there, and is an empty cell in CSV: missing is never 0."""
    studio.runs.get(id)
    names = studio.runs.metric_names(id)
    wanted = [name for name in names if not query.names or name in query.names]
    series = _series(id, query, wanted, studio)
    if query.format == 'csv':
        headers = {'content-disposition': f'attachment; filename="metrics-{id}.csv"'}
        return Response(as_csv(series), media_type='text/csv; charset=utf-8', headers=headers)
    return MetricsOut(id=id, names=names, series=series)


def as_csv(series: Mapping[str, Series]) -> str:
    """One row a step, one column a series in the order of their names, empty where nothing was measured."""
    names = sorted(series)
    columns = {name: dict(zip(series[name].steps, series[name].values, strict=True)) for name in names}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow(['step', *map(_no_formula, names)])
    for step in sorted({step for column in columns.values() for step in column}):
        writer.writerow([step, *(columns[name].get(step, '') for name in names)])
    return out.getvalue()


def _series(id: str, query: MetricsQuery, names: list[str], studio: StudioOf) -> dict[str, Series]:
    if query.points is not None:
        lines = studio.runs.lines(id, names, first=query.first, last=query.last, buckets=max(1, query.points // 2))
        return {name: Series.of(line) for name, line in lines.items()}
    found = studio.runs.metrics(id, names, after_step=query.first - 1)
    last = query.last
    kept = {}
    for name, (steps, values) in found.items():
        points = [(step, value) for step, value in zip(steps, values, strict=True) if last is None or step <= last]
        if points:
            kept[name] = Series(steps=tuple(step for step, _ in points), values=tuple(value for _, value in points))
    return kept


def _no_formula(name: str) -> str:
    """A name that a spreadsheet takes for text: a series of a run from elsewhere may be called anything."""
    return f"'{name}" if name[:1] in ('=', '+', '-', '@', '\t', '\r') else name
