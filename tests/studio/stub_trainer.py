"""A stand-in for the trainer: writes a run folder as the real one does, at any speed, and can end in any way.

Used by tests of supervision only: ``LocalLauncher(command=(python, stub_trainer.py, *options))``.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from trainer.events import Artifact, EventWriter, Heartbeat, Metrics, Notice, Progress, RolloutEvent, State


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument('--steps', type=int, default=5)
    parser.add_argument('--interval', type=float, default=0.02)
    parser.add_argument('--silent', action='store_true', help='hang before the first event')
    parser.add_argument('--end', default='finished', help='finished, exit:N, signal:N, quiet (exit 0, no last word)')
    parser.add_argument('--ignore-stop', action='store_true')
    parser.add_argument('--ignore-term', action='store_true')
    parser.add_argument('--log-kb', type=int, default=0, help='log written each step')
    parser.add_argument('--children', action='store_true', help='two grandchildren: one deaf, one in its own session')
    parser.add_argument('--rollouts', type=int, default=0, help='episodes each step')
    parser.add_argument('--hold', default='', help='stay preparing, training or saving until the file `go` is there')
    parser.add_argument('--print', default='', help='last line of the log')
    parser.add_argument('folder', type=Path)
    options = parser.parse_args()
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.children:
        start_children(options.folder)
    if options.silent:
        time.sleep(600)
    run(options.folder, options)


def run(folder: Path, options: argparse.Namespace) -> None:
    with EventWriter(folder / 'events.jsonl') as events:
        events.write(State(state='preparing'))
        events.write(Notice(text='a stand-in is at work'))
        asked = Hold(folder, events, options).at('preparing')
        events.write(State(state='training'))
        for step in range(1, options.steps + 1):
            if asked or ((folder / 'control' / 'stop').exists() and not options.ignore_stop):
                events.write(State(state='stopped', reason='stopped by the user'))
                return
            sys.stdout.write('x' * 1023 * options.log_kb + f'\nstep {step}\n')
            sys.stdout.flush()
            for index in range(options.rollouts):
                write_rollout(folder, events, step, index)
            events.write(Metrics(step=step, values={'loss': 1 / step, 'rewards/TfcodeEnv/mean': step / options.steps}))
            events.write(Progress(step=step, total=options.steps, eta_s=(options.steps - step) * options.interval))
            events.write(Heartbeat())
            time.sleep(options.interval)
            if step == 2:
                asked = Hold(folder, events, options).at('training') or save(folder, events, options)
        sys.stderr.write(options.print + '\n')
        sys.stderr.flush()
        leave(folder, events, options.end)


class Hold:
    """Stays where it is told to until it may go on, or is asked to stop; counts steps meanwhile."""

    def __init__(self, folder: Path, events: EventWriter, options: argparse.Namespace) -> None:
        self._folder, self._events, self._options = folder, events, options

    def at(self, stage: str) -> bool:
        """Return whether a stop was asked for."""
        if self._options.hold != stage:
            return False
        (self._folder / 'holds').write_text(stage, encoding='utf-8')
        while not (self._folder / 'go').exists():
            if (self._folder / 'control' / 'stop').exists() and not self._options.ignore_stop:
                return True
            self._events.write(Heartbeat())
            time.sleep(0.02)
        return False


def save(folder: Path, events: EventWriter, options: argparse.Namespace) -> bool:
    """A checkpoint as the real trainer writes it: aside, then moved into its place whole."""
    partial, whole = folder / 'checkpoints' / '.step-2.partial', folder / 'checkpoints' / 'step-2'
    partial.mkdir(parents=True, exist_ok=True)
    (partial / 'weights').write_bytes(b'half')
    asked = Hold(folder, events, options).at('saving')
    (partial / 'weights').write_bytes(b'whole')
    if not whole.exists():
        partial.rename(whole)
        events.write(Artifact(kind='checkpoint', path='checkpoints/step-2'))
    return asked


def leave(folder: Path, events: EventWriter, end: str) -> None:
    kind, _, number = end.partition(':')
    if kind == 'finished':
        (folder / 'adapter').mkdir(exist_ok=True)
        (folder / 'adapter' / 'adapter_model.safetensors').write_bytes(b'weights')
        (folder / 'adapter' / 'adapter_config.json').write_text('{}', encoding='utf-8')
        events.write(Artifact(kind='adapter', path='adapter'))
        events.write(State(state='finished'))
    elif kind == 'exit':
        os._exit(int(number))
    elif kind == 'signal':
        os.kill(os.getpid(), int(number))
        time.sleep(60)


def write_rollout(folder: Path, events: EventWriter, step: int, index: int) -> None:
    from trainer.manifest import read_manifest
    from trainer.recording import Rollout
    from trainer.verdict import Verdict

    tasks = read_manifest(folder / 'manifest.jsonl')
    task = tasks[(step + index) % len(tasks)].id
    reward = None if index == 3 else float(index % 2)
    verdict = Verdict.not_scored('no checker') if reward is None else Verdict.scored(reward)
    record = Rollout(step=step, task=task, index=index, prompt='Do {"it"}', verdict=verdict)
    with (folder / 'rollouts.jsonl').open('ab') as file:
        offset = file.tell()
        file.write(record.model_dump_json().encode() + b'\n')
    events.write(RolloutEvent(step=step, task=task, index=index, outcome=verdict.outcome, reward=reward, offset=offset))


def start_children(folder: Path) -> None:
    deaf = 'import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)'
    other = f'import subprocess, sys; subprocess.Popen([sys.executable, "-c", {deaf!r}], start_new_session=True)'
    with (folder / 'children.txt').open('w', encoding='utf-8') as file:
        subprocess.Popen([sys.executable, '-c', deaf], stdout=file)
        subprocess.run([sys.executable, '-c', other], stdout=file, check=True)


if __name__ == '__main__':
    main()
