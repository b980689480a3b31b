"""``rlvr regrade``: the final workspaces of a run graded again, and which verdicts flip."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress

from studio.cli.commands.output import isolation, print_json, print_table, say, settings
from trainer.errors import FieldError, RunFolderError, TaskError
from trainer.kept_workspaces import KeptWorkspace, WorkspaceFolder
from trainer.manifest import parse_tasks
from trainer.regrade import CHANGES, Change, Ground, Regraded, counted, obstacle, recorded
from trainer.regrade import regrade as grade_again
from trainer.runfolder import RunFolder
from trainer.sandbox import SandboxScope
from trainer.sandbox.python_env import package_environment
from trainer.task import TaskFile, TaskSpec

WORDS: dict[Change, str] = {
    'pass_to_fail': 'passed, now fail',
    'fail_to_pass': 'failed, now pass',
    'scored_to_error': 'scored, is an error now',
    'error_to_scored': 'an error, is scored now',
    'reward_changed': 'another reward',
    'not_graded': 'not graded',
    'unchanged': 'unchanged',
}


def regrade(path: Path, *, task: str, checker: Path | None, unsafe: bool, as_json: bool) -> int:
    """Grade again; 3 when an outcome is an error, 1 when nothing could be graded, 130 when it was stopped."""
    run = RunFolder(path)
    config = run.config()
    try:
        frozen = {one.id: one for one in (*run.tasks(), *run.held_out_tasks())}
    except OSError as error:
        raise RunFolderError(f'The tasks of {path} cannot be read: {error.strerror or error}') from None
    if task and task not in frozen:
        raise TaskError(f'The run has no task {task}', [FieldError(loc='--task', msg=f'Choose one of {_some(frozen)}')])
    specs = _specs(frozen, task, checker)
    episodes = {
        at: event for at, event in recorded(run).items() if event.task in specs and (not task or event.task == task)
    }
    kept = [one for one in WorkspaceFolder(path).all() if one.offset in episodes]
    missing = len(episodes) - len(kept)
    results: list[Regraded] = []
    stopped = False
    if kept:
        home = settings().home
        environment = package_environment(home, config.settings.rl.pip_packages, report=say)
        ground = Ground(home, isolation(unsafe=unsafe), environment)
        stopped = _grade(run, kept, specs, ground, results, quiet=as_json)
    _report(results, missing, as_json=as_json)
    if stopped:
        return 130
    if not any(one.after for one in results):
        return 1
    return 3 if any(one.after and one.after.outcome == 'error' for one in results) else 0


def _specs(frozen: Mapping[str, TaskFile], task: str, checker: Path | None) -> dict[str, TaskSpec | str]:
    """The spec to grade each task with. Raises ``TaskError`` where the file has none that fits."""
    if checker is None:
        return {id: one.task_spec for id, one in frozen.items()}
    given = [_good(checker, line, one) for line, one in parse_tasks(checker)]
    named = {one.id: one.task_spec for one in given if one.id in frozen}
    if len(given) == 1 and not named:
        id = task or (next(iter(frozen)) if len(frozen) == 1 else '')
        named = {id: given[0].task_spec} if id else {}
    if not named or (task and task not in named):
        raise TaskError(
            f'{checker} has no task of this run', hint=f'Say which it is for: --task ID, one of {_some(frozen)}.'
        )
    return {id: obstacle(frozen[id].task_spec, spec) or spec for id, spec in named.items()}


def _good(path: Path, line: int, task: TaskFile | TaskError) -> TaskFile:
    if isinstance(task, TaskError):
        raise TaskError(f'{path}, line {line}, is no valid task', task.fields)
    return task


def _grade(
    run: RunFolder,
    kept: Sequence[KeptWorkspace],
    specs: Mapping[str, TaskSpec | str],
    ground: Ground,
    results: list[Regraded],
    *,
    quiet: bool,
) -> bool:
    """Grade with a bar on stderr; whether it was stopped by Ctrl-C, which keeps what was graded by then."""
    scope = SandboxScope()
    before = signal.signal(signal.SIGINT, lambda *_: scope.end())
    try:
        with Progress(console=Console(stderr=True), disable=quiet) as bar:
            row = bar.add_task('Grading again', total=len(kept))

            def show(result: Regraded) -> None:
                results.append(result)
                bar.advance(row)

            grade_again(run, kept, specs, ground, on_result=show, scope=scope)
    finally:
        signal.signal(signal.SIGINT, before)
    return scope.ended


def _report(results: Sequence[Regraded], missing: int, *, as_json: bool) -> None:
    ordered = sorted(results, key=lambda one: (CHANGES.index(one.change), one.step, one.offset))
    counts = counted(results)
    if as_json:
        print_json({'counts': counts, 'not_kept': missing, 'rollouts': [_plain(one) for one in ordered]})
        return
    if not results:
        say('No final workspace of these rollouts is kept: see keepWorkspacesMb', error=True)
        return
    shown = [one for one in ordered if one.change != 'unchanged']
    if shown:
        print_table(
            ['step', 'from', 'task', 'attempt', 'before', 'after', 'why'],
            [
                (
                    str(one.step),
                    one.stage,
                    one.title or one.task,
                    str(one.index + 1),
                    _score(one.before.reward),
                    _score(one.after.reward) if one.after else 'not graded',
                    one.after.reason if one.after else one.why_not,
                )
                for one in shown
            ],
        )
    said = [f'{count} {WORDS[change]}' for change, count in counts.items() if count]
    typer.echo(', '.join([*said, f'{missing} not kept'] if missing else said))


def _plain(one: Regraded) -> dict[str, Any]:
    fields = one.model_dump(
        mode='json', include={'step', 'stage', 'task', 'title', 'group', 'index', 'before', 'after'}
    )
    return {**fields, 'change': one.change, 'why_not': one.why_not}


def _score(reward: float | None) -> str:
    return 'error' if reward is None else f'{reward:.2f}'


def _some(frozen: Mapping[str, TaskFile]) -> str:
    names = list(frozen)
    return ', '.join(names[:5]) + (f' and {len(names) - 5} more' if len(names) > 5 else '')
