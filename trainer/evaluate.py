"""Held-out success: k attempts per task with a model or an adapter, with Wilson intervals (spec sections 5 and 8).

``python -m trainer.evaluate --manifest FILE --model M [--adapter DIR] -k N --out FILE`` writes the result as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch

from trainer.engines import open_engine
from trainer.errors import RlvrError
from trainer.evaluation import Evaluation, TaskResult
from trainer.events import Stage
from trainer.hardware import detect
from trainer.manifest import read_manifest
from trainer.models import ModelInfo, find_model
from trainer.policy import load_model, load_tokenizer
from trainer.recording import Rollout
from trainer.requirements import parse_requirements
from trainer.rollout.chat import Chat
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import EpisodeLimits, Player, Stopped, record
from trainer.sandbox import Isolation
from trainer.sandbox.python_env import package_environment
from trainer.statistics import wilson
from trainer.task import TaskFile

__all__ = ['Evaluation', 'TaskResult', 'evaluate', 'summarise']

BATCH = 64
"""Episodes played at once."""
CPU_GROUP = 8
"""Episodes played at once for each group that a step of training holds, where there is no GPU."""


def evaluate(
    player: Player,
    tasks: Sequence[TaskFile],
    *,
    k: int,
    temperature: float,
    stage: Stage,
    step: int = 0,
    seed: int = 1,
    batch: int = BATCH,
    on_rollout: Callable[[Rollout], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Evaluation:
    """Attempt every task ``k`` times; the same weights and seed give the same attempts, whatever was done before.

    ``batch`` episodes are played at once. ``stop`` is asked meanwhile; the batches that were whole by then count.
    """
    wanted = [(number, task, index) for number, task in enumerate(tasks) for index in range(k)]
    rollouts: list[Rollout] = []
    with torch.random.fork_rng(devices=[]), suppress(Stopped):
        torch.manual_seed(seed)
        for start in range(0, len(wanted), batch):
            some = wanted[start : start + batch]
            episodes = player.play([task for _, task, _ in some], stop=stop)
            for episode, (number, _, index) in zip(episodes, some, strict=True):
                rollout = record(episode, step=step, stage=stage, group=number, index=index, advantage=None)
                rollouts.append(rollout)
                if on_rollout is not None:
                    on_rollout(rollout)
    return summarise(tasks, rollouts, k=k, temperature=temperature, stage=stage, step=step)


def summarise(
    tasks: Sequence[TaskFile], rollouts: Sequence[Rollout], *, k: int, temperature: float, stage: str, step: int = 0
) -> Evaluation:
    """Count solved attempts per task and in total; errors are left out and counted on their own."""
    rows = []
    for task in tasks:
        own = [rollout.verdict for rollout in rollouts if rollout.task == task.id]
        scored = [verdict for verdict in own if verdict.outcome != 'error']
        solved = sum(verdict.solved for verdict in scored)
        low, high = wilson(solved, len(scored))
        rows.append(
            TaskResult(
                id=task.id,
                title=task.title,
                solved=solved,
                attempts=len(scored),
                errors=len(own) - len(scored),
                low=low,
                high=high,
                rewards=tuple(verdict.reward for verdict in own),
            )
        )
    solved, attempts = sum(row.solved for row in rows), sum(row.attempts for row in rows)
    low, high = wilson(solved, attempts)
    return Evaluation(
        stage=stage,
        step=step,
        k=k,
        temperature=temperature,
        mean=solved / attempts if attempts else None,
        low=low,
        high=high,
        solved=solved,
        attempts=attempts,
        errors=sum(row.errors for row in rows),
        tasks=tuple(rows),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluate from the command line; returns the exit code."""
    options = _options().parse_args(arguments)
    try:
        result = _evaluate_model(options)
    except RlvrError as error:
        print(f'{error.message}\n{error.hint}'.strip(), file=sys.stderr)  # noqa: T201
        return 1
    options.out.write_text(json.dumps(result.model_dump(mode='json')) + '\n', encoding='utf-8')
    return 0


def model_options(program: str, about: str) -> argparse.ArgumentParser:
    """The options that say who attempts which tasks, and how."""
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument('--manifest', type=Path, required=True)
    parser.add_argument('--model', required=True)
    parser.add_argument('--adapter', type=Path)
    parser.add_argument('-k', type=int, default=4)
    parser.add_argument('--temperature', type=float)
    parser.add_argument('--max-completion-length', type=int)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--home', type=Path, required=True)
    parser.add_argument('--package', action='append', default=[], help='of the Python in sandboxes; may be repeated')
    parser.add_argument('--isolation', choices=get_args(Isolation), default='bubblewrap')
    return parser


@dataclass(frozen=True)
class Opened:
    """A model that is ready to attempt tasks."""

    model: ModelInfo
    player: Player
    temperature: float
    on_gpu: bool


def open_model(options: argparse.Namespace, *, environment: type[TfcodeEnv] = TfcodeEnv) -> Opened:
    """Load what ``model_options`` named; its player is to be closed. Raises ``ConfigError``, ``SandboxError``."""
    model = find_model(options.model)
    hardware = detect()
    tokenizer = load_tokenizer(model)
    policy = load_model(model, hardware, adapter=options.adapter)
    temperature = model.preset.temperature if options.temperature is None else options.temperature
    python = package_environment(options.home, parse_requirements(options.package))
    length = options.max_completion_length or model.preset.max_completion_length or 1024
    limits = EpisodeLimits(tokens=length, turns=32, temperature=temperature, answer_tokens=length // 2)
    player = Player(
        Chat(tokenizer),
        open_engine('plain', policy, tokenizer),
        limits,
        lambda: environment(options.home, options.isolation, python),
    )
    return Opened(model, player, temperature, on_gpu=hardware.device == 'cuda')


def batch_size(opened: Opened, k: int) -> int:
    """Episodes to play at once: whole groups of ``k`` where they fit, and no more than a step of training would."""
    most = BATCH if opened.on_gpu else min(BATCH, CPU_GROUP * opened.model.preset.groups_per_batch)
    return max(1, most // k) * k if k <= most else most


def _options() -> argparse.ArgumentParser:
    parser = model_options('python -m trainer.evaluate', 'Held-out success of a model.')
    parser.add_argument('--out', type=Path, required=True)
    return parser


def _evaluate_model(options: argparse.Namespace) -> Evaluation:
    tasks = read_manifest(options.manifest)
    opened = open_model(options)
    done = 0

    def report(rollout: Rollout) -> None:
        nonlocal done
        done += 1
        print(f'\r{done}/{len(tasks) * options.k}', end='', file=sys.stderr, flush=True)  # noqa: T201

    try:
        return evaluate(
            opened.player,
            tasks,
            k=options.k,
            temperature=opened.temperature,
            stage='before',
            seed=options.seed,
            on_rollout=report,
        )
    finally:
        opened.player.close()


if __name__ == '__main__':
    sys.exit(main())
