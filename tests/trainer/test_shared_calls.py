"""Equal calls of equal episodes: run once, and everybody goes on as if it had run them."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_rollout import DONE, Script, ScriptedEngine, call

from trainer.engines.base import TurnStream
from trainer.errors import SandboxError
from trainer.models import STARTER
from trainer.policy import load_tokenizer
from trainer.rollout import environment
from trainer.rollout.calls import SharedCalls, further, spelled
from trainer.rollout.chat import Chat
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import Episode, EpisodeLimits, Player, Stopped
from trainer.sandbox import Sandbox
from trainer.sandbox.protocol import State
from trainer.task import TaskFile, parse_task
from trainer.tools import ToolResult, call_tool

LIMITS = EpisodeLimits(tokens=600, turns=6, temperature=1.0)


class Parts(ScriptedEngine):
    """Says the given texts of each conversation."""

    def __init__(self, tokenizer: Any, parts: Sequence[Sequence[str]]) -> None:
        super().__init__(tokenizer, [])
        self._parts = parts

    @contextmanager
    def open(self, rows: int, *, temperature: float, seed: int) -> Iterator[TurnStream]:
        yield Script([iter(turns) for turns in self._parts], self._generation)


@pytest.fixture(scope='module')
def chat() -> Chat:
    return Chat(load_tokenizer(STARTER))


Play = Callable[..., tuple[list[Episode], list[str]]]


@pytest.fixture
def play(chat: Chat, checker_home: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Play one episode for each script; returns the episodes and the calls that were run, ``setup`` among them."""
    ran: list[str] = []

    def counted_call(sandbox: Sandbox, name: str, args: Mapping[str, Any]) -> ToolResult:
        ran.append(str(args.get('command', name)))
        return call_tool(sandbox, name, args)

    prepare = environment.prepare

    def counted_setup(*arguments: Any, **options: Any) -> Sandbox:
        ran.append('setup')
        return prepare(*arguments, **options)

    monkeypatch.setattr(environment, 'call_tool', counted_call)
    monkeypatch.setattr(environment, 'prepare', counted_setup)

    def played(
        *scripts: Sequence[str],
        tasks: Sequence[TaskFile] | None = None,
        limits: EpisodeLimits = LIMITS,
        stop: Callable[[], bool] = lambda: False,
    ) -> tuple[list[Episode], list[str]]:
        ran.clear()
        engine = Parts(chat.tokenizer, scripts)
        player = Player(chat, engine, limits, lambda: TfcodeEnv(checker_home, 'bubblewrap'))
        try:
            return player.play(tasks or [task()] * len(scripts), stop=stop), sorted(ran)
        finally:
            player.close()

    played.ran = ran  # type: ignore[attr-defined]
    return played


def task(name: str = 'one', command: str = 'test -e a.txt', **fields: object) -> TaskFile:
    spec = {'prompt': f'Do {name}', 'checker': {'type': 'exit_code', 'config': {'command': command}}, **fields}
    return parse_task({'id': name, 'task_spec': spec})[0]


def run(command: str) -> str:
    return call('run_command', f'{{"command": "{command}"}}')


def answers(episode: Episode) -> list[str]:
    return [made.result for turn in episode.turns for made in turn.calls]


def test_equal_calls_run_once_and_those_who_part_go_on_from_there(play: Play) -> None:
    make, look = run('date +%N > a.txt; cp a.txt /tmp/b'), run('cat a.txt /tmp/b')
    episodes, ran = play(
        [make, look, DONE],
        [make, look, DONE],
        [make, run('rm a.txt'), look, DONE],
        [make, DONE],
        [DONE],
        [look, make, look, DONE],
    )
    told = [answers(episode) for episode in episodes]
    # What the clock said is the same for all who had been told the same, and only for those.
    seen = told[0][1]
    assert len(set(seen.split())) == 1
    assert told[1] == told[0]
    assert told[2][2].splitlines()[1:2] == seen.splitlines()[1:]
    assert 'No such file' in told[2][2]
    assert told[5][2] != seen
    assert [episode.verdict.solved for episode in episodes] == [True, True, False, True, False, True]
    assert episodes[0].environment.changes == episodes[3].environment.changes != episodes[5].environment.changes
    assert Counter(ran) == {'setup': 1, 'date +%N > a.txt; cp a.txt /tmp/b': 2, 'cat a.txt /tmp/b': 4, 'rm a.txt': 1}


def test_other_tasks_and_other_answers_are_other_ways(play: Play) -> None:
    make = run('echo x > a.txt')
    tasks = [task('one'), task('two'), task('one'), task('one', setup_files={'b': ''})]
    _, ran = play(*[[make, DONE]] * 4, tasks=tasks)
    assert ran == sorted(['setup', 'echo x > a.txt'] * 3)


