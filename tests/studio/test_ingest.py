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
from studio.runs import metric_blocks
from studio.services import Studio
from trainer.events import Evaluating, EventWriter, Metrics, Notice, Resumed, RolloutEvent, State
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
    assert time.monotonic() - began < 60
    assert len(studio.runs.metrics(run_id, buckets=500)) == 14


def test_a_long_series_is_read_in_few_rows_and_no_spike_is_lost(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run_id, folder = _made(studio)
    lost = range(2_000, 2_400)
    with EventWriter(folder.events) as events:
        for step in range(1, 6_001):
            if step not in lost:
                values = {'loss': 9.0 if step == 3_333 else step % 7 / 7, 'checker/errors': float(step % 100 == 0)}
                events.write(Metrics(step=step, values=values))
    ingest(studio.database, run_id, folder)
    x, y = studio.runs.lines(run_id, ['loss', 'nothing'], buckets=200)['loss']
    assert len(x) < 600 and max(value for value in y if value is not None) == 9.0
    assert x[y.index(9.0)] == 3_333
    gaps = [step for step, value in zip(x, y, strict=True) if value is None]
    assert len(gaps) == 1 and gaps[0] in lost
    assert x[-64:] == list(range(5_937, 6_001)), 'the newest are whole'
    near, _ = studio.runs.lines(run_id, ['loss'], first=3_300, last=3_360)['loss']
    assert near == list(range(3_300, 3_361))
    width, columns = studio.runs.bars(run_id, ['checker/errors'], [])
    assert sum(columns['checker/errors'].values) == 56 and len(columns['checker/errors'].values) <= 6_000 / width + 1
    assert studio.runs.metric_names(run_id) == ('checker/errors', 'loss')


def test_what_a_resumed_run_does_again_is_taken_back(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run_id, folder = _made(studio)
    with EventWriter(folder.events) as events:
        for step in range(1, 48):
            events.write(Metrics(step=step, values={'loss': float(step), 'only_before': 1.0}))
            events.write(RolloutEvent(step=step, task='a', index=0, outcome='passed', reward=1.0, offset=0))
        events.write(RolloutEvent(step=47, task='b', index=0, stage='after', outcome='passed', reward=1.0, offset=0))
        ingest(studio.database, run_id, folder)
        events.write(Resumed(step=40))
        events.write(Metrics(step=41, values={'loss': -1.0}))
        events.write(RolloutEvent(step=41, task='a', index=0, outcome='failed', reward=0.0, offset=0))
    ingest(studio.database, run_id, folder)
    assert studio.runs.metrics(run_id)['loss'] == ([*range(1, 42)], [*map(float, range(1, 41)), -1.0])
    assert studio.runs.metrics(run_id)['only_before'][0] == [*range(1, 41)]
    assert [row.outcome for row in studio.runs.group(run_id, 41, 'a')] == ['failed']
    assert studio.runs.rollout_count(run_id) == 42
    with studio.database.read() as session:
        found = metric_blocks.blocks(session, run_id, ['loss'], 64, 0, 100)
    assert [(block.n, block.low, block.high) for block in found['loss']] == [(41, -1.0, 40.0)]
    assert isinstance(studio.runs.events(run_id)[-1], Resumed)


def test_an_evaluation_that_was_cut_short_is_not_counted_beside_its_second_go(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run_id, folder = _made(studio)
    with EventWriter(folder.events) as events:
        for stage, count in (('before', 2), ('during', 1), ('before', 3)):
            events.write(Evaluating(stage=stage, step=0))
            for index in range(count):
                events.write(
                    RolloutEvent(step=0, task='a', index=index, stage=stage, outcome='passed', reward=1.0, offset=0)
                )
            ingest(studio.database, run_id, folder)
    assert [row.index for row in studio.runs.group(run_id, 0, 'a', stage='before')] == [0, 1, 2]
    assert studio.runs.rollout_count(run_id) == 4
    assert [event.stage for event in studio.runs.events(run_id, types=['evaluating'])] == ['before', 'during', 'before']


def test_stretches_are_the_same_however_the_points_came(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    (one, first), (other, second) = _made(studio), _made(studio)
    with EventWriter(first.events) as events, EventWriter(second.events) as whole:
        for step in range(1, 700, 3):
            for writer in (events, whole):
                writer.write(Metrics(step=step, values={'loss': step * 7 % 13 / 13}))
            if step % 50 == 1:
                ingest(studio.database, one, first)
    ingest(studio.database, one, first)
    ingest(studio.database, other, second)
    with studio.database.read() as session:
        for width in metric_blocks.WIDTHS:
            found = [metric_blocks.blocks(session, id, ['loss'], width, 0, 1000)['loss'] for id in (one, other)]
            assert [block[:5] for block in found[0]] == [block[:5] for block in found[1]]
            assert [block.total for block in found[0]] == pytest.approx([block.total for block in found[1]])
