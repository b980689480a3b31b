"""Nothing a model, a tool or a checker does ends a run by an exception (cases D1 and D4)."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_rollout import DONE, WRITE, ScriptedEngine, call, task

from trainer.models import STARTER
from trainer.policy import load_tokenizer
from trainer.recording import Change, Rollout
from trainer.rollout import environment as rooms
from trainer.rollout.chat import Chat
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import EpisodeLimits, Player, record
from trainer.tools import ToolResult
from trainer.verdict import Verdict

MARKS = [
    '<tool_call>', '</tool_call>', '<tool_response>', '<|im_end|>', '<|im_start|>', '<|endoftext|>', '\n', '{', '}',
    '"name": ', '"arguments": ', '"write_file"', '"path"', 'NaN', '1e999', '-Infinity', '"\\ud800"', 'null', '[' * 40,
    '\ud800'.encode('utf-8', 'replace').decode(), '\0', '🚀', '\u202e',
]  # fmt: skip
TEXT = st.lists(st.sampled_from(MARKS) | st.text(max_size=6), max_size=14).map(''.join)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4) | st.just('\ud800'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(['write_file', 'run_command', 'no_such_tool', '\udfff', '']) | JSON


@st.composite
def calls(draw: st.DrawFn) -> str:
    return f'<tool_call>\n{json.dumps({"name": draw(NAMES), "arguments": draw(JSON)})}\n</tool_call>'


class NoSandbox(TfcodeEnv):
    """An environment that answers with what it was asked."""

    def __init__(self) -> None:
        self.changes: tuple[Change, ...] = ()

    def reset(self, task_spec: object, **_: object) -> None:
        pass

    def _call(self, name: str, args: Mapping[str, object]) -> ToolResult:
        return ToolResult(text=f'{name} {args}'.encode('utf-8', 'replace').decode())

    def _grade(self) -> Verdict:
        return Verdict.scored(0.0)

    def _close(self) -> None:
        pass


@pytest.fixture(scope='module')
def chat() -> Chat:
    return Chat(load_tokenizer(STARTER))


def play(chat: Chat, turns: Sequence[str], room: Callable[[], TfcodeEnv], **spec: Any) -> Rollout:
    limits = EpisodeLimits(tokens=600, turns=4, temperature=1.0, answer_tokens=60)
    player = Player(chat, ScriptedEngine(chat.tokenizer, turns), limits, room)
    try:
        (episode,) = player.play([task(**spec)])
    finally:
        player.close()
    made = record(episode, step=1, stage='train', group=0, index=0, advantage=None)
    assert len(episode.mask) == len(episode.completion)
    # What is recorded is strict JSON, and says the same when it is read back.
    line = json.dumps(made.model_dump(), ensure_ascii=False, allow_nan=False).encode()
    assert Rollout.model_validate(json.loads(line)) == made
    return made


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(TEXT | calls(), min_size=5, max_size=5))
@example(turns=['<tool_call>\n' + '[' * 5000 + '\n</tool_call>'] * 5)
@example(turns=['<tool_call>\n{"name": "write_file", "arguments": ' + '9' * 5000 + '}\n</tool_call>'] * 5)
@example(turns=['<tool_call>\n{"name": {"a": []}, "arguments": [NaN, "\\udc00"]}\n</tool_call>'] * 5)
@example(turns=['<tool_call>\n"text"\n</tool_call>'] * 5)
def test_whatever_a_model_writes_is_an_episode_with_an_ending(chat: Chat, turns: list[str]) -> None:
    rollout = play(chat, turns, NoSandbox)
    assert rollout.ending != 'error'
    assert rollout.turns


def test_an_unreadable_call_is_marked(chat: Chat) -> None:
    """Case D1: what the model meant as a call and nobody could read is no plain text."""
    rollout = play(chat, ['<tool_call>\n{"name": "write_file"\n</tool_call>'], NoSandbox)
    assert rollout.turns[0].unreadable
    assert rollout.ending == 'unreadable_tool_call'


def broken(*_: object, **__: object) -> Verdict:
    raise ZeroDivisionError('what nobody foresaw')


@pytest.mark.parametrize('where', ['prepare', 'call_tool', 'final_workspace', 'changes', 'grade'])
def test_whatever_breaks_around_an_episode_is_an_error_without_reward(
    chat: Chat, checker_home: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Case D4 (a): the run goes on, and nothing counts as 0."""
    monkeypatch.setattr(rooms, where, broken)
    rollout = play(chat, [WRITE, DONE], lambda: TfcodeEnv(checker_home, 'bubblewrap'))
    assert rollout.verdict.outcome == 'error'
    assert rollout.verdict.reward is None
    assert 'ZeroDivisionError: what nobody foresaw' in rollout.verdict.reason


@pytest.mark.parametrize('script', ["print('nan')", "print('lots')", 'print(1.5)', 'raise SystemExit(2)', '1 / 0'])
def test_a_checker_that_gives_no_number_is_an_error_without_reward(chat: Chat, checker_home: Path, script: str) -> None:
    """Case D4 (b) to (e)."""
    checker = {'type': 'script', 'config': {'script': script}}
    rollout = play(chat, [DONE], lambda: TfcodeEnv(checker_home, 'bubblewrap'), checker=checker)
    assert (rollout.verdict.outcome, rollout.verdict.reward) == ('error', None)


def test_a_long_answer_is_cut_to_its_budget_before_it_is_returned(chat: Chat, checker_home: Path) -> None:
    long = call('run_command', '{"command": "seq 1000"}')
    rollout = play(chat, [long, DONE], lambda: TfcodeEnv(checker_home, 'bubblewrap'))
    shown = rollout.turns[0].calls[0].result
    assert 'tokens cut' in shown and shown.startswith('1\n2\n') and shown.rstrip().endswith('1000')
    assert len(chat.tokenizer.encode(shown)) <= 60
    assert rollout.ending == 'answer'
