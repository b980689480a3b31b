"""The store: one writer at a time who waits, foreign keys that hold, migrations that fit the tables."""

import json
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import func, text
from sqlmodel import SQLModel, select
from stand_in import task

from studio.documents.service import DocumentQuery, Documents
from studio.store.database import MIGRATIONS, Busy, Database
from studio.store.ids import is_id, new_id
from studio.store.tables import DocumentNumberTable, DocumentTable
from trainer.errors import StoreError
from trainer.task import content_hash

REFERENCE = {'kind': 'reference', 'steps': [{'tool': 'read_file', 'args': {'path': 'ä'}}]}


def test_sqlite_is_opened_as_several_writers_need(database: Database) -> None:
    with database.read() as session:
        found = {
            name: session.execute(text(f'PRAGMA {name}')).scalar()
            for name in ('journal_mode', 'foreign_keys', 'synchronous', 'busy_timeout')
        }
    assert found == {'journal_mode': 'wal', 'foreign_keys': 1, 'synchronous': 1, 'busy_timeout': 2000}


def test_the_migrations_make_exactly_the_tables(database: Database) -> None:
    def ours(name: str | None, kind: str, _: object) -> bool:
        return kind != 'table' or not str(name).startswith('document_search')

    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={'include_name': ours})
        assert compare_metadata(context, SQLModel.metadata) == []
    database.migrate()


def test_an_older_file_is_brought_up_to_date_with_all_that_is_in_it(tmp_path: Path) -> None:
    """A file of revision 0002, as it was written then: its texts are folded anew, and found."""
    database = Database(f'sqlite:///{tmp_path / "old.db"}')
    config = Config()
    config.set_main_option('script_location', str(MIGRATIONS))
    solutions = [solution.model_dump(mode='json') for solution in task(solutions=[REFERENCE]).solutions]
    with database.engine.execution_options(writes=True).connect() as connection:
        config.attributes['connection'] = connection
        command.upgrade(config, '0002')
    with sqlite3.connect(tmp_path / 'old.db') as old:
        for number, deleted in enumerate((None, '2026-01-02 00:00:00')):
            row = (f'{number:026}', 'Übung', '["Ämter"]', json.dumps(solutions), 'übung\nprüfe\x1fämter\x1f', deleted)
            old.execute(
                "INSERT INTO document VALUES (?1, 'local', 'local', ?2, ?3, 'draft', '', '{}', ?4, 'script', 0, ?5, "
                "NULL, '', 1, '2026-01-01 00:00:00', '2026-01-01 00:00:00', ?6)",
                row,
            )
    old.close()
    database.migrate()
    documents = Documents(database)
    for query in ({'search': 'PRUFE'}, {'search': 'ubung amter'}, {'topics': ('ämter',)}):
        assert [row.title for row in documents.list(DocumentQuery(**query)).rows] == ['Übung'], query
    with database.read() as session:
        assert {row.evidence for row in session.exec(select(DocumentTable))} == {content_hash(solutions)}
        assert session.exec(select(func.count()).select_from(DocumentNumberTable)).one() == 2
    database.close()


def test_the_index_follows_rows_and_outlives_their_numbers(database: Database, tmp_path: Path) -> None:
    documents = Documents(database)
    first, second = (documents.create(task(number), title=f'Name {number}') for number in (1, 2))
    with sqlite3.connect(tmp_path / 'studio.db') as other:
        other.execute('PRAGMA foreign_keys=ON')
        other.execute('DELETE FROM document WHERE id = ?', (first.id,))
    other.execute('VACUUM')
    other.close()
    documents.update(second.id, title='Zweiter', revision=second.revision)
    third = documents.create(task(3), title='Dritter')
    found = {word: documents.ids(DocumentQuery(search=word)) for word in ('name', 'zweiter', 'dritter')}
    assert found == {'name': (), 'zweiter': (second.id,), 'dritter': (third.id,)}


def test_a_save_waits_for_another_writer(database: Database, tmp_path: Path) -> None:
    """Case F1: it succeeds late."""
    other = sqlite3.connect(tmp_path / 'studio.db', isolation_level=None, check_same_thread=False)
    other.execute('BEGIN IMMEDIATE')
    timer = threading.Timer(0.7, lambda: other.execute('COMMIT'))
    began = time.monotonic()
    timer.start()
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
