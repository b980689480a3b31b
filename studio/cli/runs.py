"""The options of ``rlvr runs``; what each command does is in ``studio.cli.commands``, imported when it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from studio.cli.options import Force, Home, Json, Receipt, examples, files, receipt_of, runs

runs_app = typer.Typer(help='The runs of the studio: list, export their numbers.', no_args_is_help=True)


def formats(incomplete: str) -> list[str]:
    """Formats of exported numbers."""
    return [name for name in ('csv', 'json', 'tensorboard') if name.startswith(incomplete)]


@runs_app.command('list', epilog=examples('rlvr runs list', 'rlvr runs list --search tutorial --json'))
def runs_list(
    search: Annotated[str, typer.Option(help='Words that must occur in the name.')] = '',
    home: Home = None,
    json: Json = False,
) -> None:
    """List the runs of the studio, newest first."""
    from studio.cli.commands.runs import runs_list

    runs_list(search, home=home, as_json=json)


@runs_app.command(
    'export',
    epilog=examples(
        'rlvr runs export "my run" --out numbers.csv',
        'rlvr runs export 01JZ5M3S9C7W3T5QK6V0E8R2XA --format tensorboard --out logs/my-run',
    ),
)
def runs_export(
    run: Annotated[str, typer.Argument(metavar='RUN', help='Id or name of a run.', autocompletion=runs)],
    format: Annotated[str, typer.Option(help='csv, json or tensorboard.', autocompletion=formats)] = 'csv',
    out: Annotated[
        Path | None,
        typer.Option(
            help='File to write; for tensorboard, the folder to write into. Default: stdout.', autocompletion=files
        ),
    ] = None,
    force: Force = False,
    home: Home = None,
    json: Receipt = False,
) -> None:
    """Write the numbers of a run: a row for each step, a column for each series, empty where nothing was measured."""
    from studio.cli.commands.runs import runs_export

    runs_export(run, format=format, out=receipt_of(out, as_json=json), force=force, home=home, as_json=json)
