"""The ``rlvr`` command: every subcommand's options; what each does is in ``commands``, imported when it is used.

Results go to stdout (as one JSON value with ``--json``), everything else to stderr, where an error is one JSON object
with ``--json``: ``{"error", "hint", "fields": [{"loc", "msg"}]}``. Exit codes: 0 done, 1 the answer is no or the work
failed, 2 bad input, 3 graded with outcome ``error``, 4 refused for want of isolation, 130 stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, cast

import typer

from studio.cli.adapters import adapters_app
from studio.cli.keys import keys_app
from studio.cli.machine import EXAMPLES as DOCTOR_EXAMPLES
from studio.cli.machine import doctor, models_app, sandbox_app
from studio.cli.options import (
    Home,
    Json,
    Line,
    Model,
    TaskPath,
    Unsafe,
    dtypes,
    examples,
    files,
    models,
    solutions,
)
from studio.cli.regrade import EXAMPLES as REGRADE_EXAMPLES
from studio.cli.regrade import regrade
from studio.cli.runs import runs_app
from studio.cli.tasks import tasks_app
from trainer.errors import CheckerError, FieldsError, GenerationError, RlvrError, SandboxError, SandboxUnavailable

# Errors in the command line itself; their common base has no public name.
USAGE = cast('type[Exception]', typer.BadParameter.__mro__[1])

app = typer.Typer(
    name='rlvr',
    help='Write RL tasks with verifiable rewards, prove their checkers, train a small model on them.',
    pretty_exceptions_enable=False,
    context_settings={'help_option_names': ['-h', '--help']},
    epilog=examples(
        'rlvr studio',
        'rlvr certify task.json',
        'rlvr train tasks.jsonl --model starter --out my-run',
        'rlvr --install-completion',
    ),
)
app.add_typer(tasks_app, name='tasks')
app.add_typer(adapters_app, name='adapters')
app.add_typer(runs_app, name='runs')
app.add_typer(models_app, name='models')
app.add_typer(sandbox_app, name='sandbox')
app.add_typer(keys_app, name='keys')


def main() -> None:
    """Run the command line; the entry point of ``rlvr``."""
    as_json = '--json' in sys.argv[1:]
    try:
        code = app(standalone_mode=not as_json)
    except RlvrError as error:
        code = _failed(error, as_json=as_json)
    except USAGE as error:
        code = _misused(error)
    sys.exit(code if isinstance(code, int) else 0)


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


@app.command(epilog=examples('rlvr studio --port 9000 --no-open', 'rlvr studio --home ~/experiments --native'))
def studio(
    host: Annotated[str | None, typer.Option(help='Address to listen on; only this machine reaches 127.0.0.1.')] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help='Port to listen on; 8080 if not named.')] = None,
    home: Home = None,
    open_browser: Annotated[bool | None, typer.Option('--open/--no-open', help='Open a browser window.')] = None,
    native: Annotated[bool | None, typer.Option('--native', help='Show it in a window of its own.')] = None,
    unsafe_sandbox: Annotated[
        bool | None, typer.Option('--unsafe-sandbox', help='Run model-written code without isolation.')
    ] = None,
) -> None:
    """Open the studio in a browser."""
    from studio.app import run
    from studio.cli.commands.output import settings

    run(
        settings(
            host=host, port=port, home=home, open_browser=open_browser, native=native, unsafe_sandbox=unsafe_sandbox
        )
    )


@app.command(epilog=examples('rlvr validate task.json', 'rlvr validate tasks/*.jsonl --json'))
def validate(
    paths: Annotated[
        list[Path], typer.Argument(metavar='FILE', help='JSON or JSONL files of tasks.', autocompletion=files)
    ],
    json: Json = False,
) -> None:
    """Check task files; exit 2 when one is not valid."""
    from studio.cli.commands.grading import validate

    raise typer.Exit(validate(paths, as_json=json))


@app.command(
    epilog=examples('rlvr check task.json --workspace ./solved', 'rlvr check tasks.jsonl --line 3 --workspace .')
)
def check(
    task: TaskPath,
    workspace: Annotated[
        Path,
        typer.Option(exists=True, file_okay=False, help='Folder to grade a copy of.', autocompletion=files),
    ],
    line: Line = None,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Grade a folder as the final workspace of a task; setup is not run. Exit 3 when the outcome is an error."""
    from studio.cli.commands.grading import check

    raise typer.Exit(check(task, workspace, line=line, unsafe=unsafe_sandbox, as_json=json))


