"""The ``rlvr`` command: every subcommand's options; what each does is in ``studio.commands``, imported when it is used.

Results go to stdout (as one JSON value with ``--json``), everything else to stderr. Exit codes: 0 done, 1 the answer is
no or the work failed, 2 bad input, 3 graded with outcome ``error``, 4 refused for want of isolation, 130 stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trainer.errors import FieldsError, RlvrError, SandboxUnavailable

app = typer.Typer(
    name='rlvr',
    help='Write RL tasks with verifiable rewards, prove their checkers, train a small model on them.',
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={'help_option_names': ['-h', '--help']},
)
tasks_app = typer.Typer(help='The tasks of the studio: list, import, export.', no_args_is_help=True)
models_app = typer.Typer(help='Models a run may start from.', no_args_is_help=True)
sandbox_app = typer.Typer(help='The isolation of model-written code.', no_args_is_help=True)
app.add_typer(tasks_app, name='tasks')
app.add_typer(models_app, name='models')
app.add_typer(sandbox_app, name='sandbox')

Json = Annotated[bool, typer.Option('--json', help='Print one JSON value to stdout.')]
Unsafe = Annotated[bool, typer.Option('--unsafe-sandbox', help='Run model-written code without isolation.')]
TaskPath = Annotated[Path, typer.Argument(metavar='TASK', exists=True, dir_okay=False, help='A task file.')]
Line = Annotated[int | None, typer.Option(min=1, help='Line of the task, in a file with several.')]
Home = Annotated[Path | None, typer.Option(file_okay=False, help='Data folder (RLVR_HOME).')]


def main() -> None:
    """Run the command line; the entry point of ``rlvr``."""
    try:
        app()
    except RlvrError as error:
        _explain(error)
        sys.exit(4 if isinstance(error, SandboxUnavailable) else 2)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option('--version', help='Print the version.')] = False,
) -> None:
    """Open the studio, or run a command."""
    if version:
        from trainer import __version__

        typer.echo(__version__)
    elif context.invoked_subcommand is None:
        studio()


@app.command()
def studio(
    host: Annotated[str | None, typer.Option(help='Address to listen on.')] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535)] = None,
    home: Home = None,
    open_browser: Annotated[bool | None, typer.Option('--open/--no-open', help='Open a browser window.')] = None,
    native: Annotated[bool | None, typer.Option('--native', help='Show it in a window of its own.')] = None,
    unsafe_sandbox: Annotated[
        bool | None, typer.Option('--unsafe-sandbox', help='Run model-written code without isolation.')
    ] = None,
) -> None:
    """Open the studio in a browser."""
    from studio.app import run
    from studio.commands.output import settings

    run(
        settings(
            host=host, port=port, home=home, open_browser=open_browser, native=native, unsafe_sandbox=unsafe_sandbox
        )
    )


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(metavar='FILE...', help='JSON or JSONL files of tasks.')],
    json: Json = False,
) -> None:
    """Check task files; exit 2 when one is not valid."""
    from studio.commands.grading import validate

    raise typer.Exit(validate(files, as_json=json))


@app.command()
def check(
    task: TaskPath,
    workspace: Annotated[Path, typer.Option(exists=True, file_okay=False, help='Folder to grade a copy of.')],
    line: Line = None,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Grade a folder as the final workspace of a task; setup is not run. Exit 3 when the outcome is an error."""
    from studio.commands.grading import check

    raise typer.Exit(check(task, workspace, line=line, unsafe=unsafe_sandbox, as_json=json))


