"""Options of ``rlvr keys``; what each command does is in ``studio.commands.keys``, imported when it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

keys_app = typer.Typer(help='Keys of the API, and the token to log in from other machines.', no_args_is_help=True)

Json = Annotated[bool, typer.Option('--json', help='Print one JSON value to stdout.')]
Home = Annotated[Path | None, typer.Option(file_okay=False, help='Data folder (RLVR_HOME).')]


@keys_app.command('create')
def keys_create(
    name: Annotated[str, typer.Argument(help='What will use it.')],
    scope: Annotated[
        list[str] | None, typer.Option(help='read, write (tasks, jobs, adapters) or run; repeat for several.')
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Make a key; it is printed this once. Without --scope it may only read."""
    from studio.commands.keys import keys_create

    keys_create(name, scope or ['read'], home=home, as_json=json)


@keys_app.command('list')
def keys_list(home: Home = None, json: Json = False) -> None:
    """List the keys: how each begins, what it may do, when it was last used."""
    from studio.commands.keys import keys_list

    keys_list(home=home, as_json=json)


@keys_app.command('revoke')
def keys_revoke(
    key: Annotated[str, typer.Argument(metavar='KEY', help='Its name, its id, or how it begins.')],
    remove: Annotated[bool, typer.Option('--remove', help='Forget it too.')] = False,
    home: Home = None,
) -> None:
    """Refuse a key from now on."""
    from studio.commands.keys import keys_revoke

    keys_revoke(key, remove=remove, home=home)


@keys_app.command('login')
def keys_login(
    new: Annotated[bool, typer.Option('--new', help='Make another token: every browser has to log in again.')] = False,
    home: Home = None,
) -> None:
    """Print the token that logs in, where the studio listens beyond this machine."""
    from studio.commands.keys import keys_login

    keys_login(anew=new, home=home)
