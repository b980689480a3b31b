"""Playing episodes: the turns of all of them generated together, their setup, tools and checks side by side.

Nobody waits for the slowest: setup runs while the first turn is generated, tools run and episodes are checked while the
others are generated, and an episode whose tools have answered joins again (design section 7).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

import torch

from trainer.engines import Generation, GenerationEngine, TurnStream
from trainer.errors import GenerationError
from trainer.recording import Ending, Rollout, ToolRecord, Turn
from trainer.rollout.calls import SharedCalls, first_history
from trainer.rollout.chat import Call, Chat, ParsedTurn
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.verdicts import SharedVerdicts
from trainer.sandbox import SandboxScope
from trainer.task import TaskFile
from trainer.verdict import Verdict

MIN_TURN_TOKENS: Final = 8
"""An answer that leaves less room than this for the next turn does not fit."""
WAIT_S: Final = 0.2
AT_ONCE: Final = 256
"""Episodes played at once, each with a sandbox and a thread its tools may wait in; what computes is bounded where it
runs. A larger batch is played in waves: sandboxes, open files and the engine's caches stay bounded.
"""
CHECKS: Final = max(8, 4 * (os.cpu_count() or 1))
"""Checks at once; each has a copy of its workspace on the host's disk."""


class Stopped(Exception):
    """The batch was given up because somebody asked the run to stop."""


@dataclass(frozen=True)
class EpisodeLimits:
    """Budgets of one episode besides the task's own ``max_steps``."""

    tokens: int
    turns: int
    temperature: float
    answer_tokens: int = 512
    """Of one tool answer; a longer one is cut."""


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
    asked: float = 0.0
    took: float = 0.0
    """When its turn was asked for, and how long the last one took, in seconds."""

    @property
    def tokens(self) -> int:
        """Tokens the model generated."""
        return sum(self.mask)

    @property
    def verdict(self) -> Verdict:
        """What the checker said; known once the batch is played."""
        assert self.checked is not None
        return self.checked.result()[0]

    def add(self, ids: Sequence[int], *, own: bool) -> None:
        """Append the model's own tokens, or an answer's."""
        self.completion += ids
        self.mask += [int(own)] * len(ids)


_Answered = tuple[int, ParsedTurn, Future[tuple[ToolRecord, ...]]]


