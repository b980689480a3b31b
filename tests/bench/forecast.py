"""Whether the forecast is true: tutorial tasks are calibrated, then trained on, and both shares are compared.

    python tests/bench/forecast.py [--tasks N] [--attempts K] [--steps N] [--seed S]

Prints the share of groups that should carry a gradient, and the share that did: 1 less the mean of
``frac_reward_zero_std`` over the steps of a real run. Exit code 1 when they are more than 0.15 apart. Takes two to
three minutes on two cores.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from studio.calibrations.forecast import Forecast  # noqa: E402
from studio.calibrations.views import Who  # noqa: E402
from studio.documents.samples import tutorial_files  # noqa: E402
from studio.launchers import LocalLauncher  # noqa: E402
from studio.services import Studio  # noqa: E402
from studio.settings import Settings  # noqa: E402
from studio.store.ids import new_id  # noqa: E402
from trainer.config import RunConfig, parse_settings  # noqa: E402
from trainer.events import Metrics, read_events  # noqa: E402
from trainer.runfolder import RunFolder  # noqa: E402

BAR = 0.15
GROUP = 8


@dataclass(frozen=True)
class Compared:
    """Shares of groups with a gradient, and seconds of both halves."""

    forecast: Forecast
    expected: float
    found: float
    groups: int
    seconds: tuple[float, float]

    @property
    def apart(self) -> float:
        """How far the forecast is off."""
        return abs(self.expected - self.found)


def compare(home: Path, *, tasks: int, attempts: int, steps: int, seed: int = 1) -> Compared:
    """Calibrate tasks with the starter model, train on them, and compare. Raises ``AssertionError`` where one fails."""
    studio = Studio(Settings(home=home))
    try:
        chosen = tutorial_files()[0][:: max(1, 32 // tasks)][:tasks]
        ids = [studio.documents.create(task, status='published').id for task in chosen]
        began = time.monotonic()
        studio.calibrations.start(ids, Who(model='starter'), k=attempts)
        job = studio.calibrations.wait()
        assert job is not None and job.state == 'done', job
        forecast = studio.calibrations.forecast(ids, Who(model='starter'))
        expected = forecast.total(GROUP)
        assert expected is not None
        measured = time.monotonic()
        shares = train(home / 'run', studio, ids, steps, seed)
    finally:
        studio.stop()
    found = 1 - sum(shares) / len(shares)
    return Compared(forecast, expected, found, steps * 8, (measured - began, time.monotonic() - measured))


def train(path: Path, studio: Studio, ids: list[str], steps: int, seed: int) -> list[float]:
    """Train on tasks without evaluations; the share of groups without a gradient, step by step."""
    raw = {'rl': {'enabled': True, 'maxSteps': steps, 'numGenerations': GROUP}, 'seed': seed, 'heldOutAttempts': 0}
    config = RunConfig(
        id=new_id(),
        name='forecast',
        created_at=datetime.now(UTC),
        training_type='grpoTraining',
        rlvr=True,
        model='starter',
        settings=parse_settings(raw)[0],
        isolation=studio.settings.sandbox,
        home=str(studio.settings.home.resolve()),
    )
    folder = RunFolder.create(path, config, studio.documents.published(ids))
    launcher = LocalLauncher()
    claim = launcher.start(folder)
    while claim.alive:
        time.sleep(0.2)
    launcher.end(claim)
    events, _ = read_events(folder.events)
    shares = [event.values['frac_reward_zero_std'] for event in events
              if isinstance(event, Metrics) and 'frac_reward_zero_std' in event.values]  # fmt: skip
    assert len(shares) == steps, '\n'.join(folder.log_tail(20))
    return shares


def main() -> int:
    """Compare once and print both shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--tasks', type=int, default=32)
    parser.add_argument('--attempts', type=int, default=8)
    parser.add_argument('--steps', type=int, default=10)
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='rlvr-forecast-', ignore_cleanup_errors=True) as folder:
        result = compare(
            Path(folder), tasks=options.tasks, attempts=options.attempts, steps=options.steps, seed=options.seed
        )
    tiers = ', '.join(f'{count} {tier}' for tier, count in result.forecast.tiers.items())
    print(f'{options.tasks} tasks x {options.attempts} attempts in {result.seconds[0]:.0f} s: {tiers}')
    print(f'{options.steps} steps, {result.groups} groups, in {result.seconds[1]:.0f} s')
    print(f'groups with a gradient: forecast {result.expected:.3f}, found {result.found:.3f}, {result.apart:.3f} apart')
    if bounds := result.forecast.interval(GROUP):
        print(f'95% interval of the forecast: {bounds[0]:.3f} to {bounds[1]:.3f}')
    if suggestion := result.forecast.suggestion:
        print(f'suggested group size {suggestion.size}: {suggestion.share:.3f} of {suggestion.most:.3f} with 16')
    return int(result.apart > BAR)


if __name__ == '__main__':
    sys.exit(main())
