"""GRPO with scripted episodes: what a checkpoint brings back, what is replaced, and what ends a run (case C6)."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from scripted_runs import by_chance, held_out_of, new_policy, scripted, tasks

from trainer.checkpoints import newest
from trainer.errors import RunFolderError
from trainer.events import Artifact, Metrics, Notice, RolloutEvent, read_events
from trainer.grpo import STOPPED_BY_USER, GrpoRun, _too_many_errors
from trainer.held_out import best
from trainer.policy import adapter_checksum, with_adapter
from trainer.preparation import Run
from trainer.recording import Rollout
from trainer.runfolder import RunFolder
from trainer.task import TaskFile

NO_SPACE = OSError(28, 'No space left on device')
OURS = ('rewards/TfcodeEnv/mean', 'loss', 'grad_norm', 'learning_rate', 'entropy')


class Crash(Exception):
    """What ends a process at any place."""


def series(folder: Path) -> dict[int, dict[str, float]]:
    """What is known of each step: the later row counts."""
    rows = [event for event in read_events(RunFolder(folder).events)[0] if isinstance(event, Metrics)]
    return {row.step: {name: row.values[name] for name in OURS if name in row.values} for row in rows}


def go_on(run: Run) -> tuple[GrpoRun, Any]:
    """What ``stages`` does with a run that has checkpoints."""
    from trainer.models import STARTER
    from trainer.policy import load_model

    loaded, _ = newest(run.folder.checkpoints)
    assert loaded is not None
    policy = with_adapter(load_model(STARTER, run.hardware), run.plan, loaded.path)
    assert adapter_checksum(policy) == loaded.adapter
    return GrpoRun(run, held_out_of(run), loaded=loaded), policy


def test_a_run_that_was_cut_off_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    """Weights, optimizer, schedule, random states, place in the tasks: every number of the series is the same."""
    given = tasks(5)
    settings: dict[str, Any] = {'rl': {'maxSteps': 6}, 'saveEvery': 2}
    with scripted(tmp_path / 'whole', given, **settings) as run:
        whole = new_policy(run)
        GrpoRun(run, held_out_of(run)).train(whole)
        assert run.plan.groups == 2

    def crash(prompt: str) -> float:
        steps = len(series(tmp_path / 'cut'))
        if steps == 5:
            raise Crash
        return by_chance(prompt)

    with scripted(tmp_path / 'cut', given, score=crash, **settings) as run, pytest.raises(Crash):
        GrpoRun(run, held_out_of(run)).train(new_policy(run))
    with scripted(tmp_path / 'cut', given, **settings) as run:
        stage, policy = go_on(run)
        assert stage.steps == 4
        stage.train(policy)
        assert stage.steps == 6
    assert series(tmp_path / 'cut') == series(tmp_path / 'whole')
    assert adapter_checksum(policy) == adapter_checksum(whole)
    first, second = (
        [
            (event.step, event.task, event.reward)
            for event in read_events(tmp_path / name / 'events.jsonl')[0]
            if isinstance(event, RolloutEvent)
        ]
        for name in ('whole', 'cut')
    )
    assert first[32:] == second[-16:]


def test_weights_that_are_not_the_checkpoints_are_refused(tmp_path: Path) -> None:
    with scripted(tmp_path / 'run', tasks(2), rl={'maxSteps': 1}) as run:
        GrpoRun(run, held_out_of(run)).train(new_policy(run))
    with scripted(tmp_path / 'run', tasks(2), rl={'maxSteps': 2}) as run:
        loaded, _ = newest(run.folder.checkpoints)
        assert loaded is not None
        stage = GrpoRun(run, held_out_of(run), loaded=type(loaded)(loaded.path, loaded.step, 'another'))
        with pytest.raises(RunFolderError, match='not those of checkpoint step-1'):
            stage.train(new_policy(run))


def test_checkpoints_come_when_they_are_due_asked_for_and_at_the_end(tmp_path: Path) -> None:
    def asking(prompt: str) -> float:
        if len(series(tmp_path / 'run')) == 0:
            RunFolder(tmp_path / 'run').request('checkpoint')
        return by_chance(prompt)

    with scripted(tmp_path / 'run', tasks(2), score=asking, rl={'maxSteps': 5}, saveEvery=3, keepCheckpoints=9) as run:
        GrpoRun(run, held_out_of(run)).train(new_policy(run))
        marks = [event for event in read_events(run.folder.events)[0] if isinstance(event, Artifact)]
        assert [(mark.kind, mark.path) for mark in marks] == [
            ('checkpoint', 'checkpoints/step-1'),
            ('checkpoint', 'checkpoints/step-3'),
            ('checkpoint', 'checkpoints/step-5'),
        ]
        assert not run.folder.requested('checkpoint')
        names = {path.name for path in (run.folder.checkpoints / 'step-5').iterdir()}
        assert {'adapter_model.safetensors', 'optimizer.pt', 'scheduler.pt', 'rng_state.pth', 'manifest.json'} <= names
        # What grows with a run is in its folder once, not in every checkpoint.
        assert json.loads((run.folder.checkpoints / 'step-5' / 'trainer_state.json').read_text())['log_history'] == []


def test_a_checkpoint_that_cannot_be_written_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RuntimeError('PytorchStreamWriter failed writing file: No space left on device')

    monkeypatch.setattr('trainer.saving.save_weights', full)
    with scripted(tmp_path / 'run', tasks(2), rl={'maxSteps': 2}, saveEvery=1) as run:
        stage = GrpoRun(run, held_out_of(run))
        stage.train(new_policy(run))
        assert (stage.steps, stage.failed) == (2, False)
        assert 'step 1 could not be written: PytorchStreamWriter failed' in run.folder.events.read_text()
        assert list(run.folder.checkpoints.iterdir()) == []


def test_a_stop_keeps_what_was_learned(tmp_path: Path) -> None:
    def stopping(prompt: str) -> float:
        if len(series(tmp_path / 'run')) == 1:
            RunFolder(tmp_path / 'run').request('stop')
        return by_chance(prompt)

    with scripted(tmp_path / 'run', tasks(2), score=stopping, rl={'maxSteps': 50}, saveEvery=0) as run:
        stage = GrpoRun(run, held_out_of(run))
        stage.train(new_policy(run))
        assert (stage.steps, stage.stopped, stage.stop_reason) == (2, True, STOPPED_BY_USER)
        found, _ = newest(run.folder.checkpoints)
        assert found is not None and found.step == 2


def test_groups_that_cannot_teach_are_replaced_and_counted(tmp_path: Path) -> None:
    """Task 3 alone can teach: both groups of a step ask for it, one gets it."""
    turn = iter(range(10_000))

    def score(prompt: str) -> float:
        return float(next(turn) % 2) if prompt == 'Do 3' else 1.0

    given = tasks(6)
    with scripted(tmp_path / 'run', given, score=score, rl={'maxSteps': 2}, dynamicSampling=True, seed=3) as run:
        GrpoRun(run, held_out_of(run)).train(new_policy(run))
        events = read_events(run.folder.events)[0]
    rows = [event.values for event in events if isinstance(event, Metrics)]
    assert all(row['frac_reward_zero_std'] <= 0.5 for row in rows)
    assert sum(row['groups/replaced'] for row in rows) >= 1
    assert all(row['groups/extra'] <= 4 for row in rows)
    for step, row in enumerate(rows, start=1):
        played = [event for event in events if isinstance(event, RolloutEvent) and event.step == step]
        assert len(played) == row['rollouts'] == 4 * (2 + row['groups/extra'])
        recorded = [Rollout.model_validate(RunFolder(tmp_path / 'run').rollout(event.offset)) for event in played]
        taught = {one.group for one in recorded if one.advantage is not None}
        assert len(taught) == 2


def test_a_run_that_solves_everything_ends_early_if_it_may(tmp_path: Path) -> None:
    for patience, steps in ((0, 4), (1, 1)):
        with scripted(
            tmp_path / str(patience), tasks(2), score=lambda _: 1.0, rl={'maxSteps': 4}, earlyStop=patience
        ) as run:
            stage = GrpoRun(run, held_out_of(run))
            stage.train(new_policy(run))
            assert stage.steps == steps
            assert bool(stage.stop_reason) == bool(patience)
            assert not stage.failed


def held_out_tasks() -> list[TaskFile]:
    return [
        task.model_copy(
            update={'id': f'held-{task.id}', 'task_spec': task.task_spec.model_copy(update={'prompt': 'Held out'})}
        )
        for task in tasks(2)
    ]


def test_held_out_success_keeps_the_best_and_ends_what_does_not_improve(tmp_path: Path) -> None:
    measured = iter([0.0] * 4 + [1.0] * 2 + [0.0] * 2 + [0.0] * 100)

    def score(prompt: str) -> float:
        return next(measured) if prompt.startswith('Held') else by_chance(prompt)

    settings: dict[str, Any] = {'rl': {'maxSteps': 20}, 'evalEvery': 2, 'earlyStop': 2}
    with scripted(tmp_path / 'run', tasks(3), score=score, held_out=held_out_tasks(), **settings) as run:
        held_out = held_out_of(run)
        stage = GrpoRun(run, held_out)
        stage.train(new_policy(run))
        assert [(one.step, one.mean) for one in held_out.measured] == [(2, 0.0), (4, 0.5), (6, 0.0), (8, 0.0)]
        assert stage.stop_reason == 'ended early: held-out success has not improved for 2 evaluations'
        assert [path.name for path in (run.folder.path / 'best').iterdir()] == ['step-4']
        assert (run.folder.best(4) / 'adapter_model.safetensors').is_file()
        assert (run.folder.path / 'evaluations' / 'step-4.json').is_file()


def test_the_best_adapter_of_the_last_checkpoint_outlives_a_better_one(tmp_path: Path) -> None:
    """A run that is cut off goes on from the checkpoint, where the better one has not been learned yet."""
    measured = iter([0.0] * 4 + [1.0] * 2 + [0.0] * 2 + [1.0] * 4)

    def score(prompt: str) -> float:
        if len(series(tmp_path / 'run')) == 7:
            raise Crash
        return next(measured, 0.0) if prompt == 'Held out' else by_chance(prompt)

    settings: dict[str, Any] = {'rl': {'maxSteps': 8}, 'evalEvery': 2, 'saveEvery': 4, 'held_out': held_out_tasks()}
    with scripted(tmp_path / 'run', tasks(3), score=score, **settings) as run, pytest.raises(Crash):
        GrpoRun(run, held_out_of(run)).train(new_policy(run))
    assert {path.name for path in (tmp_path / 'run' / 'best').iterdir()} == {'step-4', 'step-6'}
    with scripted(tmp_path / 'run', tasks(3), score=lambda _: 0.0, **settings) as run:
        stage, policy = go_on(run)
        stage.train(policy)
        top = best(stage._held_out.measured)
        assert top is not None and (top.step, top.mean) == (4, 0.5)
        assert (run.folder.best(4) / 'adapter_model.safetensors').is_file()


def test_a_run_that_ended_early_and_goes_on_is_measured_before_it_ends_again(tmp_path: Path) -> None:
    settings: dict[str, Any] = {'evalEvery': 2, 'earlyStop': 1, 'held_out': held_out_tasks()}

    def score(prompt: str) -> float:
        return 0.0 if prompt == 'Held out' else by_chance(prompt)

    with scripted(tmp_path / 'run', tasks(3), score=score, rl={'maxSteps': 10}, **settings) as run:
        stage = GrpoRun(run, held_out_of(run))
        stage.train(new_policy(run))
        assert stage.steps == 4
    with scripted(tmp_path / 'run', tasks(3), score=score, rl={'maxSteps': 20}, **settings) as run:
        stage, policy = go_on(run)
        stage.train(policy)
        assert stage.steps == 6


def test_other_tasks_than_those_of_the_checkpoint_are_refused(tmp_path: Path) -> None:
    with scripted(tmp_path / 'run', tasks(2), rl={'maxSteps': 1}) as run:
        GrpoRun(run, held_out_of(run)).train(new_policy(run))
    for others in (tasks(3), tasks(2)[::-1], [tasks(1)[0], tasks(3)[2].model_copy(update={'id': 'task-1'})]):
        with scripted(tmp_path / 'run', others, rl={'maxSteps': 2}) as run:
            with pytest.raises(RunFolderError, match='not those of checkpoint step-1') as refused:
                go_on(run)
            assert 'Put them back' in refused.value.hint


class Full(io.TextIOBase):
    """A log on a full disk."""

    def write(self, text: str) -> int:
        raise NO_SPACE


def test_a_full_disk_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of the log, evaluations and the best adapter are left out, and that is said."""

    def full(*_: object) -> None:
        raise NO_SPACE

    settings: dict[str, Any] = {'rl': {'maxSteps': 3}, 'evalEvery': 2, 'held_out': held_out_tasks()}
    with scripted(tmp_path / 'run', tasks(2), **settings) as run, monkeypatch.context() as patched:
        policy = new_policy(run)
        patched.setattr('trainer.grpo.save_weights', full)
        patched.setattr('trainer.held_out.write_json', full)
        patched.setattr(sys, 'stdout', Full())
        patched.setattr(sys, 'stderr', Full())
        stage = GrpoRun(run, held_out_of(run))
        stage.train(policy)
        assert (stage.steps, stage.failed, stage.stop_reason) == (3, False, '')
    said = [event.text for event in read_events(tmp_path / 'run' / 'events.jsonl')[0] if isinstance(event, Notice)]
    assert [text for text in said if 'could not be' in text] == [
        'step-2.json could not be written: No space left on device',
        'The adapter of step 2, the best so far, could not be kept: [Errno 28] No space left on device',
    ]
    assert list((tmp_path / 'run' / 'best').iterdir()) == []


