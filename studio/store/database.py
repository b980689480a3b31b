"""The database: one engine, read and write sessions, and the migrations that bring an old file up to date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlmodel import Session, create_engine

from trainer.errors import StoreError

BUSY_S = 10.0
"""Seconds a session waits for another writer before it says busy."""
MIGRATIONS: Final = Path(__file__).parent / 'migrations'


class Busy(StoreError):
    """Another process held the database too long; nothing was changed, trying again is safe."""


class Database:
    """Opens sessions. Thread-safe; a SQLite file is made where there is none."""

    def __init__(self, url: str, *, busy_s: float | None = None) -> None:
        parsed = make_url(url)
        self.is_sqlite = parsed.get_backend_name() == 'sqlite'
        if self.is_sqlite and parsed.database:
            _make_folder(Path(parsed.database).parent)
        self.engine = create_engine(
            url, connect_args={'timeout': BUSY_S if busy_s is None else busy_s} if self.is_sqlite else {}
        )
        if self.is_sqlite:
            event.listen(self.engine, 'connect', _prepare_sqlite)
            event.listen(self.engine, 'begin', _begin_sqlite)
        self._writing = self.engine.execution_options(writes=True)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that sees one state of the database and changes nothing."""
        with _explained(), Session(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that is the only writer from its first statement on, committed at its end.

        Raises ``Busy`` where another writer does not finish, ``StoreError`` where the disk or the file fails.
        """
        with _explained(), Session(self._writing, expire_on_commit=False) as session, session.begin():
            yield session

    def migrate(self) -> None:
        """Bring the tables up to date; a new file gets all of them."""
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option('script_location', str(MIGRATIONS))
        with _explained(), self._writing.connect() as connection:
            config.attributes['connection'] = connection
            command.upgrade(config, 'head')

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f'The data folder {folder} cannot be made: {error.strerror}', hint='Name another: RLVR_HOME or --home.'
        ) from error


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the driver's errors into ours, in words that say what to do."""
    try:
        yield
    except OperationalError as error:
        text = str(error.orig)
        if 'locked' in text or 'busy' in text:
            raise Busy('The database is busy with another change', hint='Try again in a moment.') from error
        if 'full' in text:
            raise StoreError('The disk is full: nothing was saved', hint='Free some space and try again.') from error
        raise StoreError(f'The database failed: {text}') from error
    except IntegrityError:
        raise
    except DBAPIError as error:
        raise StoreError(f'The database failed: {error.orig}') from error


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver must not begin transactions by itself, or the choice in _begin_sqlite has no effect.
    connection.isolation_level = None
    for pragma in ('journal_mode=WAL', 'synchronous=NORMAL', 'foreign_keys=ON'):
        connection.execute(f'PRAGMA {pragma}').close()


def _begin_sqlite(connection: Connection) -> None:
    # A reader that becomes a writer is refused at once when another wrote meanwhile; a writer from the start waits.
    writes = connection.get_execution_options().get('writes')
    connection.exec_driver_sql('BEGIN IMMEDIATE' if writes else 'BEGIN')
