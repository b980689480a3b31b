"""The process of a calibration: k attempts at every task of a manifest, each task told as soon as it is counted.

``python -m trainer.calibrate --manifest FILE --model M [--adapter DIR] -k N --seed S --home DIR`` writes one JSON
object a line to stdout (``calibration_messages``); it ends with whoever started it. A task is told whole or not at
all: counting those attempts of a batch that end first would count short episodes more often than long ones.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer.calibration_messages import Counted
from trainer.evaluate import batch_size, evaluate, model_options, open_model
from trainer.manifest import read_manifest
from trainer.recording import Rollout
from trainer.rollout.environment import TfcodeEnv
from trainer.side_work import Reporter, run
from trainer.verdict import Verdict


def main(arguments: Sequence[str] | None = None) -> int:
    """Calibrate and return the exit code."""
    options = model_options('python -m trainer.calibrate', 'Attempts at tasks, counted.').parse_args(arguments)

    def work(report: Reporter) -> Mapping[str, Any]:
        tasks = read_manifest(options.manifest)
        total, checked = len(tasks) * options.k, 0

        def one_more() -> None:
            nonlocal checked
            checked += 1
            report('Attempting', checked, total)

        report('Loading the model', 0, total)
        opened = open_model(options, environment=_counting(one_more))
        report('Attempting', 0, total)
        try:
            evaluate(
                opened.player,
                tasks,
                k=options.k,
                temperature=opened.temperature,
                stage='before',
                seed=options.seed,
                batch=batch_size(opened, options.k),
                on_rollout=_Counter(options.k, report).add,
            )
        finally:
            opened.player.close()
        return {'attempts': total}

    return run(work)


class _Counter:
    """Collects the attempts at each task, and tells them once there are ``k``."""

    def __init__(self, k: int, report: Reporter) -> None:
        self._k, self._report = k, report
        self._attempts: dict[str, list[Verdict]] = {}
        self._began = time.monotonic()

    def add(self, rollout: Rollout) -> None:
        attempts = self._attempts.setdefault(rollout.task, [])
        attempts.append(rollout.verdict)
        if len(attempts) < self._k:
            return
        del self._attempts[rollout.task]
        errors = [verdict.reason for verdict in attempts if verdict.outcome == 'error']
        now = time.monotonic()
        # The first task of a batch carries what the whole batch took, the others nothing: their sum is what counts.
        seconds, self._began = now - self._began, now
        self._report.write(
            Counted(
                task=rollout.task,
                rewards=tuple(verdict.reward for verdict in attempts),
                error=errors[-1] if errors else '',
                seconds=round(seconds, 3),
            )
        )


def _counting(checked: Callable[[], None]) -> type[TfcodeEnv]:
    """An environment that tells of every episode that was graded, in the thread that graded it."""

    class Counting(TfcodeEnv):
        def _check(self) -> Verdict:
            try:
                return super()._check()
            finally:
                checked()

    return Counting


if __name__ == '__main__':
    sys.exit(main())
