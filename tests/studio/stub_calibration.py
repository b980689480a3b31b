"""A stand-in for the process of a calibration: it earns what ``RLVR_STUB_REWARDS`` says, task by task.

The variable holds JSON: ``rewards`` (title -> the rewards of one round, repeated up to k), ``hang_after`` (tasks that
are counted before it stops counting, with a child that ignores signals), ``fail`` (what it says instead of working),
``overwrite`` (a file that somebody writes anew while it loads the model).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument('--manifest', type=Path)
    parser.add_argument('-k', type=int)
    known, rest = parser.parse_known_args()
    options = json.loads(os.environ.get('RLVR_STUB_REWARDS', '{}'))
    say({'kind': 'progress', 'text': 'Loading the model'})
    if 'fail' in options:
        say({'kind': 'failed', 'message': options['fail'], 'hint': 'Free some.'})
        sys.exit(1)
    if 'overwrite' in options:
        Path(options['overwrite']).write_bytes(b'other weights')
    tasks = [json.loads(line) for line in known.manifest.read_text(encoding='utf-8').splitlines()]
    say({'kind': 'progress', 'text': 'Attempting', 'total': len(tasks) * known.k})
    for number, task in enumerate(tasks):
        if number == options.get('hang_after'):
            deaf = 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)'
            subprocess.Popen([sys.executable, '-c', deaf])
            say({'kind': 'progress', 'text': 'Attempting', 'done': number * known.k, 'total': len(tasks) * known.k})
            time.sleep(600)
        round_of = options.get('rewards', {}).get(task['title'], [0.0])
        rewards = (round_of * known.k)[: known.k]
        say({'kind': 'progress', 'text': 'Attempting', 'done': (number + 1) * known.k, 'total': len(tasks) * known.k})
        error = 'the checker is gone' if None in rewards else ''
        say({'kind': 'counted', 'task': task['id'], 'rewards': rewards, 'error': error, 'seconds': 0.5})
    say({'kind': 'done', 'result': {'arguments': rest}})


def say(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == '__main__':
    main()
