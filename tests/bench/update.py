"""The update of plain TRL and ours on the very same episodes: `python tests/bench/update.py [--seconds 50]`.

Our run plays one batch of tutorial tasks with the starter model, real sandboxes and tools included. Then both sides
train on this one batch, again and again: TRL's `GRPOTrainer` as it comes, and `GrpoRun` as a run has it, with its
records, rows and callbacks. The update is everything from the batch, whole with its rewards, to the next time that
episodes are asked for: loss, backward, clipping, optimizer step, log. Both sides have the same settings, threads and
adapter, and a learning rate of (almost) nothing; neither saves checkpoints.

The sides take turns within one process, each pair back to back in random order, so that both meet the same machine.
Prints medians of both in wall-clock and processor seconds (all threads), and the median of the ratios of the pairs,
ours to TRL's, with a bootstrap interval of 95 %. On a busy machine only processor seconds with `--threads 1` mean
something: threads that wait for one that is not scheduled burn time of both kinds. `--control` puts plain TRL on both
sides: what it prints beside 1 is the error of the bench. `--seconds` are those for each size of batch; what it takes to
start comes on top.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, ClassVar
from unittest.mock import patch

import torch
from datasets import Dataset
from greenlet import greenlet  # type: ignore[import-untyped]
from transformers import PrinterCallback, set_seed
from trl import GRPOTrainer

from trainer.config import RunConfig, parse_settings
from trainer.grpo import GrpoRun
from trainer.held_out import HeldOut
from trainer.journal import Journal
from trainer.manifest import read_manifest
from trainer.models import ASSETS, STARTER
from trainer.policy import load_model, load_tokenizer, lora, with_adapter
from trainer.preparation import Run, prepare
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import Episode, Player
from trainer.runfolder import RunFolder

GROUP = 8
WARM_UP = 3
FEWEST = 5
RESAMPLES = 2000
ORDER = random.Random(1)


@dataclass(frozen=True)
class Update:
    """Seconds of one update."""

    wall: float
    cpu: float


class Side:
    """One side's training, which stands still before the episodes of every step until it is its turn.

    Both trainings share the main thread: in a second one torch would have a second set of worker threads.
    """

    def __init__(self, train: Callable[[Side], None]) -> None:
        self._training = greenlet(lambda: train(self))
        self._began = Update(0.0, 0.0)

    def go(self) -> Update:
        """Go on with the training to the end of its next update; the first call goes to its first episodes."""
        update: Update = self._training.switch()
        return update

    def end(self) -> None:
        """Give the training up where it stands."""
        self._training.throw()

    def halt(self) -> None:
        """Called by the training: the update has ended. Returns when it is its turn again."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        update = Update(time.perf_counter() - self._began.wall, time.process_time() - self._began.cpu)
        main = self._training.parent
        assert main is not None
        main.switch(update)

    def begin(self) -> None:
        """Called by the training: an update begins."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._began = Update(time.perf_counter(), time.process_time())


class HaltingTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer, its updates told from its episodes."""

    side: ClassVar[Side]
    batches: ClassVar[list[dict[str, Any]]]
    """The recorded batch, once there is one."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self.side.halt()
        batch = self.batch(inputs)
        self.side.begin()
        return batch

    def batch(self, inputs: Any) -> dict[str, Any]:
        """Plain TRL is given what was recorded."""
        return dict(self.batches[0])


class RecordingTrainer(HaltingTrainer):
    """Ours goes through its episodes, which are always the same."""

    def batch(self, inputs: Any) -> dict[str, Any]:
        batch: dict[str, Any] = GRPOTrainer._generate_and_score_completions(self, inputs)
        self.batches[:] = [dict(batch)]
        return batch


@dataclass(frozen=True)
class RecordedRun(Run):
    """A run that plays once, and trains on that for ever."""

    def player(self, policy: Any) -> Player:
        player = super().player(policy)
        played: list[Episode] = []
        play = player.play

        def replay(*arguments: Any, **options: Any) -> list[Episode]:
            played[:] = played or play(*arguments, **options)
            return played

        player.play = replay  # type: ignore[method-assign]
        return player


def ours(run: Run, batches: list[dict[str, Any]]) -> Callable[[Side], None]:
    """The training of a run, as its stages have it."""

    def train(of: Side) -> None:
        class Trainer(RecordingTrainer):
            side = of

        Trainer.batches = batches
        set_seed(run.config.settings.seed)
        held_out = HeldOut(run.held_out, run.journal, k=0, temperature=1.0, seed=1)
        with patch('trainer.grpo.GRPOTrainer', Trainer):
            GrpoRun(run, held_out).train(with_adapter(load_model(run.model, run.hardware), run.plan))

    return train


def plain_trl(run: Run, batches: list[dict[str, Any]]) -> Callable[[Side], None]:
    """TRL's trainer over environments, with the same settings; it logs as often as it does by itself."""

    def train(of: Side) -> None:
        class Trainer(HaltingTrainer):
            side = of

        Trainer.batches = batches
        base = load_model(STARTER, run.hardware)
        arguments = GrpoRun(run, HeldOut((), run.journal, k=0, temperature=1.0, seed=1))._arguments(base)
        arguments.logging_steps = type(arguments).logging_steps
        set_seed(run.config.settings.seed)
        made = Trainer(
            model=base,
            args=arguments,
            train_dataset=Dataset.from_list([
                {'prompt': [{'role': 'user', 'content': task.task_spec.prompt}]} for task in run.tasks
            ]),
            processing_class=load_tokenizer(STARTER),
            reward_funcs=[],
            environment_factory=lambda: TfcodeEnv(run.home, run.config.isolation, run.python),
            peft_config=lora(run.plan),
        )  # fmt: skip
        made.remove_callback(PrinterCallback)
        made.train()

    return train


