"""Keys of the API: made and shown once, kept as a digest, checked at every request.

A key is ``rlvr_<prefix>_<256 random bits>``. The store has the prefix and an HMAC of the key; what the HMAC is keyed
with lies in a file beside the database, so that the database alone is of no use to whoever reads it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, get_args

from sqlalchemy import func
from sqlmodel import Session, col, select, update

from studio.errors import NotFound
from studio.store.database import Database
from studio.store.ids import ALPHABET, new_id
from studio.store.tables import ApiKeyTable
from trainer.errors import ConfigError, FieldError
from trainer.validation import Document

Scope = Literal['read', 'write', 'run']
"""``read``: look at everything. ``write``: change tasks, jobs and adapters. ``run``: start and stop work."""
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
MAX_NAME_CHARS: Final = 100
USE_NOTED_EVERY: Final = timedelta(minutes=1)
"""Reading must not write each time: the last use is noted this often."""
_KEY: Final = re.compile(r'rlvr_([0-9A-Z]{8})_[A-Za-z0-9_-]{43}')


class KeyView(Document):
    """A key as it may be shown: never the key itself."""

    id: str
    name: str
    prefix: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def shown(self) -> str:
        """The beginning of the key, by which its owner knows it."""
        return f'rlvr_{self.prefix}_…'


class NewKey(Document):
    """A key that was just made; ``key`` is shown this once."""

    key: str
    view: KeyView


class ApiKeys:
    """The keys of a store. Thread-safe. Raises ``NotFound``, ``ConfigError`` with the field, ``StoreError``."""

    def __init__(self, database: Database, secret: str) -> None:
        self._database = database
        self._secret = secret.encode()

    def create(self, name: str, scopes: Iterable[str]) -> NewKey:
        """Make a key that may do what its scopes say."""
        name, chosen = _checked_name(name), _checked_scopes(scopes)
        prefix = ''.join(secrets.choice(ALPHABET) for _ in range(8))
        key = f'rlvr_{prefix}_{secrets.token_urlsafe(32)}'
        row = ApiKeyTable(
            id=new_id(),
            name=name,
            prefix=prefix,
            digest=self._digest(key),
            scopes=list(chosen),
            created_at=datetime.now(UTC),
        )
        with self._database.write() as session:
            session.add(row)
            session.flush()
            return NewKey(key=key, view=_view(row))

    def list(self) -> tuple[KeyView, ...]:
        """Every key, the newest first; those that were revoked are among them until they are removed."""
        with self._database.read() as session:
            rows = session.exec(
                select(ApiKeyTable).order_by(col(ApiKeyTable.created_at).desc(), col(ApiKeyTable.id).desc())
            ).all()
        return tuple(map(_view, rows))

    def exist(self) -> bool:
        """Whether a key was ever made and not removed: from then on the API asks for one, revoked or not."""
        with self._database.read() as session:
            return session.exec(select(func.count()).select_from(ApiKeyTable)).one() > 0

    def revoke(self, id: str) -> KeyView:
        """Refuse a key from now on."""
        with self._database.write() as session:
            row = _row(session, id)
            row.revoked_at = row.revoked_at or datetime.now(UTC)
            return _view(row)

    def remove(self, id: str) -> None:
        """Forget a key. When the last one goes, this machine may use the API without any again."""
        with self._database.write() as session:
            session.delete(_row(session, id))

    def check(self, key: str) -> KeyView | None:
        """The key that this is, unless it is unknown or revoked; notes that it was used."""
        spelt = _KEY.fullmatch(key)
        if spelt is None:
            return None
        with self._database.read() as session:
            row = session.exec(select(ApiKeyTable).where(ApiKeyTable.prefix == spelt[1])).first()
        # The digest is made and compared whether there is such a row or not: both take as long.
        same = hmac.compare_digest(self._digest(key), row.digest if row is not None else '0' * 64)
        if row is None or not same or row.revoked_at is not None:
            return None
        now = datetime.now(UTC)
        if row.last_used_at is None or now - row.last_used_at > USE_NOTED_EVERY:
            with self._database.write() as session:
                session.exec(update(ApiKeyTable).where(col(ApiKeyTable.id) == row.id).values(last_used_at=now))
        return _view(row)

    def _digest(self, key: str) -> str:
        return hmac.new(self._secret, key.encode(), hashlib.sha256).hexdigest()


def _row(session: Session, id: str) -> ApiKeyTable:
    row = session.get(ApiKeyTable, id)
    if row is None:
        raise NotFound('There is no such key', hint='It may have been removed in another tab.')
    return row


def _view(row: ApiKeyTable) -> KeyView:
    return KeyView.model_validate(row.model_dump(exclude={'digest'}))


def _checked_name(name: str) -> str:
    name = ' '.join(name.split())
    problem = ''
    if not name:
        problem = 'Give the key a name: what will use it?'
    elif len(name) > MAX_NAME_CHARS:
        problem = f'At most {MAX_NAME_CHARS} characters, not {len(name)}'
    elif not name.isprintable():
        problem = 'A name has no control characters'
    if problem:
        raise ConfigError(problem, [FieldError(loc='name', msg=problem)])
    return name


def _checked_scopes(scopes: Iterable[str]) -> tuple[Scope, ...]:
    chosen = set(scopes)
    unknown = sorted(chosen - set(SCOPES))
    problem = ''
    if unknown:
        problem = f'{unknown[0]!r} is not known: choose from {", ".join(SCOPES)}'
    elif not chosen:
        problem = f'Choose what the key may do: {", ".join(SCOPES)}'
    if problem:
        raise ConfigError(problem, [FieldError(loc='scopes', msg=problem)])
    return tuple(scope for scope in SCOPES if scope in chosen)
