"""``rlvr regrade`` on a run folder, as a script calls it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kept_run import LENIENT, kept_run, spec
from typer.testing import CliRunner

from studio.cli.app import app
from studio.services import Studio
from trainer.errors import TaskError
from trainer.runfolder import RunFolder


@pytest.fixture
def run(open_studio: Callable[..., Studio], monkeypatch: pytest.MonkeyPatch) -> Path:
    studio = open_studio(watch=False)
    path = studio.runs.folder_path(kept_run(studio))
    monkeypatch.setenv('RLVR_HOME', str(studio.settings.home))
    return path


def regrade(*arguments: object) -> tuple[int, Any]:
    done = CliRunner().invoke(app, ['regrade', *map(str, arguments), '--json'])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, json.loads(done.stdout)


def test_the_runs_own_and_a_changed_checker(run: Path, tmp_path: Path) -> None:
    code, found = regrade(run)
    assert (code, found['counts']['unchanged'], found['not_kept']) == (0, 16, 0)
    task = RunFolder(run).tasks()[0].id
    changed = tmp_path / 'changed.json'
    changed.write_text(json.dumps(spec(LENIENT)), encoding='utf-8')
    code, found = regrade(run, '--task', task, '--checker', changed)
    assert code == 0
    assert {change: count for change, count in found['counts'].items() if count} == {'fail_to_pass': 2, 'unchanged': 6}
    first = found['rollouts'][0]
    assert (first['change'], first['before']['reward'], first['after']['reward']) == ('fail_to_pass', 0.0, 1.0)
    named = tmp_path / 'named.json'
    named.write_text(json.dumps({'id': task, 'task_spec': spec(LENIENT)}), encoding='utf-8')
    assert regrade(run, '--checker', named) == (0, found), 'a task with an id of the run says itself which it is'


def test_words_for_people(run: Path) -> None:
    done = CliRunner().invoke(app, ['regrade', str(run)])
    assert (done.exit_code, done.stdout) == (0, '16 unchanged\n')


def test_what_cannot_be(run: Path, tmp_path: Path) -> None:
    changed = tmp_path / 'changed.json'
    changed.write_text(json.dumps(spec(LENIENT)), encoding='utf-8')
    with pytest.raises(TaskError, match='no task nowhere'):
        regrade(run, '--task', 'nowhere')
    with pytest.raises(TaskError) as refused:
        regrade(run, '--checker', changed)
    assert '--task' in refused.value.hint
    broken = tmp_path / 'broken.json'
    broken.write_text(json.dumps(spec('no-such-program')), encoding='utf-8')
    task = RunFolder(run).tasks()[0].id
    code, found = regrade(run, '--task', task, '--checker', broken)
    assert (code, found['counts']['scored_to_error']) == (3, 8)
    shutil.rmtree(run / 'workspaces')
    code, found = regrade(run)
    assert (code, found['not_kept'], found['rollouts']) == (1, 16, [])
