"""Events: numbered without gaps, whole lines only, nothing that is no number."""

import json
import math
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from trainer.errors import RunFolderError
from trainer.events import EventWriter, Metrics, Notice, Progress, State, read_events
from trainer.line_file import LineFile, last_line
from trainer.runfolder import Claim, RunFolder


def test_written_events_are_read_back_with_numbers_from_one(tmp_path: Path) -> None:
    path = tmp_path / 'events.jsonl'
    with EventWriter(path) as writer:
        writer.write(State(state='preparing'))
        writer.write(Progress(step=1, total=3))
    events, offset = read_events(path)
    assert [event.seq for event in events] == [1, 2]
    assert offset == path.stat().st_size
    assert read_events(path, offset) == ([], offset)


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    """Else two of them would give out the same numbers: some of several processes may outlive their run."""
    path = tmp_path / 'events.jsonl'
    with EventWriter(path) as writer:
        for again in (RunFolder(tmp_path).reopen, partial(RunFolder(tmp_path).begin, Claim.of(os.getpid()))):
            with pytest.raises(RunFolderError, match='still written by another process'):
                again()
        writer.write(State(state='preparing'))
    RunFolder(tmp_path).begin(Claim.of(os.getpid()))
    with EventWriter(path) as writer:
        assert writer.seq == 1


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


def test_a_full_disk_leaves_whole_lines_and_no_gap(tmp_path: Path) -> None:
    """What cannot be written waits; a line is never there in part."""
    path = tmp_path / 'events.jsonl'
    with EventWriter(path) as writer:
        writer.write(State(state='preparing'))
        with full_disk(path.stat().st_size + 40):
            for step in range(3):
                writer.write(Progress(step=step, total=3))
            assert writer.waiting == 3
            assert len(read_events(path)[0]) == 1
        writer.write(State(state='finished'))
        assert writer.waiting == 0
    events, offset = read_events(path)
    assert [event.seq for event in events] == [1, 2, 3, 4, 5]
    assert offset == path.stat().st_size


def test_lines_that_were_cut_by_a_kill_are_taken_away_at_opening(tmp_path: Path) -> None:
    path = tmp_path / 'rollouts.jsonl'
    path.write_bytes(b'{"a": 1}\n{"b": ')
    file = LineFile(path)
    assert file.append(b'{"c": 3}') == 9
    file.close()
    assert path.read_bytes() == b'{"a": 1}\n{"c": 3}\n'
    assert last_line(path) == b'{"c": 3}'


def test_the_last_line_is_found_however_long_it_is(tmp_path: Path) -> None:
    path = tmp_path / 'lines'
    path.write_bytes(b'short\n' + b'x' * 200_000 + b'\n')
    assert last_line(path) == b'x' * 200_000
    path.write_bytes(b'')
    assert last_line(path) == b''


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file of this process may grow beyond ``size``, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
