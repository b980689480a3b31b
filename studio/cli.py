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
    manifest: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, help='Tasks to train on, JSONL.')
    ] = None,
    model: Annotated[str, typer.Option(help='starter, an id of `rlvr models list`, a folder or owner/name.')] = '',
    out: Annotated[Path | None, typer.Option(file_okay=False, help='New folder for the run.')] = None,
    config: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help='JSON: config.rl or more.')] = None,
    held_out: Annotated[
        Path | None, typer.Option('--eval', exists=True, dir_okay=False, help='Held-out tasks, JSONL.')
    ] = None,
    demonstrations: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help='Chats with tool calls for a cold start, JSONL.')
    ] = None,
    only_cold_start: Annotated[
        bool, typer.Option('--only-cold-start', help='Learn from demonstrations alone, not from rewards.')
    ] = False,
    name: Annotated[str, typer.Option(help='Name of the run.')] = '',
    resume: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help='Folder of a run to go on with.')
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help='With --resume: raise the number of steps.')] = None,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Train a model on tasks in the foreground; Ctrl-C stops and keeps what was learned."""
    from studio.commands import training

    if resume is not None:
        if manifest or model or out or config or held_out or demonstrations:
            raise typer.BadParameter('a run goes on with its own tasks and settings: only --steps fits --resume')
        raise typer.Exit(training.resume(resume, steps=steps, as_json=json))
    if manifest is None or not model or out is None:
        raise typer.BadParameter('name the tasks, --model and --out; or --resume and the folder of a run')
    if steps is not None:
        raise typer.BadParameter('--steps fits --resume; a new run takes maxSteps from --config')
    raise typer.Exit(
        training.train(
            manifest,
            model=model,
            out=out,
            config=config,
            held_out=held_out,
            demonstrations=demonstrations,
            only_cold_start=only_cold_start,
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


@models_app.command('check')
def models_check(
    model: Annotated[str, typer.Argument(help='An id of `rlvr models list`, a folder or owner/name.')],
    json: Json = False,
) -> None:
    """Say whether a model can be trained on tools, from its tokenizer alone; exit 1 when it cannot."""
    from studio.commands.machine import models_check

    raise typer.Exit(models_check(model, as_json=json))


@tasks_app.command('list')
def tasks_list(
    search: Annotated[str, typer.Option(help='Words that must occur.')] = '', home: Home = None, json: Json = False
) -> None:
    """List the tasks of the studio."""
    from studio.commands.tasks import tasks_list

    tasks_list(search, home=home, as_json=json)


@tasks_app.command('import')
def tasks_import(
    files: Annotated[list[Path], typer.Argument(metavar='FILE|FOLDER...', exists=True)],
    format: Annotated[
        str, typer.Option(help='auto recognises each part; or jsonl, harbor, openai, doc-create.')
    ] = 'auto',
    conflicts: Annotated[
        str, typer.Option(help='A task that is here and differs: keep it, add a version, or add a copy.')
    ] = 'keep',
    publish: Annotated[bool, typer.Option('--publish', help='Publish them at once.')] = False,
    dry_run: Annotated[bool, typer.Option('--dry-run', help='Only say what each row would become.')] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Add tasks to the studio; what is there already is left alone. Exit 2 when a row was refused."""
    from studio.commands.tasks import tasks_import

    raise typer.Exit(
        tasks_import(
            files, format=format, conflicts=conflicts, publish=publish, dry_run=dry_run, home=home, as_json=json
        )
    )


@tasks_app.command('export')
def tasks_export(
    ids: Annotated[list[str] | None, typer.Argument(metavar='[ID]...', help='Default: all.')] = None,
    format: Annotated[str, typer.Option(help='jsonl, harbor, task_spec or doc-create.')] = 'jsonl',
    out: Annotated[Path | None, typer.Option(dir_okay=False, help='Default: stdout.')] = None,
    home: Home = None,
) -> None:
    """Write the latest versions of tasks."""
    from studio.commands.tasks import tasks_export

    tasks_export(ids or None, format=format, out=out, home=home)


@tasks_app.command('variants')
def tasks_variants(
    task: TaskPath,
    table: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help='CSV, TSV or JSONL with a column for each {name}.')
    ] = None,
    ranges: Annotated[
        list[str] | None, typer.Option('--set', metavar='NAME=VALUES', help='As in n=1..20 or city=Oslo,Rome.')
    ] = None,
    in_step: Annotated[bool, typer.Option('--in-step', help='Combine --set in step; else every combination.')] = False,
    keep: Annotated[list[str] | None, typer.Option(metavar='NAME', help='A {NAME} that is text.')] = None,
    title: Annotated[str, typer.Option(help='Title of each, with {names}.')] = '',
    out: Annotated[Path | None, typer.Option(dir_okay=False, help='Default: stdout.')] = None,
    prove: Annotated[bool, typer.Option('--certify', help='Write only those that are certified.')] = False,
    line: Line = None,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Make many tasks of one with {placeholders}, as JSONL. Exit 2 when a row was refused, 1 when one is not proven."""
    from studio.commands.variants import tasks_variants

    raise typer.Exit(
        tasks_variants(
            task,
            table=table,
            ranges=ranges or [],
            in_step=in_step,
            kept=keep or [],
            title=title,
            out=out,
            prove=prove,
            line=line,
            unsafe=unsafe_sandbox,
            as_json=json,
        )
    )


def _explain(error: RlvrError) -> None:
    typer.secho(f'Error: {error.message}', err=True, fg='red')
    if isinstance(error, FieldsError):
        for field in error.fields[:20]:
            if field.msg != error.message:
                typer.echo(f'  {field.loc}: {field.msg}' if field.loc else f'  {field.msg}', err=True)
    if error.hint:
        typer.echo(error.hint, err=True)
