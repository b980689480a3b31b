"""Intervals and signal shares against known values."""

import pytest

from trainer.statistics import gradient_share, wilson


@pytest.mark.parametrize(
    ('solved', 'attempts', 'low', 'high'),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (4, 8, 0.2152, 0.7848), (57, 80, 0.6054, 0.8001), (0, 0, 0, 1)],
)
def test_wilson(solved: int, attempts: int, low: float, high: float) -> None:
    assert wilson(solved, attempts) == pytest.approx((low, high), abs=2e-4)


def test_gradient_share() -> None:
    assert gradient_share(0.5, 8) == pytest.approx(1 - 2 / 256)
    assert gradient_share(0.0, 8) == gradient_share(1.0, 8) == 0.0
