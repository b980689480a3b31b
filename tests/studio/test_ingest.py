"""Reading what trainers write: each line once, whatever is half-written, damaged, locked or killed in between."""

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from stand_in import ended, new_run, until

from studio.ingest import ingest
from studio.services import Studio
from trainer.events import EventWriter, Metrics, Notice, State
from trainer.runfolder import RunFolder

Open = Callable[..., Studio]


def _made(studio: Studio) -> tuple[str, RunFolder]:
    run = new_run(studio)
    return run.id, studio.runs.folder(run.id)


def test_lines_are_read_once(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run_id, folder = _made(studio)
    with EventWriter(folder.events) as events:
        for step in range(1, 6):
            events.write(Metrics(step=step, values={'loss': 0.5}))
        assert ingest(studio.database, run_id, folder) == 5
        assert ingest(studio.database, run_id, folder) == 0
        events.write(State(state='training'))
    assert ingest(studio.database, run_id, folder) == 1
    assert studio.runs.metrics(run_id)['loss'][0] == [1, 2, 3, 4, 5]
    assert [event.seq for event in studio.runs.events(run_id)] == [6]


def test_a_half_written_line_waits(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run_id, folder = _made(studio)
    line = json.dumps({'type': 'notice', 'seq': 1, 'time': 1.0, 'text': 'Ж 🔄'}, ensure_ascii=False).encode() + b'\n'
    for end in range(len(line)):
        folder.events.write_bytes(line[:end])
        assert ingest(studio.database, run_id, folder) == 0
    folder.events.write_bytes(line)
    assert ingest(studio.database, run_id, folder) == 1
    (notice,) = studio.runs.events(run_id)
    assert isinstance(notice, Notice) and notice.text == 'Ж 🔄'


def test_an_unreadable_line_is_seen_and_stops_nothing(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run_id, folder = _made(studio)
    folder.events.write_text(
        '{"type": "state", "seq": 1, "time": 1.0, "state": "training"}\n'
        '{"type": "of tomorrow", "seq": 2}\n'
        'rubbish\n'
        '{"type": "metrics", "seq": 4, "time": 2.0, "step": 1, "values": {"loss": 1.0}}\n',
        encoding='utf-8',
    )
    assert ingest(studio.database, run_id, folder) == 4
    assert [event.seq for event in studio.runs.events(run_id)] == [1, 2, 3]
    assert studio.runs.metrics(run_id)['loss'] == ([1], [1.0])


def test_numbers_that_are_missing_are_missing(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run_id, folder = _made(studio)
    with EventWriter(folder.events) as events:
        events.write(Metrics(step=1, values={'a': 1.0, 'b': float('nan')}))
        events.write(Metrics(step=2, values={'b': 2.0, 'c': float('inf')}))
    ingest(studio.database, run_id, folder)
    assert studio.runs.metrics(run_id) == {'a': ([1], [1.0]), 'b': ([2], [2.0])}
    assert studio.runs.get(run_id).latest == {'b': 2.0}


def test_a_step_done_twice_is_shown_once(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run_id, folder = _made(studio)
    with EventWriter(folder.events) as events:
        for step, value in ((4, 0.4), (5, 0.5), (5, 0.55), (6, 0.6)):
            events.write(Metrics(step=step, values={'loss': value}))
    ingest(studio.database, run_id, folder)
    assert studio.runs.metrics(run_id)['loss'] == ([4, 5, 6], [0.4, 0.55, 0.6])


def test_a_locked_store_loses_no_row(open_studio: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case F1: the lock is held longer than the studio waits, twice."""
    monkeypatch.setattr('studio.store.database.BUSY_S', 0.2)
    studio = open_studio('--steps', '60', '--interval', '0.05', watch=False)
    studio.start()
    run_id, _ = _made(studio)
    studio.runs.start(run_id)
    path = Path(studio.settings.home) / 'studio.db'
    for _ in range(2):
        _hold_lock(path, seconds=1.2)
        time.sleep(0.3)
    done = ended(studio, run_id)
    assert done.state == 'finished'
    assert studio.runs.metrics(run_id)['loss'][0] == list(range(1, 61))


def _hold_lock(path: Path, seconds: float) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    until(lambda: _locked(other))
    time.sleep(seconds)
    other.execute('COMMIT')
    other.close()


def _locked(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute('BEGIN IMMEDIATE')
    except sqlite3.OperationalError:
        return False
    return True


def test_two_readers_at_once_double_nothing(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run_id, folder = _made(studio)
    with EventWriter(folder.events) as events:
        for step in range(500):
            events.write(Metrics(step=step, values={'loss': 0.5, 'entropy': 1.0}))
    threads = [threading.Thread(target=ingest, args=(studio.database, run_id, folder)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(studio.runs.metrics(run_id)['entropy'][0]) == 500


def test_a_long_run_is_read_in_seconds(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run_id, folder = _made(studio)
    line = {'type': 'metrics', 'time': 1.0, 'values': {f'series/{number}': 0.5 for number in range(14)}}
    with folder.events.open('w', encoding='utf-8') as file:
        for step in range(1, 5001):
            file.write(json.dumps({**line, 'seq': step, 'step': step}) + '\n')
    began = time.monotonic()
    assert ingest(studio.database, run_id, folder) == 5000
    assert time.monotonic() - began < 10
    assert len(studio.runs.metrics(run_id, buckets=500)) == 14
