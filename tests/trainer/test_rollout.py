"""Episodes with scripted turns: real tokenizer, real sandbox, real checker; only the words are given."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from trainer.engines.base import Generation, TurnStream
from trainer.models import STARTER
from trainer.policy import load_tokenizer
from trainer.recording import Change, Rollout
from trainer.rollout import play as rollout_play
from trainer.rollout.chat import Chat
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import EpisodeLimits, Player, Stopped, record
from trainer.rollout.shared import SharedPlayer
from trainer.task import TaskFile, parse_task
from trainer.team import Team
from trainer.verdict import Verdict

DONE = 'Done.'


class ScriptedEngine:
    """Says given texts, one a turn, in every conversation; a text that ends in ``…`` is cut by the length limit."""

    name = 'scripted'

    def __init__(self, tokenizer, turns: Sequence[str]) -> None:  # type: ignore[no-untyped-def]
        self._tokenizer = tokenizer
        self._turns = list(turns)

    @contextmanager
    def open(self, rows: int, *, temperature: float, seed: int) -> Iterator[TurnStream]:
        yield Script([iter(self._turns) for _ in range(rows)], self._generation)

    def _generation(self, text: str, limit: int) -> Generation:
        ids = self._tokenizer.encode(text.removesuffix('…'), add_special_tokens=False)
        if text.endswith('…'):
            return Generation(ids[:limit], finished=False)
        return Generation([*ids, self._tokenizer.eos_token_id], finished=True)


class NoSandbox(TfcodeEnv):
    """An environment that does nothing."""

    def __init__(self) -> None:
        self.changes: tuple[Change, ...] = ()

    def reset(self, task_spec: object, **_: object) -> None:
        pass

    def _grade(self) -> Verdict:
        return Verdict.scored(0.0)

    def _close(self) -> None:
        pass


class Script:
    """The stream of a ``ScriptedEngine``."""

    def __init__(self, said: list[Iterator[str]], speak: Callable[[str, int], Generation]) -> None:
        self._said = said
        self._speak = speak
        self._limits: dict[int, int] = {}

    @property
    def asked(self) -> int:
        return len(self._limits)

    def extend(self, row: int, ids: Sequence[int], limit: int) -> None:
        self._limits[row] = limit

    def advance(self) -> list[tuple[int, Generation]]:
        limits, self._limits = sorted(self._limits.items()), {}
        return [(row, self._speak(next(self._said[row]), limit)) for row, limit in limits]


@pytest.fixture(scope='module')
def chat() -> Chat:
    return Chat(load_tokenizer(STARTER))


@pytest.fixture(scope='module')
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp('home')


def task(command: str = 'test "$(cat a.txt)" = x', **fields: object) -> TaskFile:
    spec = {'prompt': 'Write x to a.txt', 'checker': {'type': 'exit_code', 'config': {'command': command}}, **fields}
    return parse_task({'id': 'one', 'task_spec': spec})[0]


@pytest.fixture
def play(chat: Chat, home: Path) -> Iterator[object]:
    players = []

    def run(
        turns: Sequence[str], *, given: TaskFile | None = None, tokens: int = 400, turns_allowed: int = 8
    ) -> Rollout:
        limits = EpisodeLimits(tokens=tokens, turns=turns_allowed, temperature=1.0)
        player = Player(chat, ScriptedEngine(chat.tokenizer, turns), limits, lambda: TfcodeEnv(home, 'bubblewrap'))
        players.append(player)
        (episode,) = player.play([given or task()])
        assert len(episode.mask) == len(episode.completion)
        assert episode.tokens == sum(turn.tokens for turn in episode.turns)
        return record(episode, step=1, stage='train', group=0, index=0, advantage=None)

    yield run
    for player in players:
        player.close()


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


WRITE = call('write_file', '{"path": "a.txt", "content": "x"}')


def test_an_episode_that_solves_its_task(play) -> None:  # type: ignore[no-untyped-def]
    rollout = play([WRITE, DONE])
    assert rollout.verdict.reward == 1.0
    assert rollout.ending == 'answer'
    assert [made.name for turn in rollout.turns for made in turn.calls] == ['write_file']
    assert rollout.turns[0].calls[0].result == 'wrote 1 bytes to a.txt'
    assert [(change.path, change.kind) for change in rollout.changes] == [('a.txt', 'A')]
    assert '+x' in rollout.changes[0].diff


def test_an_answer_without_work_fails(play) -> None:  # type: ignore[no-untyped-def]
    rollout = play([DONE])
    assert (rollout.verdict.outcome, rollout.ending) == ('failed', 'answer')


@pytest.mark.parametrize(
    ('turn', 'ending'),
    [
        ('<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt"\n</tool_call>', 'unreadable_tool_call'),
        ('<tool_call>\n{"name": "write_file"', 'unreadable_tool_call'),
        (WRITE + '\n<tool_call>\n{"name": \n</tool_call>', 'unreadable_tool_call'),
        (WRITE[:40] + '…', 'token_budget'),
    ],
)
def test_broken_calls_are_marked_and_end_the_episode(play, turn: str, ending: str) -> None:  # type: ignore[no-untyped-def]
    """Case D1."""
    rollout = play([turn])
    assert rollout.ending == ending
    assert rollout.verdict.outcome == 'failed'


@pytest.mark.parametrize(
    'turn',
    [
        call('write_file', '"a.txt"'),
        call('write_file', '{"name": "a.txt"}'),
        call('write_file', '{}'),
        call('delete_everything', '{}'),
        call('read_file', '{"path": "/etc/passwd"}'),
        call('read_file', '{"path": 7}'),
    ],
)
def test_wrong_calls_are_answered_with_an_error_and_counted(play, turn: str) -> None:  # type: ignore[no-untyped-def]
    """Case D1: the model sees what was wrong and may go on."""
    rollout = play([turn, WRITE, DONE])
    assert not rollout.turns[0].calls[0].ok
    assert rollout.turns[0].calls[0].result.startswith('error')
    assert rollout.verdict.reward == 1.0


def test_several_calls_in_one_turn_run_in_order(play) -> None:  # type: ignore[no-untyped-def]
    rollout = play(
        [call('run_command', '{"command": "printf x > a.txt"}') + '\n' + call('read_file', '{"path": "a.txt"}'), DONE]
    )
    assert [made.result for made in rollout.turns[0].calls] == ['[exit code 0]', 'x']


def test_the_tool_budget_of_the_task_ends_the_episode(play) -> None:  # type: ignore[no-untyped-def]
    look = call('list_dir', '{"path": "."}')
    rollout = play([look, look, look], given=task(max_steps=2))
    assert rollout.ending == 'tool_budget'
    assert sum(len(turn.calls) for turn in rollout.turns) == 2


def test_the_turn_budget_ends_the_episode(play) -> None:  # type: ignore[no-untyped-def]
    look = call('list_dir', '{"path": "."}')
    assert play([look, look], turns_allowed=1).ending == 'tool_budget'


def test_an_answer_that_does_not_fit_is_named(play) -> None:  # type: ignore[no-untyped-def]
    rollout = play([call('run_command', '{"command": "seq 200"}')], tokens=150)
    assert rollout.ending == 'tool_answer_did_not_fit'
    assert rollout.turns[0].calls[0].exit_code == 0


@pytest.mark.parametrize(
    'fields',
    [{'command': 'no-such-program-here'}, {'setup_commands': ['exit 3']}],
    ids=['checker program missing', 'setup command fails'],
)
def test_what_is_not_the_models_fault_has_no_reward(play, fields) -> None:  # type: ignore[no-untyped-def]
    """Case B10."""
    rollout = play([WRITE, DONE], given=task(**fields))
    assert rollout.verdict.outcome == 'error'
    assert rollout.verdict.reward is None


def test_an_episode_ends_when_its_sandbox_is_gone(play) -> None:  # type: ignore[no-untyped-def]
    """No model can earn anything from then on, so it writes no more turns."""
    rollout = play([WRITE, WRITE, DONE], given=task(setup_commands=['exit 3']))
    assert (rollout.ending, len(rollout.turns)) == ('error', 1)
    assert 'setup command 1 failed' in rollout.verdict.reason


def test_a_turn_for_which_there_was_no_room_ends_its_episode(play) -> None:  # type: ignore[no-untyped-def]
    rollout = play([WRITE, '…'])
    assert (rollout.ending, rollout.verdict.reward) == ('token_budget', 1.0)
    assert not rollout.turns[1].unreadable


def test_episodes_see_nothing_of_each_other(chat: Chat, home: Path) -> None:
    """Case D6: the same tasks twice with the same player; each workspace starts empty."""
    limits = EpisodeLimits(tokens=400, turns=4, temperature=1.0)
    turns = [call('run_command', '{"command": "ls; touch marker; mkdir -p d; chmod 000 d; sleep 600 &"}'), DONE] * 2
    player = Player(chat, ScriptedEngine(chat.tokenizer, turns), limits, lambda: TfcodeEnv(home, 'bubblewrap'))
    for _ in range(2):
        for episode in player.play([task()] * 4):
            assert episode.turns[0].calls[0].result == '[exit code 0]'
    player.close()


@pytest.mark.parametrize('levels', [11, 12, 15, 16])
def test_the_longest_paths_are_no_way_out_of_a_verdict(play, levels: int) -> None:  # type: ignore[no-untyped-def]
    """What cannot be reached where it is checked is left out; a model must not turn its 0 into an error by it."""
    deep = f'n=$(printf %0240d 0); for i in $(seq {levels}); do mkdir $n; cd $n; done; touch f'
    rollout = play([call('run_command', f'{{"command": "{deep}"}}'), WRITE, DONE], tokens=600)
    assert rollout.verdict.solved
    rollout = play([call('run_command', f'{{"command": "{deep}"}}'), DONE], tokens=600)
    assert rollout.verdict.outcome == 'failed'


def test_equal_final_workspaces_of_a_batch_have_one_verdict(chat: Chat, home: Path) -> None:
    limits = EpisodeLimits(tokens=400, turns=4, temperature=1.0)
    player = Player(chat, ScriptedEngine(chat.tokenizer, [WRITE, DONE]), limits, lambda: TfcodeEnv(home, 'bubblewrap'))
    one, equal = player.play([task()] * 2)
    (later,) = player.play([task()])
    player.close()
    assert one.verdict.solved
    assert one.verdict is equal.verdict
    assert one.verdict is not later.verdict
    assert one.environment.changes == equal.environment.changes != ()


@pytest.mark.parametrize('share_calls', [False, True])
def test_a_large_batch_is_played_in_waves(
    chat: Chat, home: Path, monkeypatch: pytest.MonkeyPatch, share_calls: bool
) -> None:
    """However many attempts a step takes, only so many sandboxes live; order and verdicts are as ever."""
    monkeypatch.setattr(rollout_play, 'AT_ONCE', 3)
    alive: set[TfcodeEnv] = set()
    counts = []

    class Counted(TfcodeEnv):
        def reset(self, *args: object, **others: object) -> None:
            super().reset(*args, **others)  # type: ignore[arg-type]
            alive.add(self)
            counts.append(len(alive))

        def _close(self) -> None:
            super()._close()
            alive.discard(self)

    limits = EpisodeLimits(tokens=400, turns=4, temperature=1.0)
    player = Player(chat, ScriptedEngine(chat.tokenizer, [WRITE, DONE]), limits, lambda: Counted(home, 'bubblewrap'))
    episodes = player.play([task(), task('false')] * 4, share_calls=share_calls)
    player.close()
    assert [episode.verdict.solved for episode in episodes] == [True, False] * 4
    assert max(counts) == 3 and len(counts) == 8 and not alive
    assert all(seconds >= 0 for seconds in player.seconds.values()) and player.seconds['generate'] > 0


def test_no_two_batches_of_a_team_have_the_same_seed(chat: Chat, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process may have more waves than another, and one that goes on has another random state than it had."""
    monkeypatch.setattr(rollout_play, 'AT_ONCE', 2)
    seeds: list[int] = []

    class Seeded(ScriptedEngine):
        @contextmanager
        def open(self, rows: int, *, temperature: float, seed: int) -> Iterator[TurnStream]:
            seeds.append(seed)
            with super().open(rows, temperature=temperature, seed=seed) as stream:
                yield stream

    drawn: list[object] = []

    class Alone(Team):
        """A process whose others have drawn before it, the first one for all."""

        def gather(self, value: object) -> list[object]:  # type: ignore[override]
            if isinstance(value, int) and self.rank == 0:
                drawn.append(value)
            return [drawn.pop(0) if self.rank and isinstance(value, int) else value]

    limits = EpisodeLimits(tokens=400, turns=4, temperature=1.0)
    for rank, state in ((0, 1), (1, 1), (0, 1), (1, 2)):
        torch.manual_seed(state)
        engine = Seeded(chat.tokenizer, [DONE])
        player = SharedPlayer(chat, engine, limits, NoSandbox, team=Alone(rank, 2))
        for _ in range(3):
            player.play([task()] * 5)
        player.close()
    assert len(seeds) == 2 * len(set(seeds)) == 2 * 3 * (1 + 2)
    assert seeds[:9] == seeds[9:]
    # One process alone draws as a player without a team does.
    alone = []
    players = [SharedPlayer(chat, engine, limits, NoSandbox, team=Team()), Player(chat, engine, limits, NoSandbox)]
    for one in players:
        torch.manual_seed(1)
        one.play([task()])
        one.close()
        alone.append(seeds[-1])
    assert alone[0] == alone[1]


