"""What tests of the trainer share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope='session')
def checker_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose Python environment is built once for all tests."""
    return tmp_path_factory.mktemp('checker-home')
