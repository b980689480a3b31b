"""Runs whose episodes are scripted: real trainer, real model, real records; what is said and earned is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch
from test_rollout import DONE, WRITE, ScriptedEngine

from trainer.config import RunConfig, parse_settings, resolve
from trainer.demonstrations import Demonstration
from trainer.engines import Engines
from trainer.hardware import Hardware
from trainer.held_out import HeldOut
from trainer.journal import Journal
from trainer.models import STARTER
from trainer.policy import load_model, load_tokenizer, with_adapter
from trainer.preparation import Run
from trainer.recording import Change
from trainer.rollout.chat import Chat
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import EpisodeLimits, Player
from trainer.runfolder import RunFolder
from trainer.sandbox.python_env import PythonEnvironment
from trainer.task import TaskFile, TaskSpec, parse_task
from trainer.team import Team
from trainer.tools import ToolResult
from trainer.verdict import Verdict

CPU = Hardware('cpu', 'float32', 'CPU')
Score = Callable[[str], float | None]
"""The reward of an episode by its prompt; ``None`` is an error."""


def tasks(count: int) -> list[TaskFile]:
    checker = {'type': 'exit_code', 'config': {'command': 'true'}}
    return [
        parse_task({'id': f'task-{number}', 'task_spec': {'prompt': f'Do {number}', 'checker': checker}})[0]
        for number in range(count)
    ]


def by_chance(prompt: str) -> float:
    """Rewards that follow torch's random state, as sampled episodes do."""
    return float(torch.rand(()) < 0.5)


class Room(TfcodeEnv):
    """An environment that answers everything and gives the reward it is told."""

    def __init__(self, score: Score) -> None:
        self.changes: tuple[Change, ...] = ()
        self._score = score
        self._prompt = ''

    def reset(self, task_spec: str | TaskSpec, **_: object) -> None:
        assert isinstance(task_spec, TaskSpec)
        self._prompt = task_spec.prompt

    def _call(self, name: str, args: Mapping[str, object]) -> ToolResult:
        return ToolResult(text='ok')

    def _grade(self) -> Verdict:
        reward = self._score(self._prompt)
        return Verdict.not_scored('broken') if reward is None else Verdict.scored(reward)

    def _close(self) -> None:
        pass


class InOrder(Player):
    """A player that grades in the order of its episodes: what follows a random state must not follow threads."""

    def _check(self, episode: Any) -> tuple[Verdict, float]:
        return Verdict.scored(0.0), 0.0

    def _wait_for_checks(self, episodes: Sequence[Any], stop: Callable[[], bool]) -> None:
        for episode in episodes:
            verdict = episode.environment._grade()
            episode.checked = self._pool.submit(lambda verdict=verdict: (verdict, 0.0))


@dataclass(frozen=True)
class ScriptedRun(Run):
    """A run whose players say the same two turns in every episode."""

    score: Score = by_chance

    def player(self, policy: Any) -> Player:
        engine = ScriptedEngine(self.tokenizer, [WRITE, DONE])
        return InOrder(Chat(self.tokenizer), engine, EpisodeLimits(300, 4, 1.0), lambda: Room(self.score))


@contextmanager
def scripted(
    folder: Path,
    given: Sequence[TaskFile],
    score: Score = by_chance,
    held_out: Sequence[TaskFile] = (),
    demonstrations: Sequence[Demonstration] = (),
    training_type: Literal['grpoTraining', 'conversationalTraining'] = 'grpoTraining',
    **settings: Any,
) -> Iterator[Run]:
    """A run over a folder, new or there already, with its journal open."""
    rl = {'enabled': training_type == 'grpoTraining', 'numGenerations': 4, **settings.pop('rl', {})}
    parsed, _ = parse_settings({'rl': rl, 'batchSize': 8, **settings})
    config = RunConfig(
        id='test', created_at=datetime.now(UTC), model='starter', settings=parsed, training_type=training_type
    )
    made = RunFolder(folder)
    if not folder.exists():
        RunFolder.create(folder, config, given, held_out, demonstrations)
    model, plan = resolve(config, len(given))
    with Journal(made) as journal:
        yield ScriptedRun(
            folder=made,
            journal=journal,
            config=config,
            model=model,
            plan=plan,
            hardware=CPU,
            tokenizer=load_tokenizer(model),
            tasks=given,
            held_out=held_out,
            python=PythonEnvironment(mounts=(), path_prefix=(), python='python3', site_packages=''),
            team=Team(),
            engines=Engines(plan.engine, None, folder=made.path, lora_rank=plan.lora_rank),
            score=score,
        )


def new_policy(run: Run) -> Any:
    torch.manual_seed(run.config.settings.seed)
    return with_adapter(load_model(STARTER, CPU), run.plan)


def held_out_of(run: Run) -> HeldOut:
    return HeldOut(run.held_out, run.journal, k=2, temperature=1.0, seed=1)
