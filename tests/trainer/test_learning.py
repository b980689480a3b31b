"""The starter model learns the tutorial, and goes on learning where a tenth of the verdicts are errors."""

import json
import random
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainer.config import RunConfig, parse_settings
from trainer.events import Metrics, RolloutEvent, read_events
from trainer.journal import Journal
from trainer.manifest import read_manifest
from trainer.models import ASSETS
from trainer.rollout.environment import TfcodeEnv
from trainer.runfolder import RunFolder
from trainer.stages import run_stages
from trainer.verdict import Verdict

pytestmark = [pytest.mark.train, pytest.mark.slow]
STEPS = 25


def train(folder: Path, home: Path, steps: int) -> tuple[float, RunFolder]:
    """Train with a fixed seed, as fast as the starter model may; return by how much held-out success rose."""
    settings, _ = parse_settings(
        {
            'rl': {'enabled': True, 'maxSteps': steps, 'numGenerations': 4, 'entropyCoef': 0.0},
            'learningRate': 2e-3,
            'seed': 1,
            'evalEvery': 0,
            'saveEvery': 0,
            'heldOutAttempts': 8,
        }
    )
    config = RunConfig(id='test', created_at=datetime.now(UTC), model='starter', settings=settings, home=str(home))
    tasks = read_manifest(ASSETS / 'tasks' / 'tutorial-train.jsonl')
    held_out = read_manifest(ASSETS / 'tasks' / 'tutorial-heldout.jsonl')
    made = RunFolder.create(folder, config, tasks, held_out)
    with Journal(made) as journal:
        assert run_stages(made, journal).state == 'finished'
    summary = json.loads(made.summary.read_text())
    return summary['after'] - summary['before'], made


@pytest.mark.timeout(1800)
def test_held_out_success_rises(tmp_path: Path, checker_home: Path) -> None:
    gained, folder = train(tmp_path / 'run', checker_home, STEPS)
    assert gained >= 0.2
    rows = [event for event in read_events(folder.events)[0] if isinstance(event, Metrics) and 'loss' in event.values]
    assert [row.step for row in rows] == list(range(1, STEPS + 1))


@pytest.mark.timeout(1800)
def test_errors_do_not_teach(tmp_path: Path, checker_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case D4: a tenth of the checks cannot do their work; they are counted, and none is a 0."""
    check, luck, lock = TfcodeEnv._check, random.Random(7), threading.Lock()

    def unreliable(episode: TfcodeEnv) -> Verdict:
        with lock:
            broken = luck.random() < 0.1
        return Verdict.not_scored('broken on purpose') if broken else check(episode)

    monkeypatch.setattr(TfcodeEnv, '_check', unreliable)
    gained, folder = train(tmp_path / 'run', checker_home, 12)
    assert gained >= 0.1
    events = read_events(folder.events)[0]
    rollouts = [event for event in events if isinstance(event, RolloutEvent)]
    errors = [event for event in rollouts if event.outcome == 'error']
    assert 0.05 < len(errors) / len(rollouts) < 0.15
    assert all(event.reward is None for event in errors)
    for row in (event for event in events if isinstance(event, Metrics) and 'loss' in event.values):
        own = [event for event in rollouts if event.stage == 'train' and event.step == row.step]
        scored = [event.reward for event in own if event.reward is not None]
        assert row.values['checker/errors'] == len(own) - len(scored)
        assert row.values['rewards/TfcodeEnv/mean'] == pytest.approx(sum(scored) / len(scored))
