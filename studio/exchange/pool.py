"""What an import was given, and what formats find in it: files, the JSON values on their lines, and the tasks.

A format takes out of the pool what is its own, so that what nobody took can be named in the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final, Literal

from trainer.errors import FieldError
from trainer.task import TaskFile

MAX_LINE_BYTES: Final = 8 * 1024**2
JSON_NAMES: Final = ('.json', '.jsonl', '.ndjson', '.txt', '')


@dataclass(frozen=True)
class Incoming:
    """One thing that was handed over: a file with its name, or pasted text without one."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Entry:
    """One file: ``source`` is the file or archive it came in, ``path`` its path in that archive (or empty)."""

    source: str
    path: str
    data: bytes
    mode: int = 0o644

    @property
    def name(self) -> str:
        """What the file is called."""
        return self.path or self.source


@dataclass(frozen=True)
class Found:
    """One row of an import: a task, or why there is none; where it stood, and what could not be carried over."""

    source: str
    where: str
    format: str
    task: TaskFile | None = None
    title: str = ''
    line: int = 0
    status: Literal['draft', 'published'] | None = None
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Value:
    """One JSON value, where it stands, or why it is none."""

    source: str
    where: str
    line: int
    data: Any = None
    error: str = ''
    inside: bool = False
    """Whether it stands in a file of an archive or folder, where not every JSON file is a task."""

    def refused(self, message: str, *, format: str = '', loc: str = '') -> Found:
        """The row that says why this value is no task."""
        return refusal(self.source, self.where, message, format=format, line=self.line, loc=loc)


@dataclass
class Pool:
    """What is still to be read. ``refused`` are files that did not get in, ``skipped`` those that are no tasks."""

    entries: list[Entry] = field(default_factory=list)
    refused: list[Found] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    _values: list[Value] | None = None

    def values(self) -> list[Value]:
        """The JSON values of the text files, in order; reading them takes those files out."""
        if self._values is None:
            texts = [entry for entry in self.entries if _is_json(entry)]
            self.entries = [entry for entry in self.entries if not _is_json(entry)]
            self._values = [replace(value, inside=bool(one.path)) for one in texts for value in read_values(one)]
        return self._values

    def take(self, wanted: Callable[[Value], bool]) -> list[Value]:
        """Take the values that fit out of the pool."""
        values = self.values()
        taken = [value for value in values if wanted(value)]
        self._values = [value for value in values if not wanted(value)]
        return taken

    def take_entries(self, taken: Iterable[Entry]) -> None:
        """Take files out of the pool."""
        gone = {id(entry) for entry in taken}
        self.entries = [entry for entry in self.entries if id(entry) not in gone]


def refusal(source: str, where: str, message: str, *, format: str = '', line: int = 0, loc: str = '') -> Found:
    """A row that says why something is no task."""
    text = message[:1].upper() + message[1:]
    return Found(source, where, format, line=line, errors=(FieldError(loc=loc, msg=text),))


def read_values(entry: Entry) -> Iterator[Value]:
    """The JSON value of a file, the items of its list, or the value of each line; what is no JSON is said."""
    inside = f'{entry.path}, ' if entry.path else ''
    try:
        text = entry.data.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        where = f'{inside}byte {error.start}'
        yield Value(entry.source, where, 1, error=f'not UTF-8 at byte {error.start}: save the file as UTF-8')
        return
    whole = _parse(text)
    if isinstance(whole, dict):
        yield Value(entry.source, f'{inside}line 1', 1, whole)
        return
    if isinstance(whole, list):
        for number, item in enumerate(whole, start=1):
            yield Value(entry.source, f'{inside}item {number}', number, item)
        return
    for number, line in enumerate(text.split('\n'), start=1):
        if line.strip():
            yield _read_line(entry.source, f'{inside}line {number}', number, line)


def parse_json(text: str) -> Any:
    """One JSON value of somebody else; repeated keys, NaN and half characters are refused with ``ValueError``."""
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once)
        if '\\ud' in text.lower():
            json.dumps(value, ensure_ascii=False).encode('utf-8')
    except RecursionError:
        raise ValueError('nested too deep') from None
    except UnicodeEncodeError:
        raise ValueError('it holds half a character (a \\ud… without its other half)') from None
    return value


def _read_line(source: str, where: str, number: int, line: str) -> Value:
    if len(line.encode('utf-8', 'surrogatepass')) > MAX_LINE_BYTES:
        return Value(source, where, number, error=f'longer than {MAX_LINE_BYTES // 1024**2} MB')
    data = _parse(line)
    if isinstance(data, _Broken):
        return Value(source, where, number, error=f'not JSON: {data.reason}')
    return Value(source, where, number, data)


@dataclass(frozen=True)
class _Broken:
    reason: str


def _parse(text: str) -> Any:
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        # The row is named by its line in the file; a second count of lines would contradict it.
        return _Broken(f'{error.msg.removesuffix(" at")} at column {error.colno}')
    except ValueError as error:
        return _Broken(str(error))


def _no_constant(name: str) -> Any:
    raise ValueError(f'{name} is no JSON number')


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'the key {twice!r} is there twice')
    return found


def _is_json(entry: Entry) -> bool:
    # A file that was handed over by itself is read whatever it is called; in an archive only what looks like JSON.
    return not entry.path or PurePosixPath(entry.path).suffix.lower() in JSON_NAMES[:-2]
