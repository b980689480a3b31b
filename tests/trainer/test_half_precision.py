"""Runs in half precision on a CPU that is told to: what is measured when they end is what PEFT loads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from scripted_runs import scripted, tasks

from trainer.demonstrations import Demonstration
from trainer.fingerprint import difference
from trainer.grpo import GrpoRun
from trainer.hardware import Hardware
from trainer.held_out import HeldOut
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


def test_an_evaluation_between_two_steps_measures_what_peft_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, torch.dtype]] = []
    trained: list[GrpoRun] = []
    measure, episodes = HeldOut.measure, GrpoRun._rollouts

    def look(kind: str) -> None:
        if trained:
            seen.append((kind, trained[0]._policy(input_ids=torch.tensor([[1, 2, 3]])).logits.dtype))

    def measured(self: HeldOut, *args: Any, **options: Any) -> Any:
        look('measured')
        return measure(self, *args, **options)

    def played(self: GrpoRun, *args: Any, **options: Any) -> Any:
        trained[:] = [self]
        look('played')
        return episodes(self, *args, **options)

    monkeypatch.setattr(HeldOut, 'measure', measured)
    monkeypatch.setattr(GrpoRun, '_rollouts', played)
    with scripted(tmp_path / 'run', tasks(2), held_out=tasks(1), evalEvery=1, rl={'maxSteps': 2}) as run:
        monkeypatch.setattr('trainer.stages.prepare', lambda *_: replace(run, hardware=HALF))
        run_stages(run.folder, run.journal)
    # Training puts an autocast on its policy, whose logits are in full precision; an adapter that is loaded has none.
    trains, measures = ('played', torch.float32), ('measured', torch.bfloat16)
    assert seen == [trains, measures, trains, measures]
