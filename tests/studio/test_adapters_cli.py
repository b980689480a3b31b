"""``rlvr adapters``: what comes in is listed, goes out again whole, and is deleted; a proof says what it misses."""

import json
from pathlib import Path
from typing import Any

import pytest
from adapter_files import files, zipped
from typer.testing import CliRunner, Result

from studio.cli.app import app
from trainer.errors import ConfigError


@pytest.fixture
def rlvr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv('RLVR_HOME', str(tmp_path / 'home'))

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, ['adapters', *map(str, arguments)])

    return run


def test_an_adapter_comes_in_and_goes_out(rlvr: Any, tmp_path: Path) -> None:
    gift = zipped(tmp_path / 'gift.zip', {**files(), 'notes.txt': b''})
    made = json.loads(rlvr('import', gift, '--json').stdout)
    assert (made['name'], made['number'], made['left_out']) == ('gift', 1, ['notes.txt'])
    assert [row['id'] for row in json.loads(rlvr('list', '--json').stdout)] == [made['id']]
    assert 'gift v1' in rlvr('list').stdout
    out = json.loads(rlvr('export', 'gift:v1', '--out', tmp_path / 'out', '--json').stdout)
    assert {path.name: path.read_bytes() for path in Path(out['path']).iterdir()} == files()
    again = json.loads(rlvr('import', tmp_path / 'out', '--name', 'gift', '--json').stdout)
    assert (again['number'], again['sha256']) == (2, made['sha256'])
    assert rlvr('delete', 'gift', '--json').exit_code == 1
    gone = json.loads(rlvr('delete', 'gift:v2', '--yes', '--json').stdout)
    assert gone == {'id': again['id'], 'freed_bytes': again['size']}
    assert len(json.loads(rlvr('list', '--json').stdout)) == 1


def test_nothing_is_written_over(rlvr: Any, tmp_path: Path) -> None:
    rlvr('import', zipped(tmp_path / 'gift.zip', files()))
    done = rlvr('export', 'gift', '--out', tmp_path / 'gift.zip')
    assert isinstance(done.exception, ConfigError) and 'is there already' in done.exception.message


def test_without_a_record_there_is_no_proof(rlvr: Any, tmp_path: Path) -> None:
    (tmp_path / 'empty').mkdir()
    done = rlvr('prove', tmp_path / 'empty')
    assert isinstance(done.exception, ConfigError) and 'nothing to compare with' in done.exception.message
