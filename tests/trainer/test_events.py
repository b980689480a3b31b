"""Events: numbered without gaps, whole lines only, nothing that is no number."""

import json
import math
from pathlib import Path

from trainer.events import EventWriter, Metrics, Notice, Progress, State, read_events


def test_written_events_are_read_back_with_numbers_from_one(tmp_path: Path) -> None:
    path = tmp_path / 'events.jsonl'
    with EventWriter(path) as writer:
        writer.write(State(state='preparing'))
        writer.write(Progress(step=1, total=3))
    events, offset = read_events(path)
    assert [event.seq for event in events] == [1, 2]
    assert offset == path.stat().st_size
    assert read_events(path, offset) == ([], offset)


def test_missing_numbers_are_absent(tmp_path: Path) -> None:
    path = tmp_path / 'events.jsonl'
    with EventWriter(path) as writer:
        writer.write(Metrics(step=1, values={'loss': 0.5, 'entropy': math.nan, 'grad_norm': math.inf}))
        writer.write(Progress(step=1, total=3))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]['values'] == {'loss': 0.5}
    assert 'eta_s' not in lines[1]


def test_a_half_written_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / 'events.jsonl'
    path.write_bytes(b'{"type":"heartbeat","seq":1,"time":1}\n{"type":"heart')
    events, offset = read_events(path)
    assert len(events) == 1
    with path.open('ab') as file:
        file.write(b'beat","seq":2,"time":2}\n')
    assert [event.seq for event in read_events(path, offset)[0]] == [2]


def test_a_writer_goes_on_after_a_crash_without_a_gap(tmp_path: Path) -> None:
    path = tmp_path / 'events.jsonl'
    path.write_bytes(b'{"type":"heartbeat","seq":7,"time":1}\n{"type":"heart')
    with EventWriter(path) as writer:
        assert writer.write(Notice(text='again')) == 8
    assert [event.seq for event in read_events(path)[0]] == [7, 8]


def test_damage_is_shown_not_lost(tmp_path: Path) -> None:
    path = tmp_path / 'events.jsonl'
    path.write_bytes(b'not json\n{"type":"heartbeat","seq":1,"time":1}\n')
    first, second = read_events(path)[0]
    assert isinstance(first, Notice)
    assert 'not json' in first.text
    assert second.seq == 1


def test_reading_in_small_pieces_sees_every_event(tmp_path: Path) -> None:
    path = tmp_path / 'events.jsonl'
    with EventWriter(path) as writer:
        for number in range(50):
            writer.write(Notice(text='x' * number * 10))
    seen, offset = [], 0
    while True:
        events, following = read_events(path, offset, limit=64)
        if following == offset:
            break
        seen += [event.seq for event in events]
        offset = following
    assert seen == list(range(1, 51))
