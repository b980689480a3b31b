"""``rlvr adapters …``: the options of each; what they do is in ``studio.cli.commands.adapters``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from studio.cli.options import Home, Json, Unsafe, adapters, examples, files, models

adapters_app = typer.Typer(
    help='The adapters of the studio: list, import, export, delete, prove.', no_args_is_help=True
)

Adapter = Annotated[
    str,
    typer.Argument(
        metavar='ADAPTER',
        help='Id of an adapter or of its run, NAME (the newest), or NAME:v2.',
        autocompletion=adapters,
    ),
]


@adapters_app.command('list', epilog=examples('rlvr adapters list', 'rlvr adapters list --json'))
def adapters_list(home: Home = None, json: Json = False) -> None:
    """List every adapter with its versions."""
    from studio.cli.commands.adapters import adapters_list

    adapters_list(home=home, as_json=json)


@adapters_app.command('import', epilog=examples('rlvr adapters import adapter.zip --name theirs'))
def adapters_import(
    source: Annotated[
        Path,
        typer.Argument(metavar='ZIP|FOLDER', exists=True, help='As peft saves it: LoRA only.', autocompletion=files),
    ],
    name: Annotated[str, typer.Option(help='Name to keep it under; default: that of the file.')] = '',
    home: Home = None,
    json: Json = False,
) -> None:
    """Bring in an adapter of others. Pickles, links and anything but LoRA are refused."""
    from studio.cli.commands.adapters import adapters_import

    adapters_import(source, name=name, home=home, as_json=json)


@adapters_app.command(
    'export', epilog=examples('rlvr adapters export my-run', 'rlvr adapters export my-run:v2 --out a.zip')
)
def adapters_export(
    adapter: Adapter,
    out: Annotated[
        Path | None, typer.Option(help='A new .zip, or a new folder. Default: NAME-vN.zip.', autocompletion=files)
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Write an adapter in PEFT layout, with its model card and lineage."""
    from studio.cli.commands.adapters import adapters_export

    adapters_export(adapter, out=out, home=home, as_json=json)


@adapters_app.command('delete', epilog=examples('rlvr adapters delete my-run:v1', 'rlvr adapters delete my-run --yes'))
def adapters_delete(
    adapter: Adapter,
    yes: Annotated[bool, typer.Option('--yes', '-y', help='Do not ask.')] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Delete an adapter and its files; says how much that frees."""
    from studio.cli.commands.adapters import adapters_delete

    adapters_delete(adapter, yes=yes, home=home, as_json=json)


@adapters_app.command('prove', epilog=examples('rlvr adapters prove my-run', 'rlvr adapters prove runs/my-run --json'))
def adapters_prove(
    adapter: Annotated[
        str,
        typer.Argument(metavar='ADAPTER|DIR', help='An adapter as above, or a run folder.', autocompletion=adapters),
    ],
    base: Annotated[
        str, typer.Option(help='The base model, where it is not where it was.', autocompletion=models)
    ] = '',
    unsafe: Unsafe = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Prove in a fresh process that an adapter behaves as in training. Exit 1 when it does not."""
    from studio.cli.commands.adapters import adapters_prove

    raise typer.Exit(adapters_prove(adapter, base=base, unsafe=unsafe, home=home, as_json=json))
