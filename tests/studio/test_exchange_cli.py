"""``rlvr tasks import`` and ``export``: the same preview as in the studio, and files that other tools read."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from stand_in import SPEC
from typer.testing import CliRunner, Result

from studio.cli.app import app
from trainer.errors import ConfigError

FULL = {
    'title': 'Add: it/../up',
    'topics': ['math'],
    'task_spec': SPEC,
    'solutions': [{'kind': 'reference', 'files': {'solution.py': 'def add(a, b):\n    return a + b\n'}}],
}


@pytest.fixture
def rlvr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv('RLVR_HOME', str(tmp_path / 'home'))

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, ['tasks', *map(str, arguments)])

    return run


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    path = tmp_path / 'mixed.jsonl'
    path.write_text('\n'.join([json.dumps(FULL), json.dumps({**SPEC, 'promt': 1}), 'nope']), encoding='utf-8')
    return path


def test_a_dry_run_tells_everything_and_stores_nothing(rlvr: Any, mixed: Path) -> None:
    done = rlvr('import', mixed, '--dry-run', '--json')
    rows = json.loads(done.stdout)
    assert (done.exit_code, [row['status'] for row in rows]) == (2, ['new', 'refused', 'refused'])
    assert (rows[1]['line'], rows[1]['errors'][0]['loc'], rows[1]['file']) == (2, 'promt', str(mixed))
    assert json.loads(rlvr('list', '--json').stdout) == []
    said = rlvr('import', mixed, '--dry-run')
    assert (
        'Add: it/../up' in said.stdout and "promt: unknown key 'promt': did you mean 'prompt'?" in said.stderr.lower()
    )
    assert 'Nothing was stored.' in said.stderr


def test_harbor_goes_out_and_in(rlvr: Any, mixed: Path, tmp_path: Path) -> None:
    assert '1 added, 2 refused' in rlvr('import', mixed).stdout
    out = tmp_path / 'tasks.zip'
    assert rlvr('export', '--format', 'harbor', '--out', out).exit_code == 0
    with zipfile.ZipFile(out) as archive:
        archive.extractall(tmp_path / 'folders')
    for source in (out, tmp_path / 'folders', tmp_path / 'folders' / 'add-it-up'):
        (row,) = json.loads(rlvr('import', source, '--json').stdout)
        assert (row['format'], row['status'], row['result']) == ('harbor', 'same', 'here')
    (tmp_path / 'folders' / 'add-it-up' / 'instruction.md').write_text('Another', encoding='utf-8')
    (row,) = json.loads(rlvr('import', tmp_path / 'folders', '--conflicts', 'version', '--json').stdout)
    assert (row['status'], row['result']) == ('conflict', 'version') and 'prompt differs' in row['reason']
    assert json.loads(rlvr('export').stdout)['task_spec']['prompt'] == 'Another'


def test_formats_can_be_asked_for_and_unknown_ones_are_refused(rlvr: Any, mixed: Path) -> None:
    (first, *_) = json.loads(rlvr('import', mixed, '--format', 'openai', '--json').stdout)
    assert (first['status'], first['reason']) == ('refused', 'Not recognised as OpenAI graders')
    for arguments in (
        ('import', mixed, '--format', 'xml'),
        ('import', mixed, '--conflicts', 'x'),
        ('export', '--format', 'x'),
    ):
        error = rlvr(*arguments).exception
        assert isinstance(error, ConfigError) and 'Use one of' in error.hint
    rlvr('import', mixed)
    assert json.loads(rlvr('export', '--format', 'task_spec').stdout)['checker'] == SPEC['checker']
    assert json.loads(rlvr('export', '--format', 'doc-create').stdout)['data'][0]['title'] == 'Add: it/../up'
