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
from trainer.rollout.calls import SharedCalls, spelled
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
        share_calls: bool = True,
        stop: Callable[[], bool] = lambda: False,
    ) -> tuple[list[Episode], list[str]]:
        ran.clear()
        engine = Parts(chat.tokenizer, scripts)
        player = Player(chat, engine, LIMITS, lambda: TfcodeEnv(checker_home, 'bubblewrap'))
        try:
            return player.play(tasks or [task()] * len(scripts), stop=stop, share_calls=share_calls), sorted(ran)
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
    assert not any(made.shared for episode in episodes for turn in episode.turns for made in turn.calls)
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


def test_who_measures_does_not_share(play: Play) -> None:
    make = run('date +%N | tee a.txt')
    episodes, ran = play(*[[make, DONE]] * 3, share_calls=False)
    assert ran == sorted(['setup', 'date +%N | tee a.txt'] * 3)
    assert len({tuple(answers(episode)) for episode in episodes}) == 3


def test_names_are_listed_in_the_same_order_by_all(play: Play) -> None:
    """Whoever runs a call, and it is not always the same one, the answer does not depend on it."""
    make, look = run('mkdir d; cd d; touch b c a; mv c x; rm b; touch b z'), run('find . -type f; ls -U d')
    several = [run(f'echo {n} > own') for n in range(3)]
    episodes, _ = play(*[[make, one, look, DONE] for one in several], [make, look, DONE])
    told = {answers(episode)[-1].replace('./own\n', '') for episode in episodes}
    assert len(told) == 1


def test_limits_that_were_met_are_not_handed_on(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, lock, seen = environment.call_tool, threading.Lock(), []

    def slow_once(sandbox: Sandbox, name: str, args: Mapping[str, Any]) -> ToolResult:
        with lock:
            seen.append(name)
            first = len(seen) == 1
        done = counted(sandbox, name, args)
        return done.model_copy(update={'text': '[timed out after 30 s]', 'met_limit': True}) if first else done

    monkeypatch.setattr(environment, 'call_tool', slow_once)
    episodes, ran = play(*[[run('touch a.txt'), DONE]] * 3)
    assert ran.count('touch a.txt') == 3
    assert sorted(answers(episode)[0] for episode in episodes) == ['[exit code 0]'] * 2 + ['[timed out after 30 s]']


def test_a_batch_that_is_given_up_runs_nothing_more(play: Play) -> None:
    ran = play.ran  # type: ignore[attr-defined]
    with pytest.raises(Stopped):
        play(*[[run('sleep 60'), DONE]] * 3, stop=lambda: 'sleep 60' in ran)
    assert ran == ['setup', 'sleep 60']


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


def said(text: str) -> Callable[[], ToolResult]:
    return lambda: ToolResult(text=text)


def test_who_comes_late_gets_what_is_known_and_the_last_one_takes_it_along() -> None:
    calls, saved = SharedCalls([b'task'] * 3), []

    def save() -> State:
        saved.append(1)
        return STATE

    first = calls.once(b'task', b'call', said('1'), save)
    late = calls.once(b'task', b'call', said('2'), save)
    assert (first.result.text, late.result.text) == ('1', '1')
    assert first.history == late.history is not None
    assert late.state is STATE
    # Alone now: nobody can come for it, so nothing is saved, and it goes on by itself.
    last = calls.once(b'task', b'other', said('3'), save)
    assert (last.result.text, last.history, last.state) == ('3', None, None)
    assert saved == [1]
    assert set(calls._calls) <= {first.history}
    calls.leave(first.history)
    calls.leave(first.history)
    assert not calls._calls
    assert not calls._having


def test_those_who_wait_go_on_together() -> None:
    """Two calls in one turn: the first one to have its answer does not run ahead alone."""
    calls, entered, go = SharedCalls([b'task'] * 4), threading.Event(), threading.Event()

    def slow() -> ToolResult:
        entered.set()
        go.wait(10)
        return ToolResult(text='x')

    with ThreadPoolExecutor(4) as pool:
        made = [pool.submit(calls.once, b'task', b'call', slow, lambda: STATE) for _ in range(4)]
        entered.wait(10)
        while next(iter(calls._calls[b'task'].values())).waiting < 3:
            threading.Event().wait(0.01)
        go.set()
        answers = [one.result() for one in made]
    assert len({answer.history for answer in answers}) == 1
    assert sum(answer.state is None for answer in answers) == 1
    assert calls._having == {answers[0].history: 4}


def test_states_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('trainer.rollout.calls.MAX_BYTES', 100)
    calls, large = SharedCalls([b'task'] * 4), State(((b'0', bytes(200)),))
    assert calls.once(b'task', b'1', said('1'), lambda: large).history is not None
    assert calls.once(b'task', b'2', said('2'), lambda: large).history is None


def test_a_failure_is_raised_for_the_one_it_met() -> None:
    calls, entered, go = SharedCalls([b'task'] * 2), threading.Event(), threading.Event()

    def fail() -> ToolResult:
        entered.set()
        go.wait(10)
        raise SandboxError('broke')

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(calls.once, b'task', b'call', fail, lambda: STATE)
        entered.wait(10)
        second = pool.submit(calls.once, b'task', b'call', said('2'), lambda: STATE)
        go.set()
        assert second.result().result.text == '2'
        with pytest.raises(SandboxError):
            first.result()
    assert not calls._having
