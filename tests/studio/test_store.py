"""The store: one writer at a time who waits, foreign keys that hold, migrations that fit the tables."""

import sqlite3
import threading
import time
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text
from sqlmodel import SQLModel
from stand_in import task

from studio.documents import Documents
from studio.store.database import Busy, Database
from studio.store.ids import is_id, new_id
from trainer.errors import StoreError


def test_sqlite_is_opened_as_several_writers_need(database: Database) -> None:
    with database.read() as session:
        found = {
            name: session.execute(text(f'PRAGMA {name}')).scalar()
            for name in ('journal_mode', 'foreign_keys', 'synchronous', 'busy_timeout')
        }
    assert found == {'journal_mode': 'wal', 'foreign_keys': 1, 'synchronous': 1, 'busy_timeout': 2000}


def test_the_migrations_make_exactly_the_tables(database: Database) -> None:
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), SQLModel.metadata) == []
    database.migrate()


def test_a_save_waits_for_another_writer(database: Database, tmp_path: Path) -> None:
    """Case F1: it succeeds late."""
    other = sqlite3.connect(tmp_path / 'studio.db', isolation_level=None, check_same_thread=False)
    other.execute('BEGIN IMMEDIATE')
    timer = threading.Timer(0.7, lambda: other.execute('COMMIT'))
    timer.start()
    began = time.monotonic()
    Documents(database).create(task())
    assert time.monotonic() - began > 0.5
    timer.join()
    other.close()


def test_a_save_that_waited_too_long_says_busy_and_changes_nothing(tmp_path: Path) -> None:
    database = Database(f'sqlite:///{tmp_path / "studio.db"}', busy_s=0.1)
    database.migrate()
    other = sqlite3.connect(tmp_path / 'studio.db', isolation_level=None)
    other.execute('BEGIN IMMEDIATE')
    with pytest.raises(Busy, match='busy') as busy:
        Documents(database).create(task())
    assert 'again' in busy.value.hint
    other.close()
    assert Documents(database).list().total == 0
    database.close()


def test_a_full_disk_is_named(database: Database) -> None:
    with database.engine.connect() as connection:
        connection.exec_driver_sql('PRAGMA max_page_count=1')
    with pytest.raises(StoreError, match='disk is full'):
        Documents(database).create(task(title='x', notes='n' * 10_000_000))


def test_ids_are_ulids_that_sort_by_time() -> None:
    ids = [new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000 and all(map(is_id, ids))
    time.sleep(0.002)
    assert new_id() > max(ids)
    assert not is_id('../x') and not is_id('0' * 25)
