"""``rlvr tasks list``, ``import`` and ``export``: the studio's documents from the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, get_args

import typer

from studio.cli.commands.output import check_free, every_row, print_json, print_table, say, settings, write_file
from studio.cli.commands.progress import counting
from studio.documents.service import DocumentQuery, Documents
from studio.documents.transfer import Choice, Plan, PlanRow, Transfer
from studio.exchange.formats import writer
from studio.store.database import Database
from trainer.errors import ConfigError

_RESULTS: Final = {
    'added': 'added',
    'version': 'new version',
    'copy': 'added as a copy',
    'kept': 'kept yours',
    'here': 'here already',
    'left': 'left alone',
    'refused': 'refused',
}
_SHOWN_WARNINGS: Final = 10


def tasks_list(search: str, *, home: Path | None, as_json: bool) -> None:
    """List documents, last changed first."""
    with _documents(home) as documents:
        rows = every_row(lambda page: documents.list(DocumentQuery(search=search, per_page=1000, page=page)))
    if as_json:
        keys = {'id', 'title', 'topics', 'status', 'checker', 'version', 'hash', 'updated_at'}
        print_json([row.model_dump(mode='json', include=keys) for row in rows])
        return
    print_table(
        ['id', 'status', 'checker', 'version', 'title'],
        [(row.id, row.status, row.checker, str(row.version or ''), row.title or 'Untitled') for row in rows],
    )


def tasks_import(
    paths: Sequence[Path],
    *,
    format: str,
    conflicts: str,
    publish: bool,
    dry_run: bool,
    home: Path | None,
    as_json: bool,
) -> int:
    """Say what files and folders hold and add their tasks; 2 when a row was refused, the others are kept."""
    choice = _choice(conflicts)
    with _documents(home) as documents:
        transfer = Transfer(documents)
        plan = transfer.plan_paths(paths, format)
        if dry_run:
            _show_plan(plan, as_json=as_json)
            return 2 if plan.count('refused') else 0
        with counting('Importing', quiet=as_json) as count:
            receipt = transfer.store(plan, conflicts=choice, publish=publish, on_progress=count)
    if as_json:
        print_json([stored.row.to_json(stored.result, stored.id) for stored in receipt.rows])
    else:
        for stored in receipt.rows:
            _say_row(stored.row)
            if stored.result == 'left':
                say(f'{_where(stored.row)}: left alone: {stored.reason}', error=True)
        counts = {word: receipt.count(result) for result, word in _RESULTS.items()}  # type: ignore[arg-type]
        typer.echo(', '.join(f'{count} {word}' for word, count in counts.items() if count) or 'Nothing to import')
    return 2 if receipt.count('refused') else 0


def tasks_export(
    ids: Sequence[str] | None, *, format: str, out: Path | None, force: bool, home: Path | None, as_json: bool
) -> None:
    """Write tasks in a format to a file or stdout; with ``as_json`` say on stdout what went into the file."""
    write = writer(format).write
    if out is not None:
        check_free(out, force=force)
    with _documents(home) as documents:
        tasks = documents.tasks(ids)
    content = write(tasks)
    data = content.encode('utf-8') if isinstance(content, str) else content
    if out is None:
        typer.echo(data, nl=False)
        return
    write_file(out, data)
    if as_json:
        print_json({'out': str(out), 'format': format, 'tasks': len(tasks)})
    else:
        say(f'{len(tasks)} tasks written to {out}')


@contextmanager
def _documents(home: Path | None) -> Iterator[Documents]:
    database = Database(settings(home=home).database_url)
    database.migrate()
    try:
        yield Documents(database)
    finally:
        database.close()


def _choice(name: str) -> Choice:
    known: dict[str, Choice] = {choice: choice for choice in get_args(Choice)}
    if name not in known:
        raise ConfigError(f'{name!r} is nothing to do with a conflict', hint=f'Use one of {", ".join(known)}.')
    return known[name]


def _show_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        print_json([row.to_json() for row in plan.rows])
        return
    rows: list[Any] = [(_where(row), row.status, row.title, row.reason) for row in plan.rows]
    print_table(['where', 'result', 'task', 'reason'], rows)
    for row in plan.rows:
        _say_row(row)
    if plan.skipped:
        say(f'{len(plan.skipped)} files belong to no task: {", ".join(plan.skipped[:5])}')
    say('Nothing was stored.')


def _say_row(row: PlanRow) -> None:
    """What was refused, and what could not be carried over."""
    if row.status == 'refused':
        for error in row.errors:
            at = f'{error.loc}: ' if error.loc else ''
            say(f'{_where(row)}: refused: {at}{error.msg}', error=True)
    for warning in row.found.warnings[:_SHOWN_WARNINGS]:
        say(f'{_where(row)}: note: {warning}')
    if len(row.found.warnings) > _SHOWN_WARNINGS:
        say(f'{_where(row)}: and {len(row.found.warnings) - _SHOWN_WARNINGS} more (all of them with --json)')


def _where(row: PlanRow) -> str:
    if row.found.where == row.found.source:
        return row.found.source
    return f'{row.found.source}, {row.found.where}'
