"""Trackers: refused by field before a launch, given our numbers and not TRL's, never the end of a run."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from trainer.config import parse_settings, plan
from trainer.errors import ConfigError
from trainer.events import Metrics, Notice, read_events
from trainer.models import STARTER
from trainer.reporting import variables

pytest.importorskip('tensorboardX', reason='the extra tensorboard')


def refused(settings: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        plan(parse_settings(settings)[0], STARTER, 4)
    return {field.loc: field.msg for field in caught.value.fields}


def test_no_tracker_is_the_default_and_one_named_twice_is_one() -> None:
    assert parse_settings({})[0].report_to == ()
    assert parse_settings({'reportTo': ['tensorboard', 'tensorboard']})[0].report_to == ('tensorboard',)


@pytest.mark.parametrize('given', [['mlflow'], 'tensorboard', [1]])
def test_what_is_no_tracker_is_refused_by_its_field(given: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings({'reportTo': given})
    assert caught.value.fields[0].loc.startswith('reportTo')


def test_a_tracker_that_is_not_installed_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('trainer.reporting._installed', lambda package: package == 'wandb')
    monkeypatch.delenv('WANDB_API_KEY', raising=False)
    monkeypatch.delenv('WANDB_MODE', raising=False)
    said = refused({'reportTo': ['tensorboard', 'wandb', 'trackio']})
    assert 'pip install tensorboardX' in said['reportTo.0']
    assert 'WANDB_API_KEY' in said['reportTo.1']
    assert 'pip install trackio' in said['reportTo.2']
    monkeypatch.setenv('WANDB_MODE', 'offline')
    assert set(refused({'reportTo': ['wandb', 'trackio']})) == {'reportTo.1'}


def test_keys_reach_only_runs_that_report_there() -> None:
    source = {'WANDB_API_KEY': 'k', 'WANDB_MODE': 'offline', 'TRACKIO_DIR': '/t', 'OTHER': 'o'}
    assert variables((), source) == {}
    assert variables(('wandb',), source) == {'WANDB_API_KEY': 'k', 'WANDB_MODE': 'offline'}
    assert variables(('trackio', 'tensorboard'), source) == {'TRACKIO_DIR': '/t'}


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """What TensorBoard would show of a folder."""
    import struct

    event_pb2 = importlib.import_module('tensorboardX.proto.event_pb2')
    found: dict[str, dict[int, float]] = {}
    for path in folder.rglob('*.tfevents.*'):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack('<Q', data[:8])
            event = event_pb2.Event.FromString(data[12 : 12 + length])
            for value in event.summary.value:
                if value.HasField('simple_value'):
                    found.setdefault(value.tag, {})[event.step] = value.simple_value
            data = data[16 + length :]
    return found


@pytest.mark.train
def test_tensorboard_gets_the_numbers_of_the_run_and_a_broken_tracker_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scripted_runs import held_out_of, new_policy, scripted, tasks
    from transformers.integrations import TensorBoardCallback

    from trainer.grpo import GrpoRun

    monkeypatch.setenv('TENSORBOARD_LOGGING_DIR', '')  # restored afterwards: the run sets it
    with scripted(tmp_path / 'run', tasks(2), rl={'maxSteps': 1}, reportTo=['tensorboard']) as run:
        GrpoRun(run, held_out_of(run)).train(new_policy(run))
    events = read_events(tmp_path / 'run' / 'events.jsonl')[0]
    row = next(event for event in events if isinstance(event, Metrics))
    shown = scalars(tmp_path / 'run' / 'tensorboard-log' / 'training')
    for name in ('rewards/TfcodeEnv/mean', 'frac_reward_zero_std', 'loss', 'learning_rate'):
        assert shown[f'train/{name}'][1] == pytest.approx(row.values[name]), name

    def breaks(*_: Any, **__: Any) -> None:
        raise OSError('No space left on device')

    monkeypatch.setattr(TensorBoardCallback, 'on_log', breaks)
    with scripted(tmp_path / 'full', tasks(2), rl={'maxSteps': 2}, reportTo=['tensorboard']) as run:
        stage = GrpoRun(run, held_out_of(run))
        stage.train(new_policy(run))
    assert stage.steps == 2
    said = [event for event in read_events(tmp_path / 'full' / 'events.jsonl')[0] if isinstance(event, Notice)]
    assert [notice.setting for notice in said if 'No space left' in notice.text] == ['reportTo']
