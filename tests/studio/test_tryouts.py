"""Trying a task with base and adapter: real weights, real sandboxes, told turn by turn; stopped, kept warm, ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from studio.adapters import tryouts as module
from studio.adapters.tryout_views import Attempt, TryView, folded
from studio.adapters.tryouts import Tryouts
from trainer.errors import ConfigError, StoreError
from trainer.recording import ToolRecord
from trainer.task import TaskFile, parse_task
from trainer.tryout_messages import Called, Calling, Spoke, Writing

TASK: dict[str, Any] = {
    'id': 'made',
    'title': 'Write it',
    'task_spec': {
        'prompt': 'Create the file pear.txt with the word plum in it.',
        'checker': {'type': 'exit_code', 'config': {'command': 'grep -qx plum pear.txt'}},
    },
}


def task(**spec: Any) -> TaskFile:
    return parse_task({**TASK, 'task_spec': {**TASK['task_spec'], **spec}})[0]


@pytest.fixture(scope='module')
def tryouts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tryouts]:
    made = Tryouts(tmp_path_factory.mktemp('home'), 'bubblewrap')
    yield made
    made.close()


def until(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 120
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def over(tryouts: Tryouts, id: str) -> TryView:
    return until(lambda: view if not (view := tryouts.view(id)).is_live else None)


def workers() -> list[int]:
    return [child.pid for child in psutil.Process().children() if 'trainer.tryout' in ' '.join(child.cmdline())]


def test_episodes_are_played_and_repeat(tryouts: Tryouts) -> None:
    first = tryouts.play(task(), model='starter', attempts=2, seed=3)
    assert tryouts.view(first).phase == 'loading'
    view = over(tryouts, first)
    assert view.phase == 'finished', (view.message, view.hint)
    assert [one.number for one in view.of('base')] == [0, 1]
    assert view.of('adapter') == ()
    rollouts = [one.rollout for one in view.attempts]
    assert all(one is not None and one.verdict.outcome in ('passed', 'failed') for one in rollouts)
    assert all(one is not None and one.turns and one.ending for one in rollouts)
    assert tryouts.warm('starter', '')
    (pid,) = workers()
    again = over(tryouts, tryouts.play(task(), model='starter', attempts=2, seed=3))
    other = over(tryouts, tryouts.play(task(), model='starter', attempts=2, seed=4))

    def texts(view: TryView) -> list[list[str]]:
        return [[turn.text for turn in one.turns] for one in view.attempts]

    assert texts(again) == texts(view) != texts(other)
    assert workers() == [pid]


def test_a_setup_that_hangs_can_be_stopped(tryouts: Tryouts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, 'STOP_S', 60.0)
    id = tryouts.play(task(setup_commands=['sleep 20']), model='starter')
    until(lambda: tryouts.view(id).attempts[0].turns)
    with pytest.raises(StoreError, match='only one fits'):
        tryouts.play(task(), model='starter', adapter='/nowhere')
    tryouts.stop(id)
    assert tryouts.view(id).phase == 'stopping'
    until(lambda: tryouts.sweep() or not tryouts.view(id).is_live)
    assert tryouts.view(id).phase == 'stopped'
    assert tryouts.warm('starter', ''), 'the model stays loaded'
    assert over(tryouts, tryouts.play(task(), model='starter')).phase == 'finished'


def test_a_worker_that_does_not_hear_a_stop_is_ended(tryouts: Tryouts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, 'STOP_S', 0.5)
    id = tryouts.play(task(setup_commands=['sleep 20']), model='starter')
    until(lambda: tryouts.view(id).attempts[0].turns)
    (pid,) = workers()
    psutil.Process(pid).suspend()
    tryouts.stop(id)
    until(lambda: tryouts.sweep() or not tryouts.view(id).is_live)
    assert tryouts.view(id).phase == 'stopped'
    assert workers() == []


def test_a_model_that_is_not_known_is_refused(tryouts: Tryouts) -> None:
    with pytest.raises(ConfigError, match='no known model'):
        tryouts.play(task(), model='nothing')


def test_a_worker_ends_when_its_page_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, 'LEFT_S', 0.0)
    there = True
    tryouts = Tryouts(tmp_path, 'bubblewrap')
    id = tryouts.play(task(), model='starter', page='tab', alive=lambda: there)
    tryouts.sweep()
    assert tryouts.view(id).is_live
    there = False
    until(lambda: tryouts.sweep() or not tryouts.view(id).is_live)
    assert workers() == []
    tryouts.close()


def test_an_attempt_is_folded_from_what_happens() -> None:
    at: dict[str, Any] = {'id': 'x', 'side': 'base', 'attempt': 0}
    attempt = Attempt(side='base', number=0)
    attempt = folded(attempt, Writing(**at, text='I wri'), 1)
    assert attempt.writing == 'I wri'
    attempt = folded(attempt, Spoke(**at, text='I write.', tokens=3, seconds=0.5, unreadable=False), 2)
    attempt = folded(attempt, Calling(**at, name='write_file', args={'path': 'a'}), 3)
    assert (attempt.writing, attempt.turns[0].text, attempt.calling and attempt.calling.name) == (
        '', 'I write.', 'write_file'
    )  # fmt: skip
    attempt = folded(attempt, Called(**at, record=ToolRecord(name='write_file', result='written')), 4)
    assert attempt.turns[0].calls[0].result == 'written'
    assert (attempt.calling, attempt.revision) == (None, 4)
