"""The formats an import reads and an export writes: one file each, one line here."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from studio.exchange import archive, doc_create, harbor, jsonl, openai
from studio.exchange.pool import Entry, Found, Incoming, Pool, refusal
from trainer.errors import ConfigError
from trainer.task import TaskFile

AUTO: Final = 'auto'


@dataclass(frozen=True)
class Reader:
    """A format that can be imported."""

    name: str
    title: str
    read: Callable[[Pool], Iterator[Found]]


@dataclass(frozen=True)
class Writer:
    """A format that can be exported; ``suffix`` is that of its file."""

    name: str
    title: str
    write: Callable[[Sequence[TaskFile]], str | bytes]
    suffix: str
    media_type: str


Format = TypeVar('Format', Reader, Writer)

READERS: Final = (
    Reader(harbor.NAME, 'Harbor task folders', harbor.read),
    Reader(doc_create.NAME, '/doc/create body', doc_create.read),
    Reader(openai.NAME, 'OpenAI graders', openai.read),
    Reader(jsonl.NAME, 'JSON or JSONL of tasks', jsonl.read),
)
"""In the order they look at an import; the last one takes every JSON value that is left, to say what is wrong."""

WRITERS: Final = (
    Writer(jsonl.NAME, 'JSONL, with solutions', jsonl.write, '.jsonl', 'application/jsonl'),
    Writer(harbor.NAME, 'Harbor folders in a zip', harbor.write, '.zip', 'application/zip'),
    Writer('task_spec', 'task_spec JSON', jsonl.write_specs, '.json', 'application/json'),
    Writer(doc_create.NAME, '/doc/create body', doc_create.write, '.json', 'application/json'),
)


@dataclass(frozen=True)
class Reading:
    """What an import holds: its rows, and the files that belong to no task."""

    found: tuple[Found, ...]
    skipped: tuple[str, ...] = ()


def read_all(incoming: Iterable[Incoming], format: str = AUTO) -> Reading:
    """Read whatever was handed over; with ``auto`` each part is recognised by its content.

    Raises ``ConfigError`` for a format that is not known. What cannot be read is a row, never an exception.
    """
    pool = Pool()
    for item in incoming:
        if archive.is_zip(item.data):
            entries, refused = archive.unpack(item)
            pool.entries += entries
            pool.refused += refused
        else:
            pool.entries.append(Entry(item.name, '', item.data))
    return _read_pool(pool, format)


def read_paths(paths: Sequence[Path], format: str = AUTO) -> Reading:
    """Read files, archives and folders of the command line. Raises ``ConfigError`` where one cannot be read."""
    pool = Pool()
    for path in paths:
        try:
            if path.is_dir():
                _add_folder(pool, path)
                continue
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(f'{path} cannot be read: {error.strerror}') from error
        if archive.is_zip(data):
            entries, refused = archive.unpack(Incoming(str(path), data))
            pool.entries += entries
            pool.refused += refused
        else:
            pool.entries.append(Entry(str(path), '', data))
    return _read_pool(pool, format)


def reader(name: str) -> Reader:
    """A format to import, by name. Raises ``ConfigError``."""
    return _named(name, READERS, 'import')


def writer(name: str) -> Writer:
    """A format to export, by name. Raises ``ConfigError``."""
    return _named(name, WRITERS, 'export')


def titles() -> dict[str, str]:
    """What each format is called, by name."""
    return {reader.name: reader.title for reader in READERS}


def _read_pool(pool: Pool, format: str) -> Reading:
    chosen = READERS if format == AUTO else (reader(format),)
    found = list(pool.refused)
    for one in chosen:
        found += one.read(pool)
    if format != AUTO:
        said = f'not recognised as {chosen[0].title}'
        found += [value.refused(value.error or said) for value in pool.take(lambda _: True)]
    left = [*pool.skipped, *(entry.name for entry in pool.entries)]
    if not found and left:
        found = [refusal(name, name, 'no task was recognised in it') for name in left[:100]]
        left = []
    return Reading(tuple(found), tuple(left))


def _add_folder(pool: Pool, folder: Path) -> None:
    names: list[tuple[str, str]] = []
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in ('.git', '__pycache__'))
        names += [
            ((Path(root) / name).relative_to(folder).as_posix(), _kind(Path(root) / name))
            for name in sorted([*files, *folders])
        ]
        if len(names) > archive.MAX_ENTRIES:
            raise ConfigError(f'{folder} holds more than {archive.MAX_ENTRIES} entries', hint='Import it in parts.')
    total = 0
    for (name, kind), problem in zip(names, archive.judge(names), strict=True):
        if problem:
            pool.refused.append(refusal(str(folder), name, problem))
            continue
        if kind != 'file':
            continue
        path = folder / name
        size = path.stat().st_size
        total += size
        if size > archive.MAX_ENTRY_BYTES or total > archive.MAX_TOTAL_BYTES:
            pool.refused.append(refusal(str(folder), name, 'is too large to import'))
            continue
        pool.entries.append(Entry(str(folder), name, path.read_bytes(), path.stat().st_mode & 0o777))


def _kind(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return 'link'
    if stat.S_ISDIR(mode):
        return 'folder'
    return 'file' if stat.S_ISREG(mode) else 'other'


def _named(name: str, known: Sequence[Format], what: str) -> Format:
    for one in known:
        if one.name == name:
            return one
    names = ', '.join(one.name for one in known)
    raise ConfigError(f'{name!r} is no format to {what}', hint=f'Use one of {names}.')
