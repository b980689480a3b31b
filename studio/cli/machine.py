"""The options of ``rlvr doctor``, ``sandbox`` and ``models``; what each does is in ``studio.cli.commands.machine``."""

from __future__ import annotations

from typing import Annotated

import typer

from studio.cli.options import Json, Unsafe, examples, isolations, models

models_app = typer.Typer(help='Models a run may start from.', no_args_is_help=True)
sandbox_app = typer.Typer(help='The isolation of model-written code.', no_args_is_help=True)
EXAMPLES = examples('rlvr doctor', 'rlvr doctor --json')


def doctor(json: Json = False) -> None:
    """Say what is missing on this machine and how to get it; exit 1 when something needed is."""
    from studio.cli.commands.machine import doctor

    raise typer.Exit(doctor(as_json=json))


@sandbox_app.command('probe', epilog=examples('rlvr sandbox probe', 'rlvr sandbox probe --isolation landlock'))
def sandbox_probe(
    unsafe_sandbox: Unsafe = False,
    isolation: Annotated[
        str,
        typer.Option(
            help='Kind: bubblewrap, landlock (weaker) or unsafe (none); without it, the one in force.',
            autocompletion=isolations,
        ),
    ] = '',
    json: Json = False,
) -> None:
    """Attack a sandbox and say what isolation is in force; exit 1 when it does not hold."""
    from studio.cli.commands.machine import sandbox_probe

    raise typer.Exit(sandbox_probe('unsafe' if unsafe_sandbox else isolation, as_json=json))


@models_app.command('list', epilog=examples('rlvr models list', 'rlvr models list --json'))
def models_list(json: Json = False) -> None:
    """List the bundled, local and eligible models."""
    from studio.cli.commands.machine import models_list

    models_list(as_json=json)


@models_app.command('check', epilog=examples('rlvr models check starter', 'rlvr models check ./my-model --json'))
def models_check(
    model: Annotated[
        str,
        typer.Argument(
            metavar='MODEL', help='An id of `rlvr models list`, a folder or owner/name.', autocompletion=models
        ),
    ],
    json: Json = False,
) -> None:
    """Say whether a model can be trained on tools, from its tokenizer alone; exit 1 when it cannot."""
    from studio.cli.commands.machine import models_check

    raise typer.Exit(models_check(model, as_json=json))
