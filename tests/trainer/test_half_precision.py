"""Runs in half precision on a CPU that is told to: what is measured when they end is what PEFT loads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from scripted_runs import scripted, tasks

from trainer.demonstrations import Demonstration
from trainer.fingerprint import difference
from trainer.hardware import Hardware
from trainer.models import STARTER
from trainer.parity import read_expectation
from trainer.policy import load_model, without_warnings
from trainer.stages import run_stages

pytestmark = pytest.mark.train
HALF = Hardware('cpu', 'bfloat16', 'CPU')
CHAT = Demonstration.model_validate(
    {'messages': [{'role': 'user', 'content': 'Do 0'}, {'role': 'assistant', 'content': 'Done, as you asked.'}]}
)


@pytest.mark.parametrize('training_type', ['grpoTraining', 'conversationalTraining'])
def test_what_a_bfloat16_run_recorded_is_what_peft_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, training_type: str
) -> None:
    settings = {'coldStart': {'epochs': 2.0, 'batchSize': 1, 'learningRate': 0.002}, 'rl': {'maxSteps': 1}}
    with scripted(
        tmp_path / 'run', tasks(2), demonstrations=[CHAT], training_type=training_type, heldOutAttempts=0, **settings
    ) as run:
        monkeypatch.setattr('trainer.stages.prepare', lambda *_: replace(run, hardware=HALF))
        run_stages(run.folder, run.journal)
    expected = read_expectation(tmp_path / 'run' / 'parity.json')
    assert (expected.precision, expected.base) == ('bfloat16', expected.base_after)
    with without_warnings():
        loaded = load_model(STARTER, HALF, adapter=tmp_path / 'run' / 'adapter')
    assert max(difference(loaded, probe) for probe in expected.probes) < 0.01
