"""How commands answer: one JSON value or a table on stdout, words on stderr; and what they share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import typer

from trainer.errors import ConfigError, FieldError, TaskError
from trainer.manifest import parse_tasks
from trainer.task import TaskFile

if TYPE_CHECKING:
    from studio.settings import Settings
    from trainer.sandbox import Isolation

_SHOWN_FIELDS: Final = 20
Row = TypeVar('Row', covariant=True)


class _Page(Protocol[Row]):
    @property
    def rows(self) -> Sequence[Row]: ...
    @property
    def total(self) -> int: ...


def settings(**options: Any) -> Settings:
    """Settings of the environment, with what was given on the command line. Raises ``ConfigError``."""
    from pydantic import ValidationError

    from studio.settings import Settings
    from trainer.validation import field_errors

    try:
        return Settings(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        fields = field_errors(error, Settings)
        raise ConfigError(f'The settings are not valid: RLVR_{fields[0].loc.upper()}: {fields[0].msg}') from None


def read_text(path: Path) -> str:
    """The text of a file. Raises ``ConfigError``."""
    try:
        return path.read_text(encoding='utf-8-sig')
    except OSError as error:
        raise ConfigError(f'{path} cannot be read: {error.strerror}') from error
    except UnicodeDecodeError as error:
        raise ConfigError(f'{path} is no UTF-8 text, at byte {error.start}', hint='Save it as UTF-8.') from error


def check_free(path: Path, *, force: bool) -> None:
    """Refuse to replace what nobody agreed to lose; an empty file is nothing. Raises ``ConfigError``."""
    if not force and path.is_file() and path.stat().st_size:
        raise ConfigError(f'{path} is there already', hint='Name another file with --out, or replace it with --force.')


def write_file(path: Path, data: bytes) -> None:
    """Write a file that was named on the command line. Raises ``ConfigError``."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ConfigError(f'{path} cannot be written: {error.strerror}', hint='Name another --out.') from error


def every_row(page_at: Callable[[int], _Page[Row]]) -> list[Row]:
    """The rows of all pages of a list, of which ``page_at`` reads one, from 1 on."""
    page = page_at(1)
    rows, number = list(page.rows), 1
    while len(rows) < page.total and page.rows:
        number += 1
        page = page_at(number)
        rows += page.rows
    return rows


def print_json(value: object) -> None:
    """One JSON value to stdout, UTF-8 whatever the locale."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        data = text.encode('utf-8')
    except UnicodeEncodeError:  # half a character in somebody's text
        data = json.dumps(value, allow_nan=False).encode('ascii')
    typer.echo(data)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table to stdout; cells are shown as they are, never read as markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style='bold')
    for column in columns:
        table.add_column(column, overflow='fold')
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(soft_wrap=False).print(table)


def say(message: str, *, error: bool = False) -> None:
    """A line to stderr."""
    typer.secho(message, err=True, fg='red' if error else None)


def say_error(message: str, hint: str = '', fields: Sequence[FieldError] = (), *, as_json: bool) -> None:
    """What went wrong, to stderr: in words, or as one JSON object ``{"error", "hint", "fields"}`` on a line."""
    if as_json:
        shown = {'error': message, 'hint': hint, 'fields': [field.model_dump() for field in fields]}
        typer.echo(json.dumps(shown, ensure_ascii=True), err=True)
        return
    say(f'Error: {message}', error=True)
    for field in [field for field in fields if field.msg != message][:_SHOWN_FIELDS]:
        say(f'  {field.loc}: {field.msg}' if field.loc else f'  {field.msg}')
    if hint:
        say(hint)


def say_notes(notes: Iterable[FieldError]) -> None:
    """What was clamped or adjusted, to stderr."""
    for note in notes:
        say(f'Note: {note.loc} {note.msg}')


def one_task(path: Path, line: int | None = None) -> TaskFile:
    """The task of a file, or the one on a line. Raises ``TaskError`` with the path of each bad field."""
    tasks = [(number, task) for number, task in parse_tasks(path) if line in (None, number)]
    if not tasks:
        raise TaskError(f'{path} holds no task' + (f' on line {line}' if line else ''))
    if len(tasks) > 1:
        raise TaskError(f'{path} holds {len(tasks)} tasks', hint='Choose one with --line N.')
    number, task = tasks[0]
    if isinstance(task, TaskError):
        raise TaskError(f'{path}, line {number}, is no valid task', task.fields)
    return task


def isolation(*, unsafe: bool) -> Isolation:
    """The isolation to run model-written code in. Raises ``SandboxUnavailable`` where there is none and none was asked.

    Making a sandbox takes about a tenth of a second, and is the only proof that one can be made.
    """
    kind: Isolation = 'unsafe' if unsafe else settings().sandbox
    if kind == 'unsafe':
        return kind
    from trainer.errors import SandboxUnavailable
    from trainer.sandbox import open_sandbox

    try:
        open_sandbox(isolation=kind).close()
    except SandboxUnavailable as error:
        raise SandboxUnavailable(
            f'Refused to run model-written code without isolation: {error.message}',
            hint=f'{error.hint} Or accept the risk with --unsafe-sandbox.'.strip(),
        ) from error
    return kind
