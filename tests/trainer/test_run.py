"""Whole runs of the real trainer in its own process: starter model, real sandbox, real GRPO steps."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainer.config import RunConfig, parse_settings
from trainer.events import Metrics, Notice, Progress, RolloutEvent, State, read_events
from trainer.manifest import read_manifest
from trainer.models import ASSETS, STARTER_FOLDER
from trainer.recording import Rollout
from trainer.runfolder import RunFolder, state_of
from trainer.task import TaskFile, parse_task

pytestmark = pytest.mark.train
TUTORIAL = ASSETS / 'tasks' / 'tutorial-train.jsonl'
HELD_OUT = ASSETS / 'tasks' / 'tutorial-heldout.jsonl'


def make(path: Path, tasks: list[TaskFile], held_out: list[TaskFile] = [], **settings: object) -> RunFolder:  # noqa: B006
    parsed, _ = parse_settings({'rl': {'enabled': True, 'numGenerations': 4, 'maxSteps': 2}, **settings})
    config = RunConfig(
        id='test', created_at=datetime.now(UTC), model='starter', settings=parsed, home=str(path.parent / 'home')
    )
    return RunFolder.create(path, config, tasks, held_out)


def start(folder: RunFolder) -> subprocess.Popen[bytes]:
    with folder.log.open('wb') as log:
        return subprocess.Popen([sys.executable, '-m', 'trainer', str(folder.path)], stdout=log, stderr=log)


def wait_for(folder: RunFolder, condition: Callable[[list[object]], bool], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition(list(read_events(folder.events)[0])):
            return
        time.sleep(0.1)
    raise AssertionError(folder.log.read_text()[-2000:])


@pytest.fixture(scope='module')
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    tasks, held_out = read_manifest(TUTORIAL)[:4], read_manifest(HELD_OUT)[:2]
    folder = make(tmp_path_factory.mktemp('run') / 'run', tasks, held_out, heldOutAttempts=2)
    assert start(folder).wait(timeout=240) == 0, folder.log.read_text()[-3000:]
    return folder


def test_a_run_ends_finished_with_a_row_a_step(finished: RunFolder) -> None:
    events, _ = read_events(finished.events)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    states = [event.state for event in events if isinstance(event, State)]
    assert states == ['preparing', 'evaluating', 'training', 'evaluating', 'finished']
    rows = [event for event in events if isinstance(event, Metrics) and 'loss' in event.values]
    assert [row.step for row in rows] == [1, 2]
    for name in (
        'rewards/TfcodeEnv/mean',
        'frac_reward_zero_std',
        'entropy',
        'completions/mean_length',
        'completions/clipped_ratio',
        'checker/errors',
        'seconds/generate',
        'seconds/update',
    ):
        assert all(name in row.values for row in rows), name
    assert [(event.step, event.total) for event in events if isinstance(event, Progress)] == [(1, 2), (2, 2)]
    assert state_of(events, finished.exit(), finished.claim()) == ('finished', '')


def test_every_rollout_is_recorded_and_found_by_its_offset(finished: RunFolder) -> None:
    events = [event for event in read_events(finished.events)[0] if isinstance(event, RolloutEvent)]
    assert len([event for event in events if event.stage == 'train']) == 2 * 4 * 4
    assert len([event for event in events if event.stage != 'train']) == 2 * 2 * 2
    for event in events:
        rollout = Rollout.model_validate(finished.rollout(event.offset))
        assert (rollout.task, rollout.index, rollout.verdict.reward) == (event.task, event.index, event.reward)
        assert (rollout.advantage is not None) == (event.stage == 'train')


def test_the_summary_and_the_lineage_say_what_was_done(finished: RunFolder) -> None:
    summary = json.loads((finished.path / 'summary.json').read_text())
    assert summary['state'] == 'finished'
    assert summary['steps'] == 2
    assert 0 <= summary['before'] <= 1 and 0 <= summary['after'] <= 1
    lineage = json.loads((finished.adapter / 'lineage.json').read_text())
    assert [task['hash'] for task in lineage['tasks']] == [task.hash for task in finished.tasks()]
    assert set(lineage['sha256']) == {'adapter_config.json', 'adapter_model.safetensors'}
    assert str(ASSETS) not in (finished.adapter / 'adapter_config.json').read_text()


def test_the_adapter_loads_with_plain_peft_in_a_fresh_process(finished: RunFolder) -> None:
    """Case G3: it loads by standard means, changes what the model says, and brings its chat template."""
    code = f"""
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
base = AutoModelForCausalLM.from_pretrained({str(STARTER_FOLDER)!r}).eval()
ids = torch.arange(3, 40)[None]
with torch.no_grad():
    plain = base(ids).logits
    model = PeftModel.from_pretrained(base, {str(finished.adapter)!r}).eval()
    trained = model(ids).logits
    with model.disable_adapter():
        again = model(ids).logits
