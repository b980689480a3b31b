"""Merging and pushing as services: what is needed, what is refused, progress, cancel, and a token that stays secret."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from studio.adapters.use import AdapterUse, check_repo, read_source
from studio.side_jobs.service import SideJobs
from trainer.errors import ConfigError
from trainer.merged_model import MERGE_FILE

TOKEN = 'hf_' + 'x' * 34


@pytest.fixture
def use(tmp_path: Path) -> Iterator[AdapterUse]:
    made = AdapterUse(tmp_path / 'home')
    yield made
    made.close()


def adapter(folder: Path) -> Path:
    (folder / 'adapter').mkdir(parents=True)
    (folder / 'adapter' / 'adapter_config.json').write_text('{"r": 8}')
    (folder / 'adapter' / 'adapter_model.safetensors').write_bytes(b'weights')
    lineage = {'model': {'id': 'starter', 'kind': 'bundled'}, 'run': {'name': 'A run'}}
    (folder / 'adapter' / 'lineage.json').write_text(json.dumps(lineage))
    return folder / 'adapter'


def test_a_merge_is_planned(use: AdapterUse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = read_source(adapter(tmp_path / 'run'))
    assert (source.name, source.model, source.rank) == ('A run', 'starter', 8)
    plan = use.plan_merge(source, '', 'bfloat16')
    assert plan.out == tmp_path / 'home' / 'merged' / 'a-run-bf16'
    assert plan.needed == 2_066_368 * 2 + 64 * 1024**2
    assert plan.free
    assert not plan.problem
    assert use.plan_merge(source, 'mine', 'float32').out == tmp_path / 'home' / 'merged' / 'mine'
    plan.out.mkdir(parents=True)
    assert use.default_target(source, 'bfloat16').name == 'a-run-bf16-2'
    assert 'nothing is written over' in use.plan_merge(source, str(plan.out), 'float32').problem
    assert 'is no folder' in use.plan_merge(source, str(tmp_path / 'no' / 'where'), 'float32').problem
    with pytest.raises(ConfigError) as caught:
        use.merge(source, str(plan.out), 'float32')
    assert caught.value.fields[0].loc == 'out'
    usage = shutil.disk_usage(tmp_path)._replace(free=5)
    monkeypatch.setattr('studio.adapters.use.shutil.disk_usage', lambda path: usage)
    assert 'not enough room' in use.plan_merge(source, '', 'float32').problem


def test_merged_models_are_found_by_the_checksum_of_their_adapter(use: AdapterUse, tmp_path: Path) -> None:
    source = read_source(adapter(tmp_path / 'run'))
    facts = {
        'base': 'starter',
        'dtype': 'float32',
        'parameters': 1,
        'adapter_sha256': '2e6f7c3f',
        'drift': {'prompts': 20, 'tokens': 48, 'equal': 19, 'max_logit': 0.5},
        'files': {},
        'libraries': {},
        'created_at': '2026-01-01T00:00:00Z',
    }
    own = facts | {'adapter_sha256': hashlib.sha256(b'weights').hexdigest()}
    for name, text in (('own', json.dumps(own)), ('other', json.dumps(facts)), ('broken', '{')):
        (tmp_path / 'home' / 'merged' / name).mkdir(parents=True)
        (tmp_path / 'home' / 'merged' / name / MERGE_FILE).write_text(text)
    (found,) = use.merged(source)
    assert found.folder.name == 'own'
    assert found.model.drift.share == 0.95


@pytest.mark.parametrize('repo', ['me/model', 'model', 'me/Model_1.0', 'a/b'])
def test_names_that_a_hub_takes(repo: str) -> None:
    check_repo(repo)


@pytest.mark.parametrize(
    'repo',
    ['', 'a/b/c', '../x', 'me/', '/x', 'me/a b', 'me/a--b', 'me/x.git', 'me/-x', 'me/é', 'https://x/y', 'me/x\n'],
)
def test_names_that_it_does_not(repo: str) -> None:
    with pytest.raises(ConfigError):
        check_repo(repo)


def test_a_token_is_in_no_argument_and_no_environment(
    use: AdapterUse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('HF_ENDPOINT', 'http://127.0.0.1:9')
    monkeypatch.setenv('HF_TOKEN', 'hf_of_the_machine')
    folder = adapter(tmp_path / 'run')
    for token in ('', 'two words', 'ключ'):
        with pytest.raises(ConfigError):
            use.push(folder, 'me/x', token)
    job = use.push(folder, ' me/x ', f' {TOKEN}\n')
    pid = use.jobs.process_id(job.id)
    assert pid is not None
    process = psutil.Process(pid)
    assert TOKEN not in ' '.join(process.cmdline())
    environment = process.environ()
    assert TOKEN not in str(environment)
    assert 'HF_TOKEN' not in environment
    ended = use.jobs.wait(job.id, 60)
    assert ended.state == 'failed'
    assert 'does not answer' in ended.message
    assert TOKEN not in ended.model_dump_json()
    assert TOKEN not in str(vars(use.jobs))
    home = tmp_path / 'home'
    assert not [path for path in home.rglob('*') if path.is_file() and TOKEN in path.read_text(errors='replace')]


def test_a_job_is_cancelled_with_what_it_started(tmp_path: Path) -> None:
    (tmp_path / 'slow_job.py').write_text(
        'import subprocess, time\n'
        'print(\'{"kind": "progress", "text": "Working", "done": 1, "total": 4}\', flush=True)\n'
        'subprocess.run(["sleep", "61"])\n'
    )
    jobs = SideJobs()
    path = os.pathsep.join((str(tmp_path), os.environ.get('PYTHONPATH', '')))
    job = jobs.start('slow', 'x', 'slow_job', [], environment={'PYTHONPATH': path})
    deadline = time.monotonic() + 60
    while jobs.view(job.id).text != 'Working':
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert jobs.view(job.id).share == 0.25
    pid = jobs.process_id(job.id)
    assert pid is not None
    children = psutil.Process(pid).children(recursive=True)
    jobs.cancel(job.id)
    assert jobs.view(job.id).state == 'cancelled'
    psutil.wait_procs(children, timeout=10)
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    jobs.close()


def test_a_job_that_is_killed_or_breaks_says_so(tmp_path: Path) -> None:
    (tmp_path / 'killed.py').write_text('import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n')
    (tmp_path / 'broken.py').write_text('raise SystemExit(3)\n')
    jobs = SideJobs()
    path = os.pathsep.join((str(tmp_path), os.environ.get('PYTHONPATH', '')))
    said = [
        jobs.wait(jobs.start('x', module, module, [], environment={'PYTHONPATH': path}).id, 60).message
        for module in ('killed', 'broken')
    ]
    assert said == ['It was killed, likely for want of memory', 'It ended with exit code 3']
