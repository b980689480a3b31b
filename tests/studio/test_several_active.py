"""Two runs at work at once: both are metered, and both are indexed for search."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from stand_in import new_run, until

from studio.services import Studio

Open = Callable[..., Studio]


def test_meters_and_search_follow_every_active_run(open_studio: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('studio.runs.meters.SAMPLE_S', 0.1)
    monkeypatch.setattr('studio.runs.rollout_search.KEEP_UP_S', 0.1)
    studio = open_studio('--hold', 'training', '--rollouts', '3', runs_at_once=2)
    runs = [new_run(studio, name) for name in ('one', 'two')]
    for run in runs:
        studio.runs.start(run.id)
    for run in runs:
        until(lambda id=run.id: 'machine/trainer_gb' in studio.runs.metrics(id))
        until(lambda id=run.id: studio.meters.latest(id))
        until(lambda id=run.id: _indexed(studio.runs.folder_path(id)) == 6)
    for run in runs:
        (studio.runs.folder_path(run.id) / 'go').touch()
        until(lambda id=run.id: studio.runs.get(id).is_final)
        until(lambda id=run.id: studio.meters.latest(id) is None)


def _indexed(folder: Path) -> int:
    if not (folder / 'search.db').exists():
        return 0
    index = sqlite3.connect(f'file:{folder}/search.db?mode=ro', uri=True)
    try:
        return int(index.execute('SELECT count(*) FROM rollout').fetchone()[0])
    except sqlite3.OperationalError:  # it is being made
        return 0
    finally:
        index.close()
