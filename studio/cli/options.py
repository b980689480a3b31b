"""What the commands of ``rlvr`` share: options that mean the same everywhere, what the shell offers, examples.

Nothing here loads more than the command line needs to show its help.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def examples(*lines: str) -> str:
    """The end of a command's help: a line each."""
    return '\n\n'.join(['Examples:', *(f'$ {line}' for line in lines)])


def files() -> list[str]:
    """Nothing of ours: the shell offers its own names of files and folders."""
    return []


def solutions(incomplete: str) -> list[str]:
    """Kinds of solutions; where none fits, the shell offers files."""
    return [kind for kind in ('reference', 'alternative', 'wrong') if kind.startswith(incomplete)]


def isolations(incomplete: str) -> list[str]:
    """Kinds of isolation."""
    return [kind for kind in ('bubblewrap', 'landlock', 'unsafe') if kind.startswith(incomplete)]


def dtypes(incomplete: str) -> list[str]:
    """Precisions of a merged model."""
    return [kind for kind in ('float32', 'bfloat16') if kind.startswith(incomplete)]


def conflicts(incomplete: str) -> list[str]:
    """What can become of a task that is here and differs."""
    return [choice for choice in ('keep', 'version', 'copy') if choice.startswith(incomplete)]


def models(incomplete: str) -> list[tuple[str, str]]:
    """Models by id; where none fits, the shell offers folders."""
    from studio.cli.commands.completion import models

    return models(incomplete)


def runs(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Runs of the studio by id, newest first."""
    from studio.cli.commands.completion import runs

    return runs(incomplete, context.params.get('home'))


def tasks(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Tasks of the studio by id, last changed first."""
    from studio.cli.commands.completion import tasks

    return tasks(incomplete, context.params.get('home'))


def adapters(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Adapters of the studio by name; where none fits, the shell offers folders."""
    from studio.cli.commands.completion import adapters

    return adapters(incomplete, context.params.get('home'))


def import_formats(incomplete: str) -> list[tuple[str, str]]:
    """What ``tasks import`` reads."""
    from studio.cli.commands.completion import import_formats

    return import_formats(incomplete)


def export_formats(incomplete: str) -> list[tuple[str, str]]:
    """What ``tasks export`` writes."""
    from studio.cli.commands.completion import export_formats

    return export_formats(incomplete)


def receipt_of(out: Path | None, *, as_json: bool) -> Path | None:
    """The file to write, which has to be named where stdout is for the receipt. Raises ``typer.BadParameter``."""
    if as_json and out is None:
        raise typer.BadParameter('name a file with --out: without one, stdout is what it would hold')
    return out


Json = Annotated[
    bool, typer.Option('--json', help='Print one JSON value to stdout; an error is one JSON object on stderr.')
]
Receipt = Annotated[
    bool, typer.Option('--json', help='With --out: print to stdout as one JSON value what was written.')
]
Force = Annotated[bool, typer.Option('--force', help='Replace a file that is there.')]
Unsafe = Annotated[bool, typer.Option('--unsafe-sandbox', help='Run model-written code without isolation.')]
TaskPath = Annotated[
    Path, typer.Argument(metavar='TASK', exists=True, dir_okay=False, help='A task file.', autocompletion=files)
]
Line = Annotated[int | None, typer.Option(min=1, help='Line of the task, in a file with several.')]
Home = Annotated[Path | None, typer.Option(file_okay=False, help='Data folder (RLVR_HOME).', autocompletion=files)]
Model = Annotated[
    str,
    typer.Option(help='starter, an id of `rlvr models list`, a folder or owner/name.', autocompletion=models),
]
Run = Annotated[str, typer.Argument(metavar='RUN', help='Id of a run of the studio.', autocompletion=runs)]
