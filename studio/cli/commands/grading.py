"""``rlvr validate``, ``check``, ``attempt``: is a task valid, what is a workspace worth, what does a solution earn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import typer

from studio.cli.commands.output import isolation, one_task, print_json, say, settings
from trainer.errors import FieldError, TaskError
from trainer.manifest import parse_tasks
from trainer.task import Solution, SolutionKind, TaskFile
from trainer.validation import Invalid
from trainer.validation import validate as validate_model

if TYPE_CHECKING:
    from trainer.verdict import Verdict


def validate(files: Sequence[Path], *, as_json: bool) -> int:
    """Say of every task of every file whether it is valid; 0 when all are, else 2."""
    rows = [row for file in files for row in _rows(file)]
    if as_json:
        print_json(rows)
    for row in () if as_json else rows:
        typer.echo(f'{row["file"]}:{row["line"]}: ' + ('ok' if row['ok'] else 'not valid'))
        for error in row['errors']:
            typer.echo(f'    {error["loc"]}: {error["msg"]}' if error['loc'] else f'    {error["msg"]}')
    return 0 if all(row['ok'] for row in rows) else 2


def check(task: Path, workspace: Path, *, line: int | None, unsafe: bool, as_json: bool) -> int:
    """Grade a copy of a folder; 3 when the outcome is an error."""
    from trainer.checkers.grading import grade

    spec = one_task(task, line).task_spec
    verdict = grade(
        spec.checker,
        spec.setup_files,
        workspace,
        home=settings().home,
        isolation=isolation(unsafe=unsafe),
        environment=settings().python(say),
    )
    if as_json:
        print_json(verdict.model_dump(mode='json'))
    else:
        _show(verdict)
    return 3 if verdict.outcome == 'error' else 0


def attempt(task: Path, solution: str, *, line: int | None, unsafe: bool, as_json: bool) -> int:
    """Replay a solution and grade the result; 3 when the outcome is an error."""
    from trainer.attempt import StepRecord, attempt

    file = one_task(task, line)
    chosen = chosen_solution(file, solution)

    def show(step: StepRecord) -> None:
        say(f'{step.tool} {json.dumps(step.args, ensure_ascii=False)}')
        say('    ' + step.result.rstrip('\n').replace('\n', '\n    '))

    done = attempt(
        file.task_spec,
        chosen if chosen is not None else (),
        home=settings().home,
        isolation=isolation(unsafe=unsafe),
        environment=settings().python(say),
        on_step=None if as_json else show,
    )
    if as_json:
        print_json(done.model_dump(mode='json'))
    else:
        _show(done.verdict)
    return 3 if done.verdict.outcome == 'error' else 0


def _rows(file: Path) -> list[dict[str, Any]]:
    try:
        parsed = list(parse_tasks(file))
    except OSError as error:
        return [_row(file, 1, [FieldError(loc='', msg=f'Cannot be read: {error.strerror}')])]
    if not parsed:
        return [_row(file, 1, [FieldError(loc='', msg='Holds no task')])]
    return [_row(file, line, task.fields if isinstance(task, TaskError) else ()) for line, task in parsed]


def _row(file: Path, line: int, errors: Sequence[FieldError]) -> dict[str, Any]:
    return {'file': str(file), 'line': line, 'ok': not errors, 'errors': [error.model_dump() for error in errors]}


def chosen_solution(task: TaskFile, name: str) -> Solution | None:
    """The solution of that kind, or the one in that file: steps, or a whole solution. Raises ``TaskError``."""
    if not name:
        return None
    if name in get_args(SolutionKind):
        found = next((solution for solution in task.solutions if solution.kind == name), None)
        if found is None:
            kinds = ', '.join(dict.fromkeys(solution.kind for solution in task.solutions)) or 'none'
            raise TaskError(f'The task has no {name} solution (it has: {kinds})', hint='Name a file of steps instead.')
        return found
    try:
        data = json.loads(Path(name).read_text(encoding='utf-8-sig'))
    except OSError as error:
        raise TaskError(f'{name} cannot be read: {error.strerror}') from None
    except ValueError as error:
        raise TaskError(f'{name} is no JSON: {error}') from None
    try:
        return validate_model(Solution, {'kind': 'reference', 'steps': data} if isinstance(data, list) else data)[0]
    except Invalid as invalid:
        raise TaskError(f'{name} holds no solution', invalid.fields) from None


def _show(verdict: Verdict) -> None:
    colour = {'passed': 'green', 'partial': 'yellow', 'failed': 'red', 'error': 'magenta'}[verdict.outcome]
    reward = 'no reward' if verdict.reward is None else f'reward {verdict.reward:g}'
    typer.secho(f'{verdict.outcome}: {reward}', fg=colour, nl=False)
    typer.echo(f', {verdict.reason}' if verdict.reason else '')
    for item in verdict.items:
        typer.echo(f'  {"ok" if item.passed else "no"}  {item.name}' + (f'  ({item.detail})' if item.detail else ''))
    if verdict.output.strip():
        typer.echo(verdict.output.rstrip())
