"""The options of ``rlvr regrade``; what it does is in ``studio.cli.commands``, imported when it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from studio.cli.options import Json, Unsafe, examples, files

EXAMPLES = examples('rlvr regrade my-run', 'rlvr regrade my-run --task sum-numbers --checker sum-numbers.json --json')


def regrade(
    run: Annotated[
        Path,
        typer.Argument(metavar='RUN_DIR', exists=True, file_okay=False, help='Folder of a run.', autocompletion=files),
    ],
    task: Annotated[str, typer.Option(help='Id of the one task to grade again. Default: all.')] = '',
    checker: Annotated[
        Path | None,
        typer.Option(
            metavar='TASKFILE',
            exists=True,
            dir_okay=False,
            help='Task file with the checker to use. Default: the one of the run.',
            autocompletion=files,
        ),
    ] = None,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Grade the final workspaces that a run kept again; its rewards stay. Exit 3 when an outcome is an error."""
    from studio.cli.commands.regrade import regrade

    raise typer.Exit(regrade(run, task=task, checker=checker, unsafe=unsafe_sandbox, as_json=json))
