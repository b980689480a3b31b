"""Playing episodes: the turns of all of them generated together, their setup, tools and checks side by side.

Setup runs while the first turn is generated, the tools of different episodes run at once, and an episode is checked
as soon as it ends, while the others go on (design section 7).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from trainer.engines import Generation, GenerationEngine
from trainer.errors import GenerationError
from trainer.recording import Ending, Rollout, ToolRecord, Turn
from trainer.rollout.chat import Call, Chat, ParsedTurn
from trainer.rollout.environment import TfcodeEnv
from trainer.task import TaskFile
from trainer.verdict import Verdict

MIN_TURN_TOKENS: Final = 8
"""An answer that leaves less room than this for the next turn does not fit."""
WORKERS: Final = max(8, 4 * (os.cpu_count() or 1))


class Stopped(Exception):
    """The batch was given up because somebody asked the run to stop."""


@dataclass(frozen=True)
class EpisodeLimits:
    """Budgets of one episode besides the task's own ``max_steps``."""

    tokens: int
    turns: int
    temperature: float


@dataclass
class Episode:
    """An episode being played. ``completion`` and ``mask`` grow turn by turn; mask 1 marks the model's own tokens."""

    task: TaskFile
    prompt: list[int]
    environment: TfcodeEnv
    completion: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    calls: int = 0
    ending: Ending | None = None
    started: Future[float] | None = None
    checked: Future[tuple[Verdict, float]] | None = None
    seconds: dict[str, float] = field(default_factory=lambda: {'generate': 0.0, 'tools': 0.0, 'check': 0.0})

    @property
    def tokens(self) -> int:
        """Tokens the model generated."""
        return sum(self.mask)

    def add(self, ids: Sequence[int], *, own: bool) -> None:
        """Append the model's own tokens, or an answer's."""
        self.completion += ids
        self.mask += [int(own)] * len(ids)