class Player:
    """Plays batches of episodes with one engine; one instance serves a whole run."""

    def __init__(
        self, chat: Chat, engine: GenerationEngine, limits: EpisodeLimits, environment: Callable[[], TfcodeEnv]
    ) -> None:
        self._chat = chat
        self._engine = engine
        self._limits = limits
        self._environment = environment
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix='episode')
        self._checks = ThreadPoolExecutor(CHECKS, thread_name_prefix='check')
        self.seconds: dict[str, float] = {}
        """Wall-clock seconds of the last batch by phase: generate, tools (waited for), check (waited for)."""

    def close(self) -> None:
        """End the worker threads."""
        for pool in (self._pool, self._checks):
            pool.shutdown(wait=True, cancel_futures=True)

    def play(
        self, tasks: Sequence[TaskFile], *, stop: Callable[[], bool] = lambda: False, share_calls: bool = False
    ) -> list[Episode]:
        """Play one episode for each task given (a task may be there many times); all are checked on return.

        Order is kept, and what is sampled follows torch's random state, not how long tools take. With ``share_calls``,
        attempts with the same history run an equal call once: quicker, but where setup or tools act by chance they are
        no longer independent, so what measures a success rate does without. Raises ``Stopped``, with every sandbox
        closed, when ``stop`` says so between two turns or while checks are waited for.
        """
        self.seconds = {'generate': 0.0, 'tools': 0.0, 'check': 0.0}
        waves = (tasks[start : start + AT_ONCE] for start in range(0, len(tasks), AT_ONCE))
        return [episode for wave in waves for episode in self._play_wave(wave, stop, share_calls)]

    def _play_wave(self, tasks: Sequence[TaskFile], stop: Callable[[], bool], share_calls: bool) -> list[Episode]:
        texts = dict.fromkeys(task.task_spec.prompt for task in tasks)
        prompts = {text: self._chat.prompt_ids(text) for text in texts}
        episodes = [Episode(task, list(prompts[task.task_spec.prompt]), self._environment()) for task in tasks]
        verdicts = SharedVerdicts()
        share_calls = share_calls and all(episode.environment.can_share for episode in episodes)
        calls = SharedCalls(first_history(task.task_spec) for task in tasks) if share_calls else None
        for episode in episodes:
            episode.environment.verdicts, episode.environment.calls = verdicts, calls
        seed = self._seed()
        self._scope = SandboxScope()
        try:
            for episode in episodes:
                episode.started = self._pool.submit(self._start, episode)
            with self._engine.open(len(episodes), temperature=self._limits.temperature, seed=seed) as stream:
                self._play(episodes, stream, stop)
            self._wait_for_checks(episodes, stop)
        except BaseException:
            if calls is not None:
                calls.give_up()
            self._give_up(episodes)
            raise
        return episodes

    def _seed(self) -> int:
        return int(torch.randint(2**62, ()).item())

    def _give_up(self, episodes: Sequence[Episode]) -> None:
        # Nobody waits for a setup, a tool or a check: each may take a minute.
        self._scope.end()
        for episode in episodes:
            for future in (episode.started, episode.checked):
                if future is not None and not future.cancel():
                    future.exception()
            episode.environment._close()

    def _play(self, episodes: Sequence[Episode], stream: TurnStream, stop: Callable[[], bool]) -> None:
        """Generate turns, hand them to their tools, and take answers back, until every episode has ended."""
        answered: SimpleQueue[_Answered] = SimpleQueue()
        for row, episode in enumerate(episodes):
            self._ask(stream, row, episode, episode.prompt)
        going = len(episodes)
        while going:
            if stop():
                raise Stopped
            for row, generation in self._advance(stream):
                # Tokens are read and written in this thread: fast tokenizers must not be shared while they encode.
                episode = episodes[row]
                turn = self._read(episode, generation)
                future = self._pool.submit(self._run_calls, episode, turn)
                future.add_done_callback(partial(_hand_over, answered, row, turn))
            for row, turn, done in self._answers(answered, wait=not stream.asked):
                episode = episodes[row]
                ids = self._answer(episode, turn, done.result())
                if episode.ending is None:
                    self._ask(stream, row, episode, ids)
                else:
                    going -= 1

    def _ask(self, stream: TurnStream, row: int, episode: Episode, ids: Sequence[int]) -> None:
        episode.asked = time.perf_counter()
        stream.extend(row, ids, self._limits.tokens - len(episode.completion))

    def _advance(self, stream: TurnStream) -> list[tuple[int, Generation]]:
        began = time.perf_counter()
        ended = stream.advance() if stream.asked else []
        self.seconds['generate'] += time.perf_counter() - began
        return ended

    def _answers(self, answered: SimpleQueue[_Answered], *, wait: bool) -> Iterator[_Answered]:
        """What tools have answered by now; where nothing else is to be done, wait for the first of them."""
        if wait:
            began = time.perf_counter()
            with suppress(Empty):
                # Not for ever: somebody may ask to stop.
                yield answered.get(timeout=WAIT_S)
            self.seconds['tools'] += time.perf_counter() - began
        while not answered.empty():
            yield answered.get()

    def _start(self, episode: Episode) -> float:
        began = time.perf_counter()
        with self._scope.entered():
            episode.environment.reset(episode.task.task_spec)
        return time.perf_counter() - began

    def _read(self, episode: Episode, generation: Generation) -> ParsedTurn:
        """Add a generated turn to its episode and read it back; set the ending where it already is one."""
        prefix = episode.prompt + episode.completion
        episode.add(generation.ids, own=True)
        episode.took = time.perf_counter() - episode.asked
        episode.seconds['generate'] += episode.took
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
        with self._scope.entered():
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
            shared=result.shared,
        )

    def _answer(self, episode: Episode, turn: ParsedTurn, records: tuple[ToolRecord, ...]) -> list[int]:
        """Add the tools' answers and return their tokens; start the check where the episode is over."""
        ids: list[int] = []
        budget = self._limits.answer_tokens
        records = tuple(one.model_copy(update={'result': self._chat.cut(one.result, budget)}) for one in records)
        episode.calls += len(records)
        if episode.ending is None:
            if episode.environment.broken:
                episode.ending = 'error'
            elif len(records) < len(turn.calls):
                episode.ending = 'tool_budget'
            else:
                ids = self._chat.answer_ids([(record.name, record.result) for record in records])
                if len(episode.completion) + len(ids) + MIN_TURN_TOKENS > self._limits.tokens:
                    episode.ending = 'tool_answer_did_not_fit'
                else:
                    episode.add(ids, own=False)
        episode.turns.append(
            Turn(
                text=turn.text,
                tokens=turn.tokens,
                seconds=round(episode.took, 4),
                unreadable=turn.unreadable,
                calls=records,
            )
        )
        if episode.ending is not None:
            episode.checked = self._checks.submit(self._check, episode)
        return ids

    def _check(self, episode: Episode) -> tuple[Verdict, float]:
        assert episode.started is not None
        episode.started.result()
        began = time.perf_counter()
        with self._scope.entered():
            verdict = episode.environment._grade()
        return verdict, time.perf_counter() - began

    def _wait_for_checks(self, episodes: Sequence[Episode], stop: Callable[[], bool]) -> None:
        began = time.perf_counter()
        checks = [episode.checked for episode in episodes if episode.checked is not None]
        if len(checks) < len(episodes):
            raise GenerationError('an episode ended without a check')
        while wait(checks, timeout=WAIT_S).not_done:
            if stop():
                raise Stopped
        for episode, check in zip(episodes, checks, strict=True):
            episode.seconds['check'] = check.result()[1]
        self.seconds['check'] += time.perf_counter() - began


def _hand_over(
    answered: SimpleQueue[_Answered], row: int, turn: ParsedTurn, done: Future[tuple[ToolRecord, ...]]
) -> None:
    answered.put((row, turn, done))


def record(episode: Episode, *, step: int, stage: str, group: int, index: int, advantage: float | None) -> Rollout:
    """The record of a finished episode."""
    assert episode.ending is not None
    verdict = episode.verdict
    return Rollout(
        step=step,
        stage=stage,
        task=episode.task.id,
        title=episode.task.title,
        group=group,
        index=index,
        prompt=episode.task.task_spec.prompt,
        turns=tuple(episode.turns),
        ending=episode.ending,
        verdict=verdict,
        tokens=episode.tokens,
        advantage=advantage,
        changes=episode.environment.changes,
        workspace=episode.environment.workspace,
        seconds={name: round(value, 4) for name, value in episode.seconds.items()},
    )
