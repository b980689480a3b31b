"""The forecast against a real run, small: eight tutorial tasks, attempted and then trained on."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / 'bench'))

from forecast import compare

APART = 0.3
"""Three times what chance makes of 64 attempts and 16 groups."""


@pytest.mark.train
def test_the_forecast_is_near_what_a_run_shows(tmp_path: Path) -> None:
    result = compare(tmp_path, tasks=8, attempts=8, steps=2)
    assert result.forecast.known == 8
    assert result.apart <= APART, (result.expected, result.found)
