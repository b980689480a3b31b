"""``rlvr keys``: keys of the API and the token that logs in from other machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from studio.cli.commands.output import print_json, print_table, say, settings
from studio.security.keys import ApiKeys, KeyView
from studio.settings import kept_secret
from studio.store.database import Database
from trainer.errors import ConfigError


def keys_create(name: str, scopes: Sequence[str], *, home: Path | None, as_json: bool) -> None:
    """Make a key and print it, this once."""
    with _keys(home) as keys:
        made = keys.create(name, scopes)
    if as_json:
        print_json({'key': made.key, **_row(made.view)})
        return
    say('Keep this key: it is shown this once. Send it in the header x-api-key.')
    typer.echo(made.key)


def keys_list(*, home: Path | None, as_json: bool) -> None:
    """List the keys, the newest first."""
    with _keys(home) as keys:
        views = keys.list()
    if as_json:
        print_json([_row(view) for view in views])
        return
    print_table(
        ['key', 'name', 'may', 'made', 'last used', ''],
        [
            (
                view.shown,
                view.name,
                ', '.join(view.scopes),
                f'{view.created_at:%Y-%m-%d}',
                f'{view.last_used_at:%Y-%m-%d %H:%M} UTC' if view.last_used_at else 'never',
                'revoked' if view.revoked_at else '',
            )
            for view in views
        ],
    )


def keys_revoke(reference: str, *, remove: bool, home: Path | None, as_json: bool) -> None:
    """Refuse a key from now on, or forget it; it is named by its id, its name or how it begins."""
    with _keys(home) as keys:
        view = _named(keys.list(), reference)
        (keys.remove if remove else keys.revoke)(view.id)
        if as_json:
            print_json({'id': view.id, 'name': view.name, 'shown': view.shown, 'removed': remove})
        elif remove:
            say(f'Removed {view.shown} "{view.name}"')
            if not keys.exist():
                say('No key is left: every program on this machine may use the API.')
        else:
            say(f'Revoked {view.shown} "{view.name}"')


def keys_login(*, anew: bool, home: Path | None, as_json: bool) -> None:
    """Print the token that logs in from other machines; ``anew`` makes another one and ends every session."""
    chosen = settings(home=home)
    token = kept_secret(chosen.home / 'login-token', anew=True) if anew else chosen.login_token
    if as_json:
        print_json({'token': token})
    else:
        typer.echo(token)


def _named(views: Sequence[KeyView], reference: str) -> KeyView:
    """The one key that is meant. Raises ``ConfigError``."""
    found = [view for view in views if reference in (view.id, view.name, view.prefix, f'rlvr_{view.prefix}')]
    if len(found) != 1:
        what = f'{len(found)} keys are called' if found else 'No key is called'
        raise ConfigError(f'{what} {reference[:60]!r}', hint='`rlvr keys list` shows how each begins: rlvr_XXXXXXXX.')
    return found[0]


def _row(view: KeyView) -> dict[str, object]:
    return view.model_dump(mode='json')


@contextmanager
def _keys(home: Path | None) -> Iterator[ApiKeys]:
    chosen = settings(home=home)
    database = Database(chosen.database_url)
    database.migrate()
    try:
        yield ApiKeys(database, chosen.secret)
    finally:
        database.close()