@pytest.mark.timeout(45)
@pytest.mark.parametrize('during', ['setup', 'check'])
def test_a_stop_waits_for_no_setup_and_no_check(chat: Chat, home: Path, during: str) -> None:
    """Whoever stops a run gives it seconds to save what was learned, and a command may take a minute."""
    slow = task(setup_commands=['sleep 50'])
    if during == 'check':
        checker = {'type': 'exit_code', 'config': {'command': 'sleep 50', 'timeout_s': 60}}
        slow = task(checker=checker)
    began = threading.Event()

    class Noticed(TfcodeEnv):
        def reset(self, *args: object, **others: object) -> None:
            if during == 'setup':
                threading.Timer(1.0, began.set).start()
            super().reset(*args, **others)  # type: ignore[arg-type]

        def _grade(self) -> Verdict:
            threading.Timer(1.0, began.set).start()
            return super()._grade()

    limits = EpisodeLimits(tokens=400, turns=4, temperature=1.0)
    player = Player(chat, ScriptedEngine(chat.tokenizer, [WRITE, DONE]), limits, lambda: Noticed(home, 'bubblewrap'))
    with pytest.raises(Stopped):
        player.play([slow] * 4, stop=began.is_set)
    player.close()


def test_a_stop_gives_the_batch_up(chat: Chat, home: Path) -> None:
    limits = EpisodeLimits(tokens=400, turns=4, temperature=1.0)
    player = Player(chat, ScriptedEngine(chat.tokenizer, [WRITE]), limits, lambda: TfcodeEnv(home, 'bubblewrap'))
    asked = iter([False, True])
    with pytest.raises(Stopped):
        player.play([task()] * 2, stop=lambda: next(asked))
    player.close()
