"""What a run will cost: read from earlier runs with their range, or reckoned from the model's layers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from stand_in import new_run

from studio.runs.estimates import card_footprint, evaluated_rollouts
from studio.runs.footprint import SHAPES, footprint, shape_of
from studio.services import Studio
from studio.store.tables import RunTable
from trainer.config import Settings, plan
from trainer.models import MODELS, STARTER, find_model

Open = Callable[..., Studio]


def test_time_is_read_from_earlier_runs_with_their_range(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    assert studio.estimates.measured('starter') is None
    run = new_run(studio, 'One night')
    with studio.database.write() as session:
        row = session.get(RunTable, run.id)
        assert row is not None
        row.step = 11
        for step in range(1, 12):
            for name, value in (('generate', 4 + step), ('tools', 1), ('check', 1), ('update', 2)):
                values = {'r': run.id, 'n': f'seconds/{name}', 's': step, 'v': value}
                session.execute(text('INSERT INTO metric VALUES (:r, :n, :s, :s, :v)'), values)
            for index in range(4):
                session.execute(
                    text(
                        'INSERT INTO rollout (run_id, seq, step, stage, task, "group", "index", outcome, "offset")'
                        " VALUES (:r, :q, :s, 'train', 't', 0, :i, 'passed', 0)"
                    ),
                    {'r': run.id, 'q': step * 4 + index, 's': step, 'i': index},
                )
        session.execute(text("INSERT INTO metric VALUES (:r, 'machine/trainer_gb', 1, 0, 1.5)"), {'r': run.id})
    found = studio.estimates.measured('starter')
    assert found is not None
    assert (found.runs, found.steps, found.memory) == (('One night',), 11, 1_500_000_000)
    assert found.low_s < found.middle_s == (4 + 6 + 4) / 4 < found.high_s
    assert sum(found.shares.values()) == pytest.approx(1)
    low, middle, high = found.seconds(100)
    assert low < middle < high and middle == pytest.approx(350)
    assert found.seconds(100, evaluated=10)[1] == pytest.approx(350 + 35 * (1 - found.shares['Train']))
    assert studio.estimates.measured('unsloth/Qwen3-0.6B') is None


def test_evaluations_are_counted() -> None:
    settings = Settings.model_validate({'rl': {'maxSteps': 21}, 'evalEvery': 10, 'heldOutAttempts': 4})
    assert evaluated_rollouts(plan(settings, STARTER, 8), settings, 5) == (2 + 2) * 5 * 4


def test_memory_is_reckoned_from_the_layers(tmp_path: Path) -> None:
    for model in MODELS:
        need = card_footprint(model, gpu=True)
        assert need is not None and need.range[0] < need.total < need.range[1]
        if model.id in SHAPES:
            assert 0.5 < need.weights / ((model.parameters or 0) * 2) <= 1
    small, large = (plan(Settings.model_validate({'rl': {'numGenerations': n}}), STARTER, 8) for n in (4, 16))
    less, more = footprint(STARTER, small, gpu=False), footprint(STARTER, large, gpu=False)
    assert less is not None and more is not None and less.total < more.total


def test_the_loss_goes_over_tiles_of_the_logits() -> None:
    """A wider vocabulary costs no more than one tile; a pass of one rollout needs less than one of eight."""
    model = find_model('unsloth/Qwen3-0.6B')
    for gpu in (True, False):
        whole = card_footprint(model, gpu=gpu)
        lone = footprint(model, plan(Settings(batch_size=1), model, 8), gpu=gpu)
        assert whole is not None and lone is not None and (whole.batch, lone.batch) == (8, 1)
        assert lone.activations < whole.activations
        logits = 8 * 912 * 151_936 * (2 if gpu else 4)
        assert whole.activations - 8 * lone.activations < 0, 'a tile is shared by the rollouts of a pass'
        assert gpu is False or whole.activations < logits


def test_a_folder_that_says_nothing_of_its_layers_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / 'config.json').write_text(json.dumps({'model_type': 'odd'}), encoding='utf-8')
    model = find_model(str(tmp_path))
    assert shape_of(model) is None
    assert card_footprint(model, gpu=True) is None
