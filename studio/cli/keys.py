"""Options of ``rlvr keys``; what each command does is in ``studio.cli.commands.keys``, imported when it is used."""

from __future__ import annotations

from typing import Annotated

import typer

from studio.cli.options import Home, Json, examples

keys_app = typer.Typer(help='Keys of the API, and the token to log in from other machines.', no_args_is_help=True)


@keys_app.command('create', epilog=examples('rlvr keys create ci', 'rlvr keys create agent --scope write --scope run'))
def keys_create(
    name: Annotated[str, typer.Argument(help='What will use it.')],
    scope: Annotated[
        list[str] | None, typer.Option(help='read, write (tasks, jobs, adapters) or run; repeat for several.')
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Make a key; it is printed this once. Without --scope it may only read."""
    from studio.cli.commands.keys import keys_create

    keys_create(name, scope or ['read'], home=home, as_json=json)


@keys_app.command('list', epilog=examples('rlvr keys list', 'rlvr keys list --json'))
def keys_list(home: Home = None, json: Json = False) -> None:
    """List the keys: how each begins, what it may do, when it was last used."""
    from studio.cli.commands.keys import keys_list

    keys_list(home=home, as_json=json)


@keys_app.command('revoke', epilog=examples('rlvr keys revoke ci', 'rlvr keys revoke rlvr_AbCdEfGh --remove'))
def keys_revoke(
    key: Annotated[str, typer.Argument(metavar='KEY', help='Its name, its id, or how it begins.')],
    remove: Annotated[bool, typer.Option('--remove', help='Forget it too.')] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Refuse a key from now on."""
    from studio.cli.commands.keys import keys_revoke

    keys_revoke(key, remove=remove, home=home, as_json=json)


@keys_app.command('login', epilog=examples('rlvr keys login', 'rlvr keys login --new'))
def keys_login(
    new: Annotated[bool, typer.Option('--new', help='Make another token: every browser has to log in again.')] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Print the token that logs in, where the studio listens beyond this machine."""
    from studio.cli.commands.keys import keys_login

    keys_login(anew=new, home=home, as_json=json)