@pytest.mark.parametrize(
    ('errors', 'ends'),
    [
        ([(0, 8)], False),
        ([(2, 8)], False),  # too few to be sure
        ([(4, 4)], True),
        ([(2, 8)] * 5, True),
        ([(8, 64)] * 5, False),
        ([(8, 8)] + [(0, 8)] * 4, False),
    ],
)
def test_too_many_errors_end_a_run(errors: list[tuple[int, int]], ends: bool) -> None:
    assert bool(_too_many_errors(errors, 0.2)) == ends


def test_errors_are_left_out_of_the_update_and_counted(tmp_path: Path) -> None:
    """Case D4 (c): one of four without a verdict; nothing counts as 0."""
    turn = iter(range(10_000))

    def score(prompt: str) -> float | None:
        number = next(turn) % 4
        return None if number == 0 else float(number % 2)

    with scripted(tmp_path / 'run', tasks(2), score=score, rl={'maxSteps': 2}, maxErrorShare=0.5) as run:
        GrpoRun(run, held_out_of(run)).train(new_policy(run))
        rows = [event.values for event in read_events(run.folder.events)[0] if isinstance(event, Metrics)]
    for row in rows:
        assert row['checker/error_share'] == 0.25
        assert row['rewards/TfcodeEnv/mean'] == pytest.approx(2 / 3)
        assert row['grad_norm'] > 0
