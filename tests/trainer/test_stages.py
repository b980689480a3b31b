"""The stages of a run with scripted episodes: their order, what each leaves, and how a run goes on behind them."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from scripted_runs import by_chance, scripted, tasks

from trainer.attempt import Attempt
from trainer.demonstrations import Demonstration
from trainer.errors import ConfigError
from trainer.events import Evaluating, Metrics, Notice, Resumed, State, read_events
from trainer.runfolder import RunFolder
from trainer.sandbox.scope import current_scope
from trainer.stages import Ending, run_stages
from trainer.task import Solution, TaskSpec
from trainer.verdict import Verdict

WRITE = {'function': {'name': 'write_file', 'arguments': {'path': 'a.txt', 'content': 'x'}}}
CHATS = [
    Demonstration.model_validate(
        {
            'messages': [
                {'role': 'user', 'content': f'Do {number}'},
                {'role': 'assistant', 'tool_calls': [WRITE]},
                {'role': 'tool', 'content': 'ok'},
                {'role': 'assistant', 'content': 'Done.'},
            ]
        }
    )
    for number in range(4)
]
HELD_OUT = [
    task.model_copy(
        update={'id': f'held-{task.id}', 'task_spec': task.task_spec.model_copy(update={'prompt': 'Held out'})}
    )
    for task in tasks(2)
]


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Runs the stages of a scripted run over a folder."""

    def go(folder: Path, **settings: Any) -> Ending:
        given = settings.pop('given', tasks(3))
        with scripted(folder, given, **{'heldOutAttempts': 2, **settings}) as run:
            monkeypatch.setattr('trainer.stages.prepare', lambda *_: run)
            return run_stages(run.folder, run.journal)

    return go


def states(folder: Path) -> list[str]:
    return [event.state for event in read_events(folder / 'events.jsonl')[0] if isinstance(event, State)]


def steps(folder: Path, name: str) -> list[int]:
    events = read_events(folder / 'events.jsonl')[0]
    return [event.step for event in events if isinstance(event, Metrics) and name in event.values]


def summary(folder: Path) -> dict[str, Any]:
    return dict(json.loads(RunFolder(folder).summary.read_text()))


def test_a_cold_start_feeds_the_learning_from_rewards_and_both_go_on(tmp_path: Path, stages) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / 'run'
    cold = {'epochs': 2.0, 'batchSize': 4, 'learningRate': 1e-3}
    settings: dict[str, Any] = {'coldStart': cold, 'held_out': HELD_OUT, 'demonstrations': CHATS}
    assert stages(folder, rl={'maxSteps': 1}, **settings) == Ending('finished')
    assert states(folder) == ['evaluating', 'cold_start', 'evaluating', 'training', 'evaluating']
    begun_evaluations = [event for event in read_events(folder / 'events.jsonl')[0] if isinstance(event, Evaluating)]
    assert [(event.stage, event.step) for event in begun_evaluations] == [('before', 0), ('during', 0), ('after', 1)]
    assert steps(folder, 'cold_start/loss') == [1, 2]
    assert steps(folder, 'loss') == [1]
    first = summary(folder)
    assert (first['state'], first['steps'], first['total'], first['adapter_step']) == ('finished', 1, 1, 1)
    # The cold start changed the adapter, and rewards changed that of the cold start.
    begun, learned = (load_file(folder / name / 'adapter_model.safetensors') for name in ('cold_start', 'adapter'))
    assert any(tensor.abs().max() > 0 for name, tensor in begun.items() if 'lora_B' in name)
    assert begun.keys() == learned.keys()
    assert any(not begun[name].equal(learned[name]) for name in begun)
    assert 'after a cold start' in (folder / 'adapter' / 'README.md').read_text()

    RunFolder(folder).reopen(steps=3)
    assert stages(folder, rl={'maxSteps': 3}, **settings) == Ending('finished')
    assert steps(folder, 'loss') == [1, 2, 3]
    assert steps(folder, 'cold_start/loss') == [1, 2]
    events = read_events(folder / 'events.jsonl')[0]
    assert [(event.stage, event.step) for event in events if isinstance(event, Resumed)] == [('training', 1)]
    assert [event.text for event in events if isinstance(event, Notice) and 'step 1' in event.text] == [], 'said once'
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert summary(folder)['before'] == first['before']
    assert json.loads((folder / 'adapter' / 'lineage.json').read_text())['step'] == 3


def test_demonstrations_alone_make_an_adapter(tmp_path: Path, stages) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / 'run'
    settings: dict[str, Any] = {'training_type': 'conversationalTraining', 'coldStart': {'epochs': 8.0, 'batchSize': 4}}
    assert stages(folder, demonstrations=CHATS, **settings) == Ending('finished')
    losses = [
        event.values['cold_start/loss']
        for event in read_events(folder / 'events.jsonl')[0]
        if isinstance(event, Metrics) and 'cold_start/loss' in event.values
    ]
    assert len(losses) == 8 and losses[-1] < losses[0] / 2
    assert 'training' not in states(folder)
    assert summary(folder)['steps'] == summary(folder)['total'] == 8
    assert 'supervised training on demonstrations' in (folder / 'adapter' / 'README.md').read_text()


