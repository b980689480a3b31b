"""``rlvr train`` and ``evaluate``: the same trainer as the studio's, in the foreground.

The trainer runs in a session of its own, so Ctrl-C reaches only this program, which asks for a stop and waits: a second
Ctrl-C ends the trainer at once.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer

from studio.cli.commands.output import isolation, print_json, print_table, say, say_error, say_notes, settings
from studio.cli.commands.progress import Display, run_counted
from studio.launchers.local import LocalLauncher, child_environment
from studio.store.ids import new_id
from trainer.config import ColdStart, RunConfig, Settings, parse_settings, resolve
from trainer.demonstrations import read_demonstrations
from trainer.errors import ConfigError
from trainer.events import AnyEvent, RunState, State, read_events
from trainer.manifest import read_manifest
from trainer.models import find_model
from trainer.runfolder import STOP, Claim, RunFolder, state_of
from trainer.task import TaskFile

EXIT_CODES: Final[dict[RunState, int]] = {'finished': 0, 'stopped': 130}
POLL_S: Final = 0.2
EXIT_S: Final = 3.0


def train(
    manifest: Path,
    *,
    model: str,
    out: Path,
    config: Path | None,
    held_out: Path | None,
    name: str,
    unsafe: bool,
    as_json: bool,
    demonstrations: Path | None = None,
    only_cold_start: bool = False,
) -> int:
    """Train to the end; 0 finished, 1 failed, 130 stopped."""
    tasks = read_manifest(manifest)
    measured = _held_out(held_out)
    chats = read_demonstrations(demonstrations) if demonstrations else ()
    parsed = _settings(config, rewards=not only_cold_start)
    if chats and parsed.cold_start is None:
        parsed = parsed.model_copy(update={'cold_start': ColdStart()})
    run = RunConfig(
        id=new_id(),
        name=name or out.name,
        created_at=datetime.now(UTC),
        training_type='conversationalTraining' if only_cold_start else 'grpoTraining',
        rlvr=not only_cold_start,
        model=model,
        settings=parsed,
        isolation=isolation(unsafe=unsafe),
        home=str(settings().home.resolve()),
        lineage={'manifest': manifest.name},
    )
    _, plan = resolve(run, len(tasks))
    say_notes(plan.notes)
    if shared := {task.hash for task in tasks} & {task.hash for task in measured}:
        say(f'Note: {len(shared)} held-out tasks are trained on too: success there proves little')
    folder = RunFolder.create(out, run, tasks, measured, chats)
    if only_cold_start:
        say(f'{len(tasks)} tasks, learned from demonstrations, in {folder.path}')
    else:
        say(f'{len(tasks)} tasks, {plan.steps} steps of {plan.rollouts_per_step} attempts, in {folder.path}')
    return _run(folder, as_json=as_json)


def resume(path: Path, *, steps: int | None, as_json: bool) -> int:
    """Go on with a run that ended, from its last checkpoint; ``steps`` raises its step count."""
    folder = RunFolder(path)
    folder.reopen(steps=steps)
    say(f'Going on in {folder.path}')
    return _run(folder, as_json=as_json)


def _run(folder: RunFolder, *, as_json: bool) -> int:
    """Launch the trainer, follow it to its end and say how it went."""
    state, reason = _follow(folder, LocalLauncher())
    if state == 'failed' or state == 'interrupted':
        say('\n'.join(folder.log_tail(20)))
        say_error(f'The run {state}: {reason}', as_json=as_json)
    elif state == 'finished' and reason:
        say(reason[:1].upper() + reason[1:])
    summary = _summary(folder, state)
    if as_json:
        print_json(summary)
    else:
        _show(summary, folder)
    return EXIT_CODES.get(state, 1)


def evaluate(manifest: Path, *, model: str, adapter: Path | None, k: int, unsafe: bool, as_json: bool) -> int:
    """Attempt every task k times; 0 when that was possible."""
    find_model(model)
    read_manifest(manifest)
    with tempfile.TemporaryDirectory(prefix='rlvr-evaluate-') as folder:
        out = Path(folder) / 'evaluation.json'
        command = [sys.executable, '-m', 'trainer.evaluate', '--manifest', str(manifest), '--model', model]
        command += ['--adapter', str(adapter)] if adapter else []
        command += ['-k', str(k), '--home', str(settings().home.resolve()), '--isolation', isolation(unsafe=unsafe)]
        command += [part for line in settings().packages for part in ('--package', line)]
        code = run_counted([*command, '--out', str(out)], 'Evaluating', environment=child_environment(os.environ))
        if code != 0 or not out.exists():
            say_error(f'The evaluation failed (exit code {code})', as_json=as_json)
            return 130 if code == -signal.SIGINT else 1
        result = json.loads(out.read_text(encoding='utf-8'))
    if as_json:
        print_json({key: result[key] for key in ('mean', 'low', 'high', 'tasks')})
        return 0
    print_table(
        ['task', 'solved', 'of', 'errors', '95 %'],
        [
            (
                task['title'] or task['id'],
                str(task['solved']),
                str(task['attempts']),
                str(task['errors']),
                _interval(task),
            )
            for task in result['tasks']
        ],
    )
    typer.echo(f'Success {_percent(result["mean"])}, between {_interval(result)}')
    return 0


class _Stop:
    """Counts requests to stop: the first asks, the second ends."""

    def __init__(self, folder: RunFolder, launcher: LocalLauncher, claim: Claim) -> None:
        self._folder, self._launcher, self._claim = folder, launcher, claim
        self.asked = 0

    def __call__(self, *_: object) -> None:
        self.asked += 1
        if self.asked == 1:
            self._folder.request(STOP)
            say('\nStopping after this step; press Ctrl-C again to end at once')
        else:
            self._launcher.end(self._claim)


def _follow(folder: RunFolder, launcher: LocalLauncher) -> tuple[RunState, str]:
    """Launch the trainer and show what it writes until it has ended; return how."""
    # What an earlier process wrote has been shown.
    start = folder.events.stat().st_size if folder.events.exists() else 0
    claim = launcher.start(folder)
    stop = _Stop(folder, launcher, claim)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    states: list[AnyEvent] = []
    offset = start
    gone = 0.0
    with Display() as display:
        while True:
            alive = claim.alive
            events, offset = read_events(folder.events, offset)
            for event in events:
                display.show(event)
            states += [event for event in events if isinstance(event, State)]
            if not alive and not events:
                gone = gone or time.monotonic()
                if folder.exit() is not None or time.monotonic() - gone > EXIT_S:
                    break
            if not events:
                time.sleep(POLL_S)
    launcher.end(claim)
    state, reason = state_of(states, folder.exit(), claim)
    ended = folder.exit()
    if stop.asked and state in ('failed', 'interrupted') and (ended is None or ended.signal is not None):
        return 'stopped', 'stopped by the user'
    return state, reason


def _settings(path: Path | None, *, rewards: bool) -> Settings:
    """Settings of a file, learning from rewards switched on or off. Raises ``ConfigError``."""
    data: Any = {}
    if path is not None:
        try:
            data = json.loads(path.read_text(encoding='utf-8-sig'))
        except ValueError as error:
            raise ConfigError(f'{path} is no JSON: {error}') from None
    parsed, notes = parse_settings(data)
    say_notes(notes)
    return parsed.model_copy(update={'rl': parsed.rl.model_copy(update={'enabled': rewards})})


def _held_out(path: Path | None) -> Sequence[TaskFile]:
    """Held-out tasks; those without an id of their own get one that no training task has."""
    if path is None:
        return ()
    return [
        task.model_copy(update={'id': f'held-out-{number}'}) if re.fullmatch(r'task-\d+', task.id) else task
        for number, task in enumerate(read_manifest(path), start=1)
    ]


def _summary(folder: RunFolder, state: RunState) -> dict[str, Any]:
    path = folder.summary
    written = json.loads(path.read_text(encoding='utf-8')) if path.exists() else {}
    summary = dict.fromkeys(('state', 'steps', 'before', 'after', 'adapter')) | written
    return summary | {'state': state}


def _show(summary: dict[str, Any], folder: RunFolder) -> None:
    typer.echo(f'{summary["state"]} after {summary["steps"] or 0} steps')
    for stage in ('before', 'after'):
        if summary[stage] is not None:
            typer.echo(f'Held-out success {stage} training: {_percent(summary[stage])}')
    typer.echo(f'Adapter: {summary["adapter"]}' if summary['adapter'] else f'No adapter; the log is {folder.log}')


def _percent(share: float | None) -> str:
    return 'unknown' if share is None else f'{share:.1%}'


def _interval(row: dict[str, Any]) -> str:
    return f'{_percent(row["low"])} and {_percent(row["high"])}'