@app.command()
def attempt(
    task: TaskPath,
    solution: Annotated[
        str, typer.Option(metavar='STEPS.json|KIND', help='A file of steps, or reference, alternative, wrong.')
    ] = '',
    line: Line = None,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Replay a solution in a fresh sandbox and grade it; without one, grade the untouched workspace."""
    from studio.commands.grading import attempt

    raise typer.Exit(attempt(task, solution, line=line, unsafe=unsafe_sandbox, as_json=json))


@app.command()
def certify(
    task: TaskPath,
    repeats: Annotated[int, typer.Option(min=1, max=100, help='How often the reference is graded.')] = 5,
    solution: Annotated[
        str, typer.Option(metavar='STEPS.json|KIND', help='What to take for the reference solution.')
    ] = '',
    thorough: Annotated[bool, typer.Option('--thorough', help='Try every known attack.')] = False,
    line: Line = None,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Prove that a task's checker cannot be fooled; exit 1 when it is not proven."""
    from studio.commands.certify import certify_task

    raise typer.Exit(
        certify_task(task, solution, repeats=repeats, thorough=thorough, line=line, unsafe=unsafe_sandbox, as_json=json)
    )


@app.command()
def train(
    manifest: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help='Tasks to train on, JSONL.')],
    model: Annotated[str, typer.Option(help='starter, an id of `rlvr models list`, a folder or owner/name.')],
    out: Annotated[Path, typer.Option(file_okay=False, help='New folder for the run.')],
    config: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help='JSON: config.rl or more.')] = None,
    held_out: Annotated[
        Path | None, typer.Option('--eval', exists=True, dir_okay=False, help='Held-out tasks, JSONL.')
    ] = None,
    name: Annotated[str, typer.Option(help='Name of the run.')] = '',
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Train a model on tasks in the foreground; Ctrl-C stops and keeps what was learned."""
    from studio.commands.training import train

    raise typer.Exit(
        train(
            manifest,
            model=model,
            out=out,
            config=config,
            held_out=held_out,
            name=name,
            unsafe=unsafe_sandbox,
            as_json=json,
        )
    )


@app.command()
def evaluate(
    manifest: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help='Tasks to attempt, JSONL.')],
    model: Annotated[str, typer.Option(help='starter, an id of `rlvr models list`, a folder or owner/name.')],
    adapter: Annotated[Path | None, typer.Option(exists=True, file_okay=False, help='Folder of an adapter.')] = None,
    attempts: Annotated[int, typer.Option('-k', min=1, max=1000, help='Attempts per task.')] = 4,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Attempt every task k times and report pass rates with 95 % intervals."""
    from studio.commands.training import evaluate

    raise typer.Exit(evaluate(manifest, model=model, adapter=adapter, k=attempts, unsafe=unsafe_sandbox, as_json=json))


@app.command()
def doctor(json: Json = False) -> None:
    """Say what is missing on this machine and how to get it; exit 1 when something needed is."""
    from studio.commands.machine import doctor

    raise typer.Exit(doctor(as_json=json))


@sandbox_app.command('probe')
def sandbox_probe(
    unsafe_sandbox: Unsafe = False,
    isolation: Annotated[
        str, typer.Option(help='Kind: bubblewrap, landlock (weaker) or unsafe (none); without it, the one in force.')
    ] = '',
    json: Json = False,
) -> None:
    """Attack a sandbox and say what isolation is in force; exit 1 when it does not hold."""
    from studio.commands.machine import sandbox_probe

    raise typer.Exit(sandbox_probe('unsafe' if unsafe_sandbox else isolation, as_json=json))


@models_app.command('list')
def models_list(json: Json = False) -> None:
    """List the bundled, local and eligible models."""
    from studio.commands.machine import models_list

    models_list(as_json=json)


@tasks_app.command('list')
def tasks_list(
    search: Annotated[str, typer.Option(help='Words that must occur.')] = '', home: Home = None, json: Json = False
) -> None:
    """List the tasks of the studio."""
    from studio.commands.tasks import tasks_list

    tasks_list(search, home=home, as_json=json)


@tasks_app.command('import')
def tasks_import(
    files: Annotated[list[Path], typer.Argument(metavar='FILE...', exists=True, dir_okay=False)],
    format: Annotated[str, typer.Option(help='jsonl')] = 'jsonl',
    publish: Annotated[bool, typer.Option('--publish', help='Publish them at once.')] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Add tasks to the studio; what is there already is left alone. Exit 2 when a line was refused."""
    from studio.commands.tasks import tasks_import

    raise typer.Exit(tasks_import(files, format=format, publish=publish, home=home, as_json=json))


@tasks_app.command('export')
def tasks_export(
    ids: Annotated[list[str] | None, typer.Argument(metavar='[ID]...', help='Default: all.')] = None,
    format: Annotated[str, typer.Option(help='jsonl')] = 'jsonl',
    out: Annotated[Path | None, typer.Option(dir_okay=False, help='Default: stdout.')] = None,
    home: Home = None,
) -> None:
    """Write the latest versions of tasks as JSONL."""
    from studio.commands.tasks import tasks_export

    tasks_export(ids or None, format=format, out=out, home=home)


def _explain(error: RlvrError) -> None:
    typer.secho(f'Error: {error.message}', err=True, fg='red')
    if isinstance(error, FieldsError):
        for field in error.fields[:20]:
            if field.msg != error.message:
                typer.echo(f'  {field.loc}: {field.msg}' if field.loc else f'  {field.msg}', err=True)
    if error.hint:
        typer.echo(error.hint, err=True)
