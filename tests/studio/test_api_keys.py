"""Keys of the API: made, checked, revoked, and `rlvr keys` from a terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from studio.cli.app import app
from studio.errors import NotFound
from studio.security.keys import ApiKeys
from studio.store.database import Database
from studio.store.tables import ApiKeyTable
from trainer.errors import ConfigError


@pytest.fixture
def keys(database: Database) -> ApiKeys:
    return ApiKeys(database, 'secret of this machine')


def test_a_key_is_known_by_what_it_is_and_by_nothing_else(keys: ApiKeys, database: Database) -> None:
    made = keys.create('  a   script ', ['run', 'read', 'read'])
    assert made.view.name == 'a script' and made.view.scopes == ('read', 'run')
    secret = made.key.removeprefix(f'rlvr_{made.view.prefix}_')
    assert len(secret) == 43, 'and an underscore may be among them'
    assert keys.check(made.key) is not None
    other = keys.create('other', ['write'])
    mixed = made.key[:13] + other.key[13:]
    for wrong in ('', 'rlvr', made.view.prefix, made.key[:-1], made.key + 'x', f' {made.key}', mixed, '\0', 'é' * 57):
        assert keys.check(wrong) is None, wrong
    assert ApiKeys(database, 'secret of another machine').check(made.key) is None
    with database.read() as session:
        row = session.get(ApiKeyTable, made.view.id)
        assert row is not None and secret not in repr(row.model_dump())


def test_use_is_noted_now_and_then(keys: ApiKeys, database: Database) -> None:
    made = keys.create('a', ['read'])
    assert keys.list()[0].last_used_at is None
    keys.check(made.key)
    noted = keys.list()[0].last_used_at
    assert noted is not None
    keys.check(made.key)
    assert keys.list()[0].last_used_at == noted
    with database.write() as session:
        row = session.get_one(ApiKeyTable, made.view.id)
        row.last_used_at = datetime.now(UTC) - timedelta(hours=1)
    keys.check(made.key)
    assert datetime.now(UTC) - (keys.list()[0].last_used_at or noted) < timedelta(minutes=1)


def test_what_is_revoked_stays_until_it_is_removed(keys: ApiKeys) -> None:
    made = keys.create('a', ['read'])
    first = keys.revoke(made.view.id).revoked_at
    assert keys.check(made.key) is None and keys.exist()
    assert keys.revoke(made.view.id).revoked_at == first
    keys.remove(made.view.id)
    assert not keys.exist() and keys.list() == ()
    with pytest.raises(NotFound):
        keys.remove(made.view.id)


@pytest.mark.parametrize(
    ('name', 'scopes', 'loc'),
    [
        (' ', ['read'], 'name'),
        ('x' * 101, ['read'], 'name'),
        ('\x1b[31m', ['read'], 'name'),
        ('a', [], 'scopes'),
        ('a', ['all'], 'scopes'),
    ],
)
def test_a_key_without_name_or_purpose_is_not_made(keys: ApiKeys, name: str, scopes: list[str], loc: str) -> None:
    with pytest.raises(ConfigError) as refused:
        keys.create(name, scopes)
    assert refused.value.fields[0].loc == loc and not keys.exist()


def test_keys_from_a_terminal(tmp_path: Path) -> None:
    run, home = CliRunner(), ['--home', str(tmp_path / 'home')]
    made = run.invoke(app, ['keys', 'create', 'ci', '--scope', 'read', '--scope', 'run', *home])
    assert made.exit_code == 0 and made.stdout.startswith('rlvr_') and 'shown this once' in made.stderr
    listed = run.invoke(app, ['keys', 'list', '--json', *home])
    [row] = json.loads(listed.stdout)
    assert row['scopes'] == ['read', 'run'] and made.stdout.strip() not in listed.stdout and 'digest' not in row
    revoked = run.invoke(app, ['keys', 'revoke', f'rlvr_{row["prefix"]}', *home])
    assert revoked.exit_code == 0 and 'Revoked' in revoked.stderr
    assert 'revoked' in run.invoke(app, ['keys', 'list', *home]).stdout
    removed = run.invoke(app, ['keys', 'revoke', 'ci', '--remove', *home])
    assert 'No key is left' in removed.stderr
    assert isinstance(run.invoke(app, ['keys', 'revoke', 'ci', *home]).exception, ConfigError)
    token = run.invoke(app, ['keys', 'login', *home]).stdout
    assert run.invoke(app, ['keys', 'login', *home]).stdout == token
    assert run.invoke(app, ['keys', 'login', '--new', *home]).stdout != token
