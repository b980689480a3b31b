"""Numbers as files: CSV, JSON and TensorBoard events hold every step once, and what is missing is missing (G2)."""

from __future__ import annotations

import csv
import importlib
import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from measured_runs import REWARD, measured
from typer.testing import CliRunner

from studio.cli.app import app
from studio.errors import NotFound
from studio.ingest import ingest
from studio.runs.export import RunExport
from studio.runs.tensorboard_events import records, scalars
from studio.services import Studio
from trainer.events import EventWriter, Metrics, Resumed

Open = Callable[..., Studio]


def export(studio: Studio) -> RunExport:
    return RunExport(studio.database, studio.runs, studio.results)


def whole(studio: Studio, *ids: str, format: Any = 'csv', compared: bool = False) -> bytes:
    file = export(studio).compared(ids, format) if compared else export(studio).file(ids[0], format)
    return b''.join(file.pieces)


def table(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode())))


def test_csv_has_a_column_for_every_series_and_empty_cells_where_nothing_was_measured(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run = measured(studio, rows={1: {REWARD: 0.1}, 2: {REWARD: 1 / 3, 'entropy': 0.5}, 5000: {'a,"b"\nc': 1e-7}})
    assert table(whole(studio, run.id)) == [
        ['step', 'a,"b"\nc', 'entropy', REWARD],
        ['1', '', '', '0.1'],
        ['2', '', '0.5', repr(1 / 3)],
        ['5000', '1e-07', '', ''],
    ]


def test_several_runs_are_one_table_and_no_name_is_a_formula(open_studio: Open) -> None:
    """G2: the union of the columns in a fixed order, whatever the runs have."""
    studio = open_studio(watch=False)
    name = '=HYPERLINK("x"), "a"\nb'
    runs = [
        measured(studio, name, rows={1: {REWARD: 0.5}}),
        measured(studio, 'second', rows={1: {'tools/call_frequency': 2.0}}),
        measured(studio, 'nothing was measured'),
    ]
    rows = table(whole(studio, *(run.id for run in runs), compared=True))
    assert rows == [
        ['run_id', 'run', 'step', REWARD, 'tools/call_frequency'],
        [runs[0].id, "'" + name, '1', '0.5', ''],
        [runs[1].id, 'second', '1', '', '2.0'],
    ]
    both = json.loads(whole(studio, *(run.id for run in runs), format='json', compared=True))
    assert [run['run']['name'] for run in both] == [name, 'second', 'nothing was measured']


def test_json_holds_series_configuration_and_summary(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run = measured(
        studio, rows={1: {REWARD: 0.5}, 3: {REWARD: 0.75}}, settings={'seed': 7}, evaluations={'after': {'t': 4}}
    )
    found = json.loads(whole(studio, run.id, format='json'), parse_constant=lambda text: pytest.fail(text))
    assert found['series'] == {REWARD: {'steps': [1, 3], 'values': [0.5, 0.75]}}
    assert found['settings']['seed'] == 7 and found['run']['id'] == run.id
    assert found['summary']['before'] is None and found['summary']['after']['mean'] == 0.5
    assert found['summary']['latest'] == {REWARD: 0.75}
    assert json.loads(whole(studio, measured(studio).id, format='json'))['series'] == {}


def test_steps_that_were_taken_back_are_not_exported(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run = measured(studio, rows={step: {'loss': 1.0} for step in (1, 2, 3)})
    folder = studio.runs.folder(run.id)
    with EventWriter(folder.events) as events:
        events.write(Resumed(step=1))
        events.write(Metrics(step=2, values={'loss': 2.0, REWARD: 0.5}))
    ingest(studio.database, run.id, folder)
    assert table(whole(studio, run.id))[1:] == [['1', '1.0', ''], ['2', '2.0', '0.5']]
    assert [(step, values) for _, step, values in events_of(whole(studio, run.id, format='tensorboard'))] == [
        (1, {'loss': 1.0}),
        (2, {'loss': 2.0, REWARD: 0.5}),
    ]


def test_tensorboard_reads_what_was_written(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    rows = {step: {REWARD: step / 4, 'entropy': 1.5} for step in (1, 300)}
    run = measured(studio, rows=rows)
    file = export(studio).file(run.id, 'tensorboard')
    assert 'tfevents' in file.name and run.id in file.name
    found = events_of(b''.join(file.pieces))
    assert [(step, values) for _, step, values in found] == list(rows.items())
    written = (studio.runs.folder_path(run.id) / 'events.jsonl').read_text(encoding='utf-8').splitlines()
    times = [event['time'] for line in written if (event := json.loads(line))['type'] == 'metrics']
    assert [time for time, _, _ in found] == times


def test_numbers_beyond_what_tensorboard_can_hold_are_cut() -> None:
    assert events_of(records([scalars(1.0, 1, [('x', 1e300), ('y', -1e300)])]))[0][2] == {
        'x': pytest.approx(3.4028e38, rel=1e-4),
        'y': pytest.approx(-3.4028e38, rel=1e-4),
    }


def events_of(data: bytes) -> list[tuple[float, int, dict[str, float]]]:
    """Read an event file with the messages and checksums of another implementation."""
    messages = importlib.import_module('tensorboardX.proto.event_pb2')
    checksum = importlib.import_module('tensorboardX.record_writer').masked_crc32c
    found = []
    while data:
        (length, of_length) = struct.unpack('<QI', data[:12])
        message, (of_message,) = data[12 : 12 + length], struct.unpack('<I', data[12 + length : 16 + length])
        assert of_length == checksum(data[:8]) and of_message == checksum(message)
        event = messages.Event.FromString(message)
        if event.summary.value:
            found.append(
                (event.wall_time, event.step, {value.tag: value.simple_value for value in event.summary.value})
            )
        else:
            assert event.file_version == 'brain.Event:2'
        data = data[16 + length :]
    return found


@pytest.mark.parametrize(
    ('name', 'file'),
    [
        ('math/gsm8k hard: v2', 'math-gsm8k-hard-v2-metrics.csv'),
        ('../../x\r\nSet-Cookie: a=b', 'x-Set-Cookie-a-b-metrics.csv'),
        ('a' * 200, 'a' * 60 + '-metrics.csv'),
        ('задача 🚀', None),
        ('..', None),
    ],
)
def test_a_file_name_is_safe_everywhere(open_studio: Open, name: str, file: str | None) -> None:
    studio = open_studio(watch=False)
    run = measured(studio, name)
    assert export(studio).file(run.id, 'csv').name == (file or f'{run.id}-metrics.csv')


def test_a_run_that_is_gone_is_said_before_the_first_byte(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    with pytest.raises(NotFound):
        export(studio).file('nothing', 'csv')
    run = measured(studio, rows={1: {'loss': 1.0}})
    file = export(studio).file(run.id, 'csv')
    studio.runs.delete(run.id)
    assert table(b''.join(file.pieces)) == [['step']], 'whole, if empty'


def test_the_command_writes_files(open_studio: Open, tmp_path: Path) -> None:
    studio = open_studio(watch=False)
    run = measured(studio, 'my run', rows={1: {'loss': 1.0}})
    home = str(studio.settings.home)

    def rlvr(*arguments: str) -> Any:
        return CliRunner().invoke(app, ['runs', *arguments, '--home', home])

    assert rlvr('export', 'my run').stdout == 'step,loss\n1,1.0\n'
    out = tmp_path / 'new' / 'numbers.json'
    assert rlvr('export', run.id, '--format', 'json', '--out', str(out)).exit_code == 0
    assert json.loads(out.read_text(encoding='utf-8'))['series']['loss']['values'] == [1.0]
    assert '--force' in rlvr('export', run.id, '--out', str(out)).exception.hint
    assert out.read_text(encoding='utf-8').startswith('{')
    assert rlvr('export', run.id, '--out', str(out), '--force').exit_code == 0
    assert out.read_text(encoding='utf-8') == 'step,loss\n1,1.0\n'
    folder = tmp_path / 'logs'
    assert rlvr('export', run.id, '--format', 'tensorboard', '--out', str(folder)).exit_code == 0
    assert [path.name for path in folder.iterdir()] == [export(studio).file(run.id, 'tensorboard').name]
    assert rlvr('export', 'no such run').exception is not None
    assert 'no format' in str(rlvr('export', run.id, '--format', 'xlsx').exception)
    assert '--out' in rlvr('export', run.id, '--format', 'tensorboard').exception.hint
    assert run.id in rlvr('list').stdout
    assert json.loads(rlvr('list', '--json').stdout)[0]['name'] == 'my run'