def test_what_cannot_be_copied_is_run_by_everybody(play: Play) -> None:
    episodes, ran = play(*[[run('touch a.txt; mkfifo p'), run('ls'), DONE]] * 3)
    assert ran == sorted(['setup', *['touch a.txt; mkfifo p'] * 3, *['ls'] * 3])
    assert all(answers(episode)[1] == 'a.txt\np\n' and episode.verdict.solved for episode in episodes)


def test_a_setup_that_fails_is_everybodys_error(play: Play) -> None:
    episodes, ran = play(*[[run('ls'), DONE]] * 3, tasks=[task(setup_commands=['echo why; exit 3'])] * 3)
    assert ran == ['setup'] * 3
    assert [episode.verdict.outcome for episode in episodes] == ['error'] * 3
    assert all('exit code 3' in (episode.verdict.reason) for episode in episodes)


def test_a_sandbox_that_breaks_is_nobody_elses_error(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, lock, broken = environment.call_tool, threading.Lock(), []

    def breaks_once(sandbox: Sandbox, name: str, args: Mapping[str, Any]) -> ToolResult:
        with lock:
            first = not broken
            broken.append(name)
        if first:
            raise SandboxError('the sandbox broke')
        return counted(sandbox, name, args)

    monkeypatch.setattr(environment, 'call_tool', breaks_once)
    episodes, ran = play(*[[run('touch a.txt'), DONE]] * 4)
    assert sorted(episode.verdict.outcome for episode in episodes) == ['error', 'passed', 'passed', 'passed']
    assert ran.count('touch a.txt') == 3


def test_it_can_be_switched_off(play: Play) -> None:
    limits = EpisodeLimits(tokens=600, turns=6, temperature=1.0, share_calls=False)
    make = run('date +%N | tee a.txt')
    episodes, ran = play(*[[make, DONE]] * 3, limits=limits)
    assert ran == sorted(['setup', 'date +%N | tee a.txt'] * 3)
    assert len({tuple(answers(episode)) for episode in episodes}) == 3


def test_a_batch_that_is_given_up_runs_nothing_more(play: Play) -> None:
    asked = iter([False, False, True])
    with pytest.raises(Stopped):
        play(*[[run('sleep 60'), DONE]] * 3, stop=lambda: next(asked))
    assert play.ran == ['setup', 'sleep 60']  # type: ignore[attr-defined]


def test_calls_that_no_tool_takes_are_answered_and_change_nothing(play: Play) -> None:
    wrong = [call('no_such_tool', '{}'), call('run_command', '{"command": 3}'), call('read_file', '{"path": ["a"]}')]
    episodes, _ = play(*[[*wrong, run('touch a.txt'), DONE]] * 2)
    for episode in episodes:
        assert all(text.startswith('error: ') for text in answers(episode)[:3])
        assert episode.verdict.solved


@pytest.mark.parametrize('args', [{'a': 1}, {'a': ['b']}, {'a': None}, ['a'], 'a', None])
def test_only_calls_with_text_are_spelled(args: Any) -> None:
    assert spelled('run_command', args) is None


def test_a_call_is_spelled_in_one_way_only() -> None:
    assert spelled('t', {'a': '1', 'b': '2'}) == spelled('t', {'b': '2', 'a': '1'})
    spellings = [spelled('t', given) for given in ({'a': 'bc'}, {'ab': 'c'}, {'a': 'b', 'c': ''}, {}, {'a': '\ud800'})]
    assert len({*spellings, None}) == len(spellings) + 1


STATE = State(())


def test_who_comes_late_gets_what_is_known_and_the_last_one_takes_it_along() -> None:
    calls, saved = SharedCalls([b'way'] * 3), []

    def save() -> State:
        saved.append(1)
        return STATE

    assert calls.once(b'way', b'call', lambda: 1, save) == (1, None)
    calls.go(b'way', further(b'way', b'call', '1'))
    assert calls.once(b'way', b'call', lambda: 2, save) == (1, STATE)
    assert calls.once(b'way', b'other', lambda: 3, save) == (3, None)
    calls.leave(b'way')
    # Alone now: nobody can come for it, so nothing is saved.
    assert calls.once(b'way', b'last', lambda: 4, save) == (4, None)
    assert saved == [1, 1]
    calls.leave(b'way')
    assert not calls._known
    assert calls.once(further(b'way', b'call', '1'), b'call', lambda: 5, save) == (5, None)


def test_a_failure_is_raised_for_the_one_it_met() -> None:
    calls, entered, go = SharedCalls([b'way'] * 2), threading.Event(), threading.Event()

    def fail() -> int:
        entered.set()
        go.wait(10)
        raise SandboxError('broke')

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(calls.once, b'way', b'call', fail, lambda: STATE)
        entered.wait(10)
        second = pool.submit(calls.once, b'way', b'call', lambda: 2, lambda: STATE)
        go.set()
        assert second.result() == (2, None)
        with pytest.raises(SandboxError):
            first.result()
