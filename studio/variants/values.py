"""The values of variants: rows of a table (CSV, TSV or JSONL), or ranges and lists that are combined."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import Field

from studio.variants.placeholders import is_name
from trainer.errors import FieldError, TaskError
from trainer.validation import Document

MAX_VARIANTS: Final = 1_000
MAX_TABLE_CHARS: Final = 4_000_000
TableFormat = Literal['auto', 'csv', 'tsv', 'jsonl']
Combine = Literal['product', 'zip']

_RANGE: Final = re.compile(r'(-?\d+)\.\.(-?\d+)(?:(?:\.\.|\s+step\s+)(-?\d+))?')
_LETTERS: Final = re.compile(r'([A-Za-z])\.\.([A-Za-z])')


class Row(Document):
    """The values of one variant, or what is wrong with its line; ``line`` is where it began, counted from 1."""

    line: int
    values: dict[str, str] = Field(default_factory=dict)
    problem: str = ''


class Table(Document):
    """Named columns and their rows."""

    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()


def read_table(text: str, format: TableFormat = 'auto') -> Table:
    """Read a table with its names in the first line, or JSON objects, one a line; blank lines are skipped.

    A line that does not fit becomes a row with its ``problem``. Raises ``TaskError`` where there is no table at all.
    """
    text = text.removeprefix('\N{ZERO WIDTH NO-BREAK SPACE}')
    if len(text) > MAX_TABLE_CHARS:
        raise _refused('table', f'At most {MAX_TABLE_CHARS:,} characters, not {len(text):,}')
    if '\0' in text:
        raise _refused('table', 'A table is text: this one holds NUL characters')
    if not text.strip():
        return Table()
    kind = _guessed(text) if format == 'auto' else format
    table = _jsonl(text) if kind == 'jsonl' else _separated(text, '\t' if kind == 'tsv' else _delimiter(text))
    if len(table.rows) > MAX_VARIANTS:
        raise _refused('table', f'At most {MAX_VARIANTS:,} variants at a time, not {len(table.rows):,}')
    return table


def combined(ranges: Mapping[str, str], combine: Combine = 'product') -> Table:
    """Rows from ranges and lists: every combination of them, or in step, the first with the first and so on.

    Raises ``TaskError`` with ``ranges.NAME`` as its path.
    """
    values: dict[str, list[str]] = {}
    problems: list[FieldError] = []
    for name, text in ranges.items():
        try:
            _check_name(name, f'ranges.{name}')
            values[name] = expanded(text, f'ranges.{name}')
        except TaskError as error:
            problems += error.fields
    if problems:
        raise TaskError(problems[0].msg, problems)
    if not values:
        return Table()
    sizes = {name: len(found) for name, found in values.items()}
    if combine == 'zip' and len(set(sizes.values())) > 1:
        raise _refused(
            'ranges', 'In step, all need as many values: ' + ', '.join(f'{n} has {size}' for n, size in sizes.items())
        )
    count = math.prod(sizes.values()) if combine == 'product' else next(iter(sizes.values()))
    if count > MAX_VARIANTS:
        raise _refused('ranges', f'At most {MAX_VARIANTS:,} variants at a time, not {count:,}')
    picked = itertools.product(*values.values()) if combine == 'product' else zip(*values.values(), strict=True)
    rows = [Row(line=line, values=dict(zip(values, one, strict=True))) for line, one in enumerate(picked, 1)]
    return Table(columns=tuple(values), rows=tuple(rows))


def expanded(text: str, loc: str = 'ranges') -> list[str]:
    """The values of a list: ``1..20``, ``01..20`` (keeps the zeros), ``0..100 step 10``, ``a..f``, ``red, "a, b"``."""
    try:
        items = next(csv.reader([text.replace('\n', ' ')], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise _refused(loc, f'This list cannot be read: {error}') from None
    values: list[str] = []
    for item in items:
        values += _range(item.strip(), loc)
        if len(values) > MAX_VARIANTS:
            raise _refused(loc, f'At most {MAX_VARIANTS:,} values')
    if not values or values == ['']:
        raise _refused(loc, 'Write a range like 1..20, or values with commas between them')
    return values


def _range(item: str, loc: str) -> Sequence[str]:
    letters = _LETTERS.fullmatch(item)
    if letters:
        first, last = (ord(letter) for letter in letters.groups())
        return [chr(code) for code in (range(first, last + 1) if first <= last else range(first, last - 1, -1))]
    match = _RANGE.fullmatch(item)
    if not match:
        return [item]
    if max(len(part or '') for part in match.groups()) > 15:
        raise _refused(loc, f'{item}: numbers have at most 15 digits')
    first, last = int(match[1]), int(match[2])
    step = abs(int(match[3])) if match[3] else 1
    if step == 0:
        raise _refused(loc, f'{item}: the step cannot be 0')
    if abs(last - first) // step >= MAX_VARIANTS:
        raise _refused(loc, f'{item}: at most {MAX_VARIANTS:,} values')
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    padded = any(len(part.lstrip('-')) > 1 and part.lstrip('-').startswith('0') for part in match.groups()[:2])
    width = max(len(part.lstrip('-')) for part in match.groups()[:2]) if padded else 0
    return [f'{"-" if number < 0 else ""}{abs(number):0{width}d}' for number in numbers]


def _guessed(text: str) -> Literal['csv', 'tsv', 'jsonl']:
    first = text.lstrip().split('\n', 1)[0]
    if first.startswith('{'):
        return 'jsonl'
    return 'tsv' if '\t' in first else 'csv'


def _delimiter(text: str) -> str:
    first = text.lstrip().split('\n', 1)[0]
    return ';' if ';' in first and ',' not in first else ','


def _separated(text: str, delimiter: str) -> Table:
    reader = csv.reader(io.StringIO(text, newline=''), delimiter=delimiter, strict=True, skipinitialspace=True)
    rows: list[Row] = []
    columns: tuple[str, ...] = ()
    for line, cells in _records(reader):
        if isinstance(cells, str):
            rows.append(Row(line=line, problem=cells))
        elif not columns:
            columns = _names(cells, line)
        elif len(cells) != len(columns):
            rows.append(Row(line=line, problem=f'{_count(cells, "value")} for {_count(columns, "column")}'))
        else:
            rows.append(Row(line=line, values=dict(zip(columns, cells, strict=True))))
    return Table(columns=columns, rows=tuple(rows))


def _count(things: Sequence[str], word: str) -> str:
    return f'{len(things)} {word}' if len(things) == 1 else f'{len(things)} {word}s'


def _records(reader: Any) -> Iterator[tuple[int, list[str] | str]]:
    """Records with the line they begin in; the text after a broken one is not read, for it cannot be told apart."""
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, f'cannot be read: {error}'
            return
        if any(cell.strip() for cell in cells):
            yield line, cells


def _names(cells: Sequence[str], line: int) -> tuple[str, ...]:
    names = tuple(cell.strip() for cell in cells)
    for name in names:
        _check_name(name, f'table.line {line}')
        if names.count(name) > 1:
            raise _refused(f'table.line {line}', f'Two columns are named {name}')
    return names


def _check_name(name: str, loc: str) -> None:
    if not is_name(name):
        shown = f'{name[:40]!r} cannot be a name' if name else 'A column has no name'
        raise _refused(loc, f'{shown}: use letters, digits and _, not a digit first')


def _jsonl(text: str) -> Table:
    rows: list[Row] = []
    columns: dict[str, None] = {}
    for line, one in enumerate(text.split('\n'), 1):
        if one.strip():
            row = _object(one, line)
            rows.append(row)
            columns.update(dict.fromkeys(row.values))
    missing = [
        row
        if row.problem or set(row.values) == set(columns)
        else Row(
            line=row.line, problem='has no value for ' + ', '.join(name for name in columns if name not in row.values)
        )
        for row in rows
    ]
    return Table(columns=tuple(columns), rows=tuple(missing))


def _object(text: str, line: int) -> Row:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Row(line=line, problem=f'no JSON: {error}')
    if not isinstance(value, dict) or not value:
        return Row(line=line, problem='one object a line is needed, with names and values')
    values: dict[str, str] = {}
    for name, item in value.items():
        if not is_name(name):
            return Row(line=line, problem=f'{name[:40]!r} cannot be a name: use letters, digits and _')
        if isinstance(item, str):
            values[name] = item
        elif isinstance(item, bool | int | float):
            values[name] = json.dumps(item)
        else:
            return Row(line=line, problem=f'{name}: a text, a number or true/false is needed')
    return Row(line=line, values=values)


def _refused(loc: str, message: str) -> TaskError:
    return TaskError(message, [FieldError(loc=loc, msg=message)])
