"""Series over steps as pure functions: gaps where values were lost, and few enough points for a chart.

Missing is a gap: a step without a value is never joined across and never counted as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

Column = tuple[Sequence[int], Sequence[float]]
"""Steps and values of one metric, steps ascending; a step without a value is not there."""

Line = tuple[list[float], list[float | None]]
"""What a chart draws: steps and values, with a ``None`` in every lost stretch."""


def typical(steps: Sequence[float]) -> float:
    """The usual distance between logged steps."""
    return median(after - before for before, after in pairwise(steps)) if len(steps) > 1 else 1.0


def with_gaps(column: Column, *, last: float | None = None, spacing: float | None = None) -> Line:
    """Steps and values with a ``None`` in every lost stretch; ``last`` is the step drawn before this column."""
    steps, values = column
    limit = (spacing or typical(steps)) * 1.5
    x: list[float] = []
    y: list[float | None] = []
    before = last
    for step, value in zip(steps, values, strict=True):
        if before is not None and step - before > limit:
            x.append((before + step) / 2)
            y.append(None)
        x.append(step)
        y.append(value)
        before = step
    return x, y


def thinned(line: Line, buckets: int | None) -> Line:
    """Keep gaps, ends, and the lowest and highest point of each of so many stretches: a spike stays visible."""
    x, y = line
    if not buckets or len(x) <= 2 * buckets:
        return line
    kept: list[int] = []
    for start, end in _segments(y):
        kept += _extremes(y, start, end, max(1, round(buckets * (end - start) / len(x))))
        kept.append(end)  # the gap behind it
    if kept and kept[-1] >= len(x):
        kept.pop()
    return [x[index] for index in kept], [y[index] for index in kept]


def joined(first: Line, second: Line, *, reach: float) -> Line:
    """Two lines one after the other; a gap lies between them where they are further apart than ``reach``."""
    if first[0] and second[0] and second[0][0] - first[0][-1] > reach:
        first = [*first[0], (first[0][-1] + second[0][0]) / 2], [*first[1], None]
    return first[0] + second[0], first[1] + second[1]


def between(line: Line, low: float, high: float) -> Line:
    """The points from ``low`` to ``high``."""
    kept = [(step, value) for step, value in zip(*line, strict=True) if low <= step <= high]
    return [step for step, _ in kept], [value for _, value in kept]


def measured(line: Line) -> tuple[list[float], list[float]]:
    """The points without the gaps."""
    kept = [(step, value) for step, value in zip(*line, strict=True) if value is not None]
    return [step for step, _ in kept], [value for _, value in kept]


def _segments(y: Sequence[float | None]) -> Iterator[tuple[int, int]]:
    """Where stretches without a gap begin and end."""
    start = 0
    for index, value in enumerate(y):
        if value is None:
            if index > start:
                yield start, index
            start = index + 1
    if start < len(y):
        yield start, len(y)


def _extremes(y: Sequence[float | None], start: int, end: int, buckets: int) -> list[int]:
    """Indices of the first, the last, and the lowest and highest value of each bucket."""
    count = end - start
    kept = {start, end - 1}
    for bucket in range(min(buckets, count)):
        stretch = range(start + bucket * count // buckets, start + (bucket + 1) * count // buckets)
        if stretch:
            kept |= {min(stretch, key=y.__getitem__), max(stretch, key=y.__getitem__)}  # type: ignore[arg-type]
    return sorted(kept)
