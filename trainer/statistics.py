"""Small statistics that both halves show: intervals of a success rate and the signal a group of attempts carries."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054


def wilson(solved: int, attempts: int) -> tuple[float, float]:
    """Wilson score interval (95 %) of a success rate; ``(0, 1)`` without attempts (doi 10.2307/2276774)."""
    if attempts == 0:
        return 0.0, 1.0
    rate = solved / attempts
    square = Z_95**2
    centre = (rate + square / (2 * attempts)) / (1 + square / attempts)
    half = Z_95 * math.sqrt(rate * (1 - rate) / attempts + square / (4 * attempts**2)) / (1 + square / attempts)
    return max(0.0, centre - half), min(1.0, centre + half)


def gradient_share(rate: float, group: int) -> float:
    """Share of groups of ``group`` attempts that are neither all solved nor all failed: ``1 - p^G - (1 - p)^G``."""
    return 1.0 - float(rate**group) - float((1.0 - rate) ** group)
