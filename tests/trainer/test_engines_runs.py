"""Whole runs with each engine: the same episodes from the same seed, an adapter a step, a failure that is told."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from trainer.config import RunConfig, parse_settings
from trainer.events import Notice, State, read_events
from trainer.manifest import read_manifest
from trainer.models import ASSETS
from trainer.runfolder import RunFolder

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]
FAKE = Path(__file__).with_name('fake_vllm.py')
PROGRAM = os.environ.get('RLVR_VLLM', '')


def run(path: Path, engine: str, steps: int, **environment: str) -> tuple[RunFolder, int]:
    rl = {'enabled': True, 'numGenerations': 4, 'maxSteps': steps, 'generationEngine': engine}
    config = RunConfig(
        id=engine,
        created_at=datetime.now(UTC),
        model='starter',
        settings=parse_settings({'rl': rl, 'heldOutAttempts': 0})[0],
        home=str(path.parent / 'home'),
    )
    folder = RunFolder.create(path, config, read_manifest(ASSETS / 'tasks' / 'tutorial-train.jsonl')[:2])
    environment = {**os.environ, 'RLVR_VLLM': '', 'RLVR_VLLM_URL': '', **environment}
    command = [sys.executable, '-m', 'trainer', str(path)]
    with folder.log.open('wb') as log:
        code = subprocess.run(command, stdout=log, stderr=log, env=environment, check=False).returncode
    return folder, code


@pytest.fixture
def fake(tmp_path: Path) -> str:
    program = tmp_path / 'vllm'
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {FAKE} "$@"\n')
    program.chmod(0o755)
    return str(program)


def said(folder: RunFolder) -> list[list[str]]:
    rollouts = map(json.loads, folder.rollouts.read_text().splitlines())
    return [[turn['text'] for turn in rollout['turns']] for rollout in rollouts]


def notices(folder: RunFolder) -> list[str]:
    events, _ = read_events(folder.events)
    return [event.text for event in events if isinstance(event, Notice)]


def test_continuous_batching_plays_the_episodes_of_plain(tmp_path: Path) -> None:
    episodes = []
    for engine in ('plain', 'continuous_batching'):
        folder, code = run(tmp_path / engine, engine, steps=1)
        assert code == 0, folder.log.read_text()[-3000:]
        assert json.loads((folder.path / 'plan.json').read_text())['engine'] == engine
        episodes.append(said(folder))
    assert len(episodes[0]) == 8
    assert episodes[0] == episodes[1]


def test_a_vllm_server_gets_the_adapter_of_each_step_and_ends_with_the_run(tmp_path: Path, fake: str) -> None:
    folder, code = run(tmp_path / 'run', 'vllm', steps=2, RLVR_VLLM=fake)
    assert code == 0, folder.log.read_text()[-3000:]
    requests = list(map(json.loads, (folder.path / 'requests.jsonl').read_text().splitlines()))
    loaded = [one['body']['lora_name'] for one in requests if one['path'] == '/v1/load_lora_adapter']
    assert len(loaded) == len(set(loaded)) == 2
    assert {one['body']['model'] for one in requests if one['path'] == '/v1/completions'} == set(loaded)
    told = [text for text in notices(folder) if 'vLLM' in text]
    assert [text.split()[0] for text in told] == ['Starting', 'vLLM']
    assert not psutil.pid_exists(int((folder.path / 'child.pid').read_text()))
    assert not (folder.path / 'vllm').exists()


def test_a_vllm_server_that_fails_ends_the_run_with_its_reason(tmp_path: Path, fake: str) -> None:
    folder, code = run(tmp_path / 'run', 'vllm', steps=2, RLVR_VLLM=fake, FAKE_VLLM='dies')
    assert code == 1
    events, _ = read_events(folder.events)
    reasons = [event.reason for event in events if isinstance(event, State) and event.state == 'failed']
    assert reasons == ['The vLLM server ended with exit code 3: torch.OutOfMemoryError: no memory left']
    assert any('vllm.log' in text for text in notices(folder))


@pytest.mark.vllm
@pytest.mark.skipif(not PROGRAM, reason='RLVR_VLLM does not name vllm or python of an environment with vLLM')
@pytest.mark.timeout(1500)
def test_a_run_trains_on_what_a_real_server_says(tmp_path: Path) -> None:
    folder, code = run(tmp_path / 'run', 'vllm', steps=2, RLVR_VLLM=PROGRAM)
    assert code == 0, folder.log.read_text()[-3000:]
    assert json.loads((folder.path / 'plan.json').read_text())['engine'] == 'vllm'
    assert len(said(folder)) == 16
    assert all(any(turns) for turns in said(folder))
    assert not [one for one in psutil.process_iter(['cwd']) if one.info['cwd'] == str(folder.path)]