@app.command(
    epilog=examples(
        'rlvr attempt task.json --solution reference', 'rlvr attempt task.json --solution steps.json --json'
    )
)
def attempt(
    task: TaskPath,
    solution: Annotated[
        str,
        typer.Option(
            metavar='STEPS.json|KIND',
            help='A file of steps, or reference, alternative, wrong.',
            autocompletion=solutions,
        ),
    ] = '',
    line: Line = None,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Replay a solution in a fresh sandbox and grade it; without one, grade the untouched workspace."""
    from studio.cli.commands.grading import attempt

    raise typer.Exit(attempt(task, solution, line=line, unsafe=unsafe_sandbox, as_json=json))


@app.command(epilog=examples('rlvr certify task.json', 'rlvr certify task.json --thorough --repeats 20 --json'))
def certify(
    task: TaskPath,
    repeats: Annotated[int, typer.Option(min=1, max=100, help='How often the reference is graded.')] = 5,
    solution: Annotated[
        str,
        typer.Option(
            metavar='STEPS.json|KIND', help='What to take for the reference solution.', autocompletion=solutions
        ),
    ] = '',
    thorough: Annotated[bool, typer.Option('--thorough', help='Try every known attack.')] = False,
    line: Line = None,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Prove that a task's checker cannot be fooled; exit 1 when it is not proven."""
    from studio.cli.commands.certify import certify_task

    raise typer.Exit(
        certify_task(task, solution, repeats=repeats, thorough=thorough, line=line, unsafe=unsafe_sandbox, as_json=json)
    )


@app.command(
    epilog=examples(
        'rlvr train tasks.jsonl --model starter --out my-run --eval held-out.jsonl',
        'rlvr train tasks.jsonl --model Qwen/Qwen3-0.6B --out my-run --config rl.json',
        'rlvr train --resume my-run --steps 50',
    )
)
def train(
    manifest: Annotated[
        Path | None,
        typer.Argument(
            metavar='MANIFEST', exists=True, dir_okay=False, help='Tasks to train on, JSONL.', autocompletion=files
        ),
    ] = None,
    model: Model = '',
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help='New folder for the run.', autocompletion=files)
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help='JSON: config.rl or more.', autocompletion=files),
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option('--eval', exists=True, dir_okay=False, help='Held-out tasks, JSONL.', autocompletion=files),
    ] = None,
    demonstrations: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help='Chats with tool calls for a cold start, JSONL.',
            autocompletion=files,
        ),
    ] = None,
    only_cold_start: Annotated[
        bool, typer.Option('--only-cold-start', help='Learn from demonstrations alone, not from rewards.')
    ] = False,
    name: Annotated[str, typer.Option(help='Name of the run.')] = '',
    resume: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help='Folder of a run to go on with.', autocompletion=files),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help='With --resume: raise the number of steps.')] = None,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Train a model on tasks in the foreground; Ctrl-C stops and keeps what was learned."""
    from studio.cli.commands import training

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


@app.command(
    epilog=examples(
        'rlvr evaluate held-out.jsonl --model starter',
        'rlvr evaluate held-out.jsonl --model starter --adapter my-run/adapter -k 8',
    )
)
def evaluate(
    manifest: Annotated[
        Path,
        typer.Argument(
            metavar='MANIFEST', exists=True, dir_okay=False, help='Tasks to attempt, JSONL.', autocompletion=files
        ),
    ],
    model: Model,
    adapter: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help='Folder of an adapter.', autocompletion=files),
    ] = None,
    attempts: Annotated[int, typer.Option('-k', min=1, max=1000, help='Attempts per task.')] = 4,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Attempt every task k times and report pass rates with 95 % intervals."""
    from studio.cli.commands.training import evaluate

    raise typer.Exit(evaluate(manifest, model=model, adapter=adapter, k=attempts, unsafe=unsafe_sandbox, as_json=json))


@app.command(
    epilog=examples(
        'rlvr merge my-run/adapter --out my-model', 'rlvr merge my-run --out my-model --dtype bfloat16 --json'
    )
)
def merge(
    adapter: Annotated[
        Path,
        typer.Argument(
            metavar='ADAPTER',
            exists=True,
            file_okay=False,
            help='Folder of an adapter or of a run.',
            autocompletion=files,
        ),
    ],
    out: Annotated[Path, typer.Option(help='New folder for the merged model.', autocompletion=files)],
    dtype: Annotated[str, typer.Option(help='float32, or bfloat16: half the size.', autocompletion=dtypes)] = 'float32',
    model: Annotated[
        str, typer.Option(help='Its base model, where the adapter does not say it.', autocompletion=models)
    ] = '',
    json: Json = False,
) -> None:
    """Write an adapter into its base model, and measure how far the result is from both."""
    from studio.cli.commands.merge import merge

    raise typer.Exit(merge(adapter, out=out, dtype=dtype, model=model, as_json=json))


app.command(epilog=REGRADE_EXAMPLES)(regrade)  # here, for the help lists commands in this order
app.command(epilog=DOCTOR_EXAMPLES)(doctor)


def _failed(error: RlvrError, *, as_json: bool) -> int:
    """Say what went wrong; 4 without isolation, 1 where the work failed, 2 where what was given cannot work."""
    from studio.cli.commands.output import say_error

    fields = error.fields if isinstance(error, FieldsError) else ()
    say_error(error.message, error.hint, fields, as_json=as_json)
    if isinstance(error, SandboxUnavailable):
        return 4
    return 1 if isinstance(error, SandboxError | CheckerError | GenerationError) else 2


def _misused(error: Exception) -> int:
    """Say with ``--json`` what is wrong with the command line; without, typer does."""
    from studio.cli.commands.output import say_error

    context = getattr(error, 'ctx', None)
    command = context.command_path if context is not None else 'rlvr'
    say_error(error.format_message(), f'Try: {command} -h', as_json=True)  # type: ignore[attr-defined]
    return 2