def measure(folder: Path, rollouts: int, options: argparse.Namespace) -> list[tuple[Update, Update]]:
    """Updates of plain TRL and of ours, in pairs."""
    settings = {
        'rl': {'enabled': True, 'numGenerations': GROUP, 'maxSteps': 10_000},
        'batchSize': rollouts,
        'learningRate': 1e-12,
        'saveEvery': 0,
        'evalEvery': 0,
        'heldOutAttempts': 0,
    }
    config = RunConfig(
        id='update',
        created_at=datetime.now(UTC),
        model=STARTER.id,
        settings=parse_settings(settings)[0],
        home=str(folder),
    )
    tasks = read_manifest(ASSETS / 'tasks' / 'tutorial-train.jsonl')
    made = RunFolder.create(folder / 'run', config, tasks)
    with Journal(made) as journal:
        run = RecordedRun(**vars(prepare(made, journal)))
        torch.set_num_threads(options.threads or torch.get_num_threads())
        assert run.plan.rollouts_per_step == run.plan.batch_size == rollouts
        batches: list[dict[str, Any]] = []
        recorded = Side(ours(run, batches))
        first, second = Side(plain_trl(run, batches)), Side(plain_trl(run, batches)) if options.control else recorded
        try:
            for side in (recorded, recorded, first, second):
                side.go()
            for _ in range(WARM_UP):
                pair(first, second)
            found: list[tuple[Update, Update]] = []
            until = time.monotonic() + options.seconds
            while len(found) < FEWEST or time.monotonic() < until:
                found.append(pair(first, second))
        finally:
            for side in (first, second, recorded):
                side.end()
    return found


def pair(first: Side, second: Side) -> tuple[Update, Update]:
    """An update of each, in random order."""
    if ORDER.random() < 0.5:
        return first.go(), second.go()
    other = second.go()
    return first.go(), other


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """95 % of the medians of samples drawn from these again."""
    draw = random.Random(1)
    medians = sorted(median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rollouts', nargs='+', type=int, default=[16, 32])
    parser.add_argument('--seconds', type=float, default=50, help='for each size of batch')
    parser.add_argument('--threads', type=int, help='of torch; by itself as many as a run has')
    parser.add_argument('--control', action='store_true', help='plain TRL against itself')
    options = parser.parse_args()
    warnings.simplefilter('ignore')
    second = 'the same' if options.control else 'ours'
    print('seconds of an update (median), and ratio of pairs: below 1, ours is faster')
    for rollouts in options.rollouts:
        with tempfile.TemporaryDirectory() as name, (Path(name) / 'log').open('w') as log, redirect_stdout(log):
            found = measure(Path(name), rollouts, options)
        for clock in ('wall', 'cpu'):
            theirs, mine = ([getattr(update, clock) for update in side] for side in zip(*found, strict=True))
            ratios = [one / other for one, other in zip(mine, theirs, strict=True)]
            low, high = interval(ratios)
            print(
                f'{rollouts:4} rollouts  {clock:4}  plain TRL {median(theirs):7.3f}  {second} {median(mine):7.3f}  '
                f'ratio {median(ratios):.3f} (95 %: {low:.3f} to {high:.3f}, {len(ratios)} pairs)',
                flush=True,
            )
    print(f'load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores')


if __name__ == '__main__':
    main()
