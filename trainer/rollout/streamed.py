"""Episodes told while they are played: what is written, each turn, each tool call and the check, as they happen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Condition
from typing import Any, Final, Protocol, runtime_checkable

from trainer.engines import Generation, GenerationEngine, TurnStream
from trainer.recording import Ending, Rollout, ToolRecord
from trainer.rollout.chat import Call, Chat, ParsedTurn
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import Episode, EpisodeLimits, Player, record
from trainer.verdict import Verdict

SHARE_S: Final = 0.08
"""Seconds that one side decodes before it lets the other one."""
TELL_S: Final = 0.12
"""Seconds between two tellings of what is being written."""


class Listener(Protocol):
    """Hears of the episodes of a player, each by its number; called from several threads."""

    def writing(self, row: int, text: str) -> None:
        """A turn is being written, this far."""

    def spoke(self, row: int, turn: ParsedTurn, seconds: float) -> None:
        """A turn has ended."""

    def calling(self, row: int, call: Call) -> None:
        """A tool call begins."""

    def called(self, row: int, answer: ToolRecord) -> None:
        """A tool call was answered."""

    def checking(self, row: int, ending: Ending) -> None:
        """An episode is over and is being checked."""

    def ended(self, row: int, rollout: Rollout) -> None:
        """An episode was checked."""


class StreamedPlayer(Player):
    """A player that tells a listener what happens in the one batch it plays."""

    def __init__(
        self,
        chat: Chat,
        engine: GenerationEngine,
        limits: EpisodeLimits,
        environment: Callable[[], TfcodeEnv],
        listener: Listener,
    ) -> None:
        super().__init__(chat, engine, limits, environment)
        self._listener = listener
        self._rows: dict[int, int] = {}

    def _play(self, episodes: Sequence[Episode], stream: TurnStream, stop: Callable[[], bool]) -> None:
        self._rows = {id(episode): row for row, episode in enumerate(episodes)}
        super()._play(episodes, stream, stop)

    def _read(self, episode: Episode, generation: Generation) -> ParsedTurn:
        turn = super()._read(episode, generation)
        self._listener.spoke(self._row(episode), turn, episode.took)
        return turn

    def _run_call(self, episode: Episode, call: Call) -> ToolRecord:
        self._listener.calling(self._row(episode), call)
        answer = super()._run_call(episode, call)
        self._listener.called(self._row(episode), answer)
        return answer

    def _answer(self, episode: Episode, turn: ParsedTurn, records: tuple[ToolRecord, ...]) -> list[int]:
        ids = super()._answer(episode, turn, records)
        if episode.ending is not None and episode.checked is not None:
            self._listener.checking(self._row(episode), episode.ending)
            episode.checked.add_done_callback(lambda done: self._checked(episode, done))
        return ids

    def _checked(self, episode: Episode, done: Future[tuple[Verdict, float]]) -> None:
        if done.cancelled() or done.exception() is not None:
            return  # ``play`` raises it.
        episode.seconds['check'] = done.result()[1]
        row = self._row(episode)
        self._listener.ended(row, record(episode, step=0, stage='try', group=0, index=row, advantage=None))

    def _row(self, episode: Episode) -> int:
        return self._rows[id(episode)]


@runtime_checkable
class _Open(Protocol):
    """A stream of turns that shows what it has of those that have not ended."""

    def so_far(self, row: int) -> Sequence[int]: ...


class Turnstile:
    """Lets those who want the model pass one after another, in the order in which they came."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._next = 0
        self._serving = 0

    @property
    def waiting(self) -> int:
        """How many wait behind the one that passes."""
        return max(0, self._next - self._serving - 1)

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Have the model alone."""
        with self._changed:
            mine = self._next
            self._next += 1
            self._changed.wait_for(lambda: self._serving == mine)
        try:
            yield
        finally:
            with self._changed:
                self._serving += 1
                self._changed.notify_all()


class SharedEngine:
    """One of several engines over the same weights, each with its own ``mode`` of them, decoding in turns.

    What is sampled follows from ``seed``, whatever the player draws. ``on_text`` hears what is being written.
    """

    name = 'shared'

    def __init__(
        self,
        engine: GenerationEngine,
        turnstile: Turnstile,
        mode: Callable[[], Any],
        tokenizer: Any,
        *,
        seed: int,
        on_text: Callable[[int, str], None],
    ) -> None:
        self._engine = engine
        self._turnstile = turnstile
        self._mode = mode
        self._tokenizer = tokenizer
        self._seed = seed
        self._on_text = on_text

    @contextmanager
    def open(self, rows: int, *, temperature: float, seed: int) -> Iterator[TurnStream]:
        """Begin a batch of conversations; see ``GenerationEngine``."""
        with self._engine.open(rows, temperature=temperature, seed=self._seed) as stream:
            yield _SharedStream(self, stream, rows)

    def advance(self, stream: TurnStream) -> list[tuple[int, Generation]]:
        """Decode for a moment, or until a turn ends."""
        with self._turnstile.passed(), self._mode():
            until = time.monotonic() + SHARE_S
            while stream.asked:
                if (ended := stream.advance()) or time.monotonic() > until:
                    return ended
        return []

    def tell(self, row: int, ids: Sequence[int]) -> None:
        """Say what is written of a turn."""
        self._on_text(row, self._tokenizer.decode(list(ids), skip_special_tokens=True))


class _SharedStream:
    def __init__(self, engine: SharedEngine, stream: TurnStream, rows: int) -> None:
        self._engine = engine
        self._stream = stream
        self._asked: set[int] = set()
        self._told = 0.0

    @property
    def asked(self) -> int:
        return self._stream.asked

    def extend(self, row: int, ids: Sequence[int], limit: int) -> None:
        self._asked.add(row)
        self._stream.extend(row, ids, limit)

    def advance(self) -> list[tuple[int, Generation]]:
        ended = self._engine.advance(self._stream)
        self._asked -= {row for row, _ in ended}
        if isinstance(self._stream, _Open) and time.monotonic() - self._told > TELL_S:
            self._told = time.monotonic()
            for row in sorted(self._asked):
                if ids := self._stream.so_far(row):
                    self._engine.tell(row, ids)
        return ended