def test_a_cold_start_that_was_cut_off_goes_on(tmp_path: Path, stages, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """With the weights, the optimizer and the place in the chats that it had."""
    settings: dict[str, Any] = {
        'training_type': 'conversationalTraining', 'coldStart': {'epochs': 5.0, 'batchSize': 4}, 'saveEvery': 2,
        'demonstrations': CHATS,
    }  # fmt: skip
    stages(tmp_path / 'whole', **settings)
    with cut_off_after(monkeypatch, 3), pytest.raises(KeyboardInterrupt):
        stages(tmp_path / 'cut', **settings)
    assert stages(tmp_path / 'cut', **settings) == Ending('finished')
    assert steps(tmp_path / 'cut', 'cold_start/loss') == [1, 2, 3, 3, 4, 5]
    whole, cut = (load_file(tmp_path / name / 'adapter' / 'adapter_model.safetensors') for name in ('whole', 'cut'))
    assert all(whole[name].equal(cut[name]) for name in whole)


@contextmanager
def cut_off_after(monkeypatch: pytest.MonkeyPatch, step: int) -> Iterator[None]:
    from trainer.sft import SftRun

    row = SftRun.row

    def cut(self: SftRun, total: int, number: int, *rest: Any) -> bool:
        row(self, total, number, *rest)
        if number == step:
            raise KeyboardInterrupt
        return False

    with monkeypatch.context() as patched:
        patched.setattr(SftRun, 'row', cut)
        yield


def test_a_cold_start_whose_evaluation_was_cut_off_is_measured(tmp_path: Path, stages) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / 'run'
    asked = iter(range(1000))

    def crash(prompt: str) -> float:
        # Four attempts before the cold start, and one after it.
        if prompt == 'Held out' and next(asked) == 5:
            raise KeyboardInterrupt
        return 1.0

    settings: dict[str, Any] = {
        'coldStart': {'epochs': 1.0, 'batchSize': 4}, 'held_out': HELD_OUT, 'demonstrations': CHATS,
        'rl': {'maxSteps': 1},
    }  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        stages(folder, score=crash, **settings)
    assert (folder / 'cold_start').is_dir()
    assert stages(folder, score=lambda _: 1.0, **settings) == Ending('finished')
    assert steps(folder, 'cold_start/success') == [0]
    assert steps(folder, 'cold_start/loss') == [1]


def test_a_stop_is_heard_while_solutions_are_replayed(tmp_path: Path, stages, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / 'run'
    begun: list[str] = []

    def replay(task: TaskSpec, *_: object, **__: object) -> Attempt:
        begun.append(task.prompt)
        RunFolder(folder).request('stop')
        scope = current_scope()
        while scope is not None and not scope.ended:
            time.sleep(0.01)
        return Attempt(verdict=Verdict.not_scored('the work was ended'))

    monkeypatch.setattr('trainer.demonstrations.attempt', replay)
    shown = Solution(kind='reference', files={'a.txt': 'x'})
    given = [task.model_copy(update={'solutions': (shown,)}) for task in tasks(50)]
    assert stages(folder, given=given, coldStart={}) == Ending('stopped', 'stopped by the user')
    assert len(begun) <= 4
    assert 'Not demonstrated' not in (folder / 'events.jsonl').read_text()
    assert steps(folder, 'cold_start/loss') == []


def test_without_demonstrations_a_cold_start_says_what_to_do(tmp_path: Path, stages) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match='no demonstration') as refused:
        stages(tmp_path / 'run', coldStart={})
    assert 'reference solution' in refused.value.hint


def test_the_best_step_is_the_adapter_that_is_kept(tmp_path: Path, stages) -> None:  # type: ignore[no-untyped-def]
    """Held-out success 0 before, 1 after step 2, 0 after step 4 and at the end."""
    measured = iter([0.0] * 4 + [1.0] * 4 + [0.0] * 100)

    def score(prompt: str) -> float:
        return next(measured) if prompt == 'Held out' else by_chance(prompt)

    folder = tmp_path / 'run'
    settings: dict[str, Any] = {'rl': {'maxSteps': 5}, 'evalEvery': 2, 'held_out': HELD_OUT, 'score': score}
    assert stages(folder, **settings) == Ending('finished')
    done = summary(folder)
    assert (done['steps'], done['adapter_step'], done['before'], done['after']) == (5, 2, 0.0, 1.0)
    kept, best = (
        load_file(path / 'adapter_model.safetensors') for path in (folder / 'adapter', RunFolder(folder).best(2))
    )
    assert all(kept[name].equal(best[name]) for name in best)
    after = json.loads((folder / 'evaluation-after.json').read_text())
    assert (after['stage'], after['step'], after['mean']) == ('after', 2, 1.0)
    assert 'best of 4 evaluations' in (folder / 'adapter' / 'README.md').read_text()
    assert 'The adapter is that of step 2, the best on held-out tasks: 100%' in (folder / 'events.jsonl').read_text()