assert torch.equal(plain, again)
assert (plain - trained).abs().max() > 1e-4
assert AutoTokenizer.from_pretrained({str(finished.adapter)!r}).chat_template
"""
    subprocess.run([sys.executable, '-c', code], check=True, timeout=120)


def test_nothing_is_left_behind(finished: RunFolder) -> None:
    """Case D6."""
    everything = subprocess.run(['ps', '-eo', 'args'], capture_output=True, text=True, check=True).stdout
    assert str(finished.path) not in everything


def test_a_run_whose_checkers_break_stops_and_says_why(tmp_path: Path) -> None:
    """Cases B10 and D4: no reward of 0, no endless run."""
    spec = {'prompt': 'Write x to a.txt', 'checker': {'type': 'exit_code', 'config': {'command': 'no-such-tool'}}}
    folder = make(tmp_path / 'run', [parse_task({'task_spec': spec})[0]], heldOutAttempts=0)
    assert start(folder).wait(timeout=240) == 1
    events, _ = read_events(folder.events)
    state, reason = state_of(events, folder.exit(), folder.claim())
    assert state == 'failed'
    assert 'checks' in reason
    rows = [event for event in events if isinstance(event, Metrics)]
    assert rows[0].values['checker/error_share'] == 1.0
    assert 'rewards/TfcodeEnv/mean' not in rows[0].values


@pytest.mark.parametrize('how', ['request', 'signal'])
def test_a_stop_keeps_the_adapter(tmp_path: Path, how: str) -> None:
    tasks = read_manifest(TUTORIAL)[:2]
    folder = make(
        tmp_path / 'run', tasks, rl={'enabled': True, 'numGenerations': 4, 'maxSteps': 500}, heldOutAttempts=0
    )
    process = start(folder)
    wait_for(folder, lambda events: any(isinstance(event, Progress) for event in events))
    if how == 'request':
        folder.request('stop')
    else:
        os.kill(process.pid, signal.SIGTERM)
    assert process.wait(timeout=180) == 143
    events, _ = read_events(folder.events)
    assert state_of(events, folder.exit(), folder.claim()) == ('stopped', 'stopped by the user')
    assert (folder.adapter / 'adapter_model.safetensors').is_file()


def test_a_run_that_cannot_start_says_why_within_seconds(tmp_path: Path) -> None:
    folder = make(tmp_path / 'run', read_manifest(TUTORIAL)[:1])
    config = json.loads((folder.path / 'run.json').read_text())
    (folder.path / 'run.json').write_text(json.dumps({**config, 'model': str(tmp_path / 'nowhere')}))
    assert start(folder).wait(timeout=180) == 1
    events, _ = read_events(folder.events)
    state, reason = state_of(events, folder.exit(), folder.claim())
    assert state == 'failed'
    assert 'nowhere' in reason


def test_packages_that_cannot_be_installed_end_a_run_before_its_model_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('PIP_NO_INDEX', '1')
    folder = make(tmp_path / 'run', read_manifest(TUTORIAL)[:1], rl={'enabled': True, 'pipPackages': ['no-such']})
    assert start(folder).wait(timeout=180) == 1
    events, _ = read_events(folder.events)
    state, reason = state_of(events, folder.exit(), folder.claim())
    assert state == 'failed'
    assert 'No matching distribution found for no-such' in reason
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert 'Installing 1 package for sandboxes' in notices
    assert not [text for text in notices if text.startswith('Device')]


def test_held_out_is_measured_with_its_interval(finished: RunFolder) -> None:
    result = json.loads((finished.path / 'evaluation-before.json').read_text())
    assert result['attempts'] + result['errors'] == 4
    assert result['low'] <= result['mean'] <= result['high']
    assert not [
        event for event in read_events(finished.events)[0] if isinstance(event, Notice) and event.level == 'error'
    ]


def test_held_out_success_is_the_same_in_a_fresh_process(finished: RunFolder, tmp_path: Path) -> None:
    """Case G3: the adapter that is kept does what the policy did, attempt by attempt."""
    out = tmp_path / 'evaluation.json'
    command = [sys.executable, '-m', 'trainer.evaluate', '--manifest', str(finished.held_out), '--model', 'starter']
    command += ['--adapter', str(finished.adapter), '-k', '2', '--seed', '1', '--out', str(out)]
    command += ['--home', str(finished.path.parent / 'home')]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    after = json.loads((finished.path / 'evaluation-after.json').read_text())
    assert json.loads(out.read_text())['tasks'] == after['tasks']