class Player:
    """Plays batches of episodes with one engine; one instance serves a whole run."""

    def __init__(
        self, chat: Chat, engine: GenerationEngine, limits: EpisodeLimits, environment: Callable[[], TfcodeEnv]
    ) -> None:
        self._chat = chat
        self._engine = engine
        self._limits = limits
        self._environment = environment
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix='episode')
        self.seconds: dict[str, float] = {}
        """Wall-clock seconds of the last batch by phase: generate, tools (waited for), check (waited for)."""

    def close(self) -> None:
        """End the worker threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def play(self, tasks: Sequence[TaskFile], *, stop: Callable[[], bool] = lambda: False) -> list[Episode]:
        """Play one episode for each task given (a task may be there many times); all are checked on return.

        Order is kept. Raises ``Stopped``, with every sandbox closed, when ``stop`` says so between two rounds.
        """
        prompts: dict[str, list[int]] = {}
        episodes = []
        for task in tasks:
            if task.task_spec.prompt not in prompts:
                prompts[task.task_spec.prompt] = self._chat.prompt_ids(task.task_spec.prompt)
            episodes.append(Episode(task, list(prompts[task.task_spec.prompt]), self._environment()))
        self.seconds = {'generate': 0.0, 'tools': 0.0, 'check': 0.0}
        for episode in episodes:
            episode.started = self._pool.submit(self._start, episode)
        active = list(episodes)
        while active:
            if stop():
                self._give_up(episodes)
                raise Stopped
            active = self._round(active)
        self._wait_for_checks(episodes)
        return episodes

    def _give_up(self, episodes: Sequence[Episode]) -> None:
        for episode in episodes:
            for future in (episode.started, episode.checked):
                if future is not None:
                    future.exception()
            episode.environment._close()

    def _round(self, active: list[Episode]) -> list[Episode]:
        """Generate one turn for every active episode, run its tools, and return those that go on."""
        began = time.perf_counter()
        limits = [self._limits.tokens - len(episode.completion) for episode in active]
        generations = self._engine.generate(
            [episode.prompt + episode.completion for episode in active], limits, temperature=self._limits.temperature
        )
        took = time.perf_counter() - began
        self.seconds['generate'] += took
        # Tokens are read and written here, in one thread: fast tokenizers must not be shared while they encode.
        parsed = [self._read(episode, turn, took) for episode, turn in zip(active, generations, strict=True)]
        began = time.perf_counter()
        running = [
            self._pool.submit(self._run_calls, episode, turn) for episode, turn in zip(active, parsed, strict=True)
        ]
        for episode, turn, future in zip(active, parsed, running, strict=True):
            self._answer(episode, turn, future.result(), took)
        self.seconds['tools'] += time.perf_counter() - began
        return [episode for episode in active if episode.ending is None]

    def _start(self, episode: Episode) -> float:
        began = time.perf_counter()
        episode.environment.reset(episode.task.task_spec)
        return time.perf_counter() - began

    def _read(self, episode: Episode, generation: Generation, took: float) -> ParsedTurn:
        """Add a generated turn to its episode and read it back; set the ending where it already is one."""
        prefix = episode.prompt + episode.completion
        episode.add(generation.ids, own=True)
        episode.seconds['generate'] += took
        parsed = self._chat.parse(generation.ids, prefix)
        if not generation.finished:
            episode.ending = 'token_budget'
        elif parsed.unreadable:
            episode.ending = 'unreadable_tool_call'
        elif not parsed.calls:
            episode.ending = 'answer'
        elif len(episode.turns) >= self._limits.turns or episode.calls >= episode.task.task_spec.max_steps:
            episode.ending = 'tool_budget'
        return parsed

    def _run_calls(self, episode: Episode, turn: ParsedTurn) -> tuple[ToolRecord, ...]:
        """Run a turn's calls as far as the budget goes. In a worker thread."""
        if episode.ending is not None:
            return ()
        assert episode.started is not None
        episode.started.result()
        began = time.perf_counter()
        left = episode.task.task_spec.max_steps - episode.calls
        records = tuple(self._run_call(episode, call) for call in turn.calls[:left])
        episode.seconds['tools'] += time.perf_counter() - began
        return records

    def _run_call(self, episode: Episode, call: Call) -> ToolRecord:
        result = episode.environment._call(call.name, call.args)
        return ToolRecord(
            name=call.name,
            args=call.args,
            result=result.text,
            ok=result.ok,
            exit_code=result.exit_code,
            duration_ms=result.duration_ms,
        )

    def _answer(self, episode: Episode, turn: ParsedTurn, records: tuple[ToolRecord, ...], took: float) -> None:
        """Add the tools' answers; start the check where the episode is over."""
        episode.calls += len(records)
        if episode.ending is None:
            if len(records) < len(turn.calls):
                episode.ending = 'tool_budget'
            else:
                ids = self._chat.answer_ids([(record.name, record.result) for record in records])
                if len(episode.completion) + len(ids) + MIN_TURN_TOKENS > self._limits.tokens:
                    episode.ending = 'tool_answer_did_not_fit'
                else:
                    episode.add(ids, own=False)
        episode.turns.append(
            Turn(text=turn.text, tokens=turn.tokens, seconds=round(took, 4), unreadable=turn.unreadable, calls=records)
        )
        if episode.ending is not None:
            episode.checked = self._pool.submit(self._check, episode)

    def _check(self, episode: Episode) -> tuple[Verdict, float]:
        assert episode.started is not None
        episode.started.result()
        began = time.perf_counter()
        verdict = episode.environment._grade()
        return verdict, time.perf_counter() - began

    def _wait_for_checks(self, episodes: Sequence[Episode]) -> None:
        began = time.perf_counter()
        for episode in episodes:
            if episode.checked is None:
                raise GenerationError('an episode ended without a check')
            episode.seconds['check'] = episode.checked.result()[1]
        self.seconds['check'] += time.perf_counter() - began


def record(episode: Episode, *, step: int, stage: str, group: int, index: int, advantage: float | None) -> Rollout:
    """The record of a finished episode."""
    assert episode.checked is not None
    assert episode.ending is not None
    verdict = episode.checked.result()[0]
    return Rollout(
        step=step,
        stage=stage,
        task=episode.task.id,
        title=episode.task.title,
        group=group,
        index=index,
        prompt=episode.task.task_spec.prompt,
        turns=tuple(episode.turns),
        ending='error' if verdict.outcome == 'error' and not episode.turns else episode.ending,
        verdict=verdict,
        tokens=episode.tokens,
        advantage=advantage,
        changes=episode.environment.changes,
        seconds={name: round(value, 4) for name, value in episode.seconds.items()},
    )
