"""``rlvr tasks list``, ``import`` and ``export``: the studio's documents from the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from studio.commands.output import print_json, print_table, say, settings
from studio.documents import DocumentQuery, Documents
from studio.store.database import Database
from trainer.errors import ConfigError


def tasks_list(search: str, *, home: Path | None, as_json: bool) -> None:
    """List documents, last changed first."""
    with _documents(home) as documents:
        page = documents.list(DocumentQuery(search=search, per_page=1000))
        rows = list(page.rows)
        while len(rows) < page.total and page.rows:
            page = documents.list(DocumentQuery(search=search, per_page=1000, page=len(rows) // 1000 + 1))
            rows += page.rows
    if as_json:
        keys = {'id', 'title', 'topics', 'status', 'checker', 'version', 'hash', 'updated_at'}
        print_json([row.model_dump(mode='json', include=keys) for row in rows])
        return
    print_table(
        ['id', 'status', 'checker', 'version', 'title'],
        [(row.id, row.status, row.checker, str(row.version or ''), row.title or 'Untitled') for row in rows],
    )


def tasks_import(files: Sequence[Path], *, format: str, publish: bool, home: Path | None, as_json: bool) -> int:
    """Add the tasks of files; 2 when a line was refused, the others are kept."""
    _check(format)
    rows = []
    with _documents(home) as documents:
        for file in files:
            report = documents.import_tasks(file, status='published' if publish else 'draft')
            rows += [{'file': str(file), **row.model_dump(mode='json')} for row in report.rows]
    refused = [row for row in rows if row['status'] == 'refused']
    if as_json:
        print_json(rows)
    else:
        for row in refused:
            say(f'{row["file"]}:{row["line"]}: refused: {row["reason"]}', error=True)
        new = sum(row['status'] == 'new' for row in rows)
        typer.echo(f'{new} added, {len(rows) - new - len(refused)} were here already, {len(refused)} refused')
    return 2 if refused else 0


def tasks_export(ids: Sequence[str] | None, *, format: str, out: Path | None, home: Path | None) -> None:
    """Write tasks as JSONL to a file or stdout."""
    _check(format)
    with _documents(home) as documents:
        text = documents.export(ids)
    if out is None:
        typer.echo(text.encode('utf-8'), nl=False)
    else:
        out.write_text(text, encoding='utf-8', newline='\n')
        say(f'{text.count(chr(10))} tasks written to {out}')


@contextmanager
def _documents(home: Path | None) -> Iterator[Documents]:
    database = Database(settings(home=home).database_url)
    database.migrate()
    try:
        yield Documents(database)
    finally:
        database.close()


def _check(format: str) -> None:
    if format != 'jsonl':
        raise ConfigError(f'{format!r} is not a format this version knows', hint='Use --format jsonl.')
