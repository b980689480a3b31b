"""The tutorial run from the command line: held-out success before and after, and the adapter in a fresh process.

Prints one line a figure. Takes about ten minutes on two cores: `python tests/bench/tutorial.py [--steps N]`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from trainer.models import ASSETS

TASKS = ASSETS / 'tasks'
RLVR = Path(sys.executable).with_name('rlvr')


def run(*arguments: object) -> dict[str, Any]:
    """Run ``rlvr … --json`` and return what it printed."""
    command = [str(RLVR), *map(str, arguments), '--json']
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    """Train, then measure the saved adapter again in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--steps', type=int, default=0)
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out, config = Path(folder) / 'run', Path(folder) / 'rl.json'
        config.write_text(json.dumps({'rl': {'maxSteps': options.steps}, 'seed': options.seed}), encoding='utf-8')
        began = time.perf_counter()
        train = ('train', TASKS / 'tutorial-train.jsonl', '--model', 'starter', '--out', out, '--config', config)
        summary = run(*train, '--eval', TASKS / 'tutorial-heldout.jsonl')
        minutes = (time.perf_counter() - began) / 60
        print(f'state {summary["state"]}, {summary["steps"]} steps, {minutes:.1f} min')
        for stage in ('before', 'after'):
            row = json.loads((out / f'evaluation-{stage}.json').read_text(encoding='utf-8'))
            interval = f'[{row["low"]:.3f}, {row["high"]:.3f}]'
            print(f'{stage}: {row["solved"]} of {row["attempts"]}, {row["mean"]:.3f} {interval}')
        evaluate = ('evaluate', TASKS / 'tutorial-heldout.jsonl', '--model', 'starter', '--adapter', out / 'adapter')
        again = run(*evaluate, '-k', 8)
        print(f'reloaded in a fresh process: {again["mean"]:.3f} [{again["low"]:.3f}, {again["high"]:.3f}]')


if __name__ == '__main__':
    main()
