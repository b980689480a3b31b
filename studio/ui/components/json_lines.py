"""JSON as it is typed: what is wrong with it and on which line, and the line of every value by its path."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

MAX_DEPTH: Final = 100
_BLANKS: Final = ' \t\r\n'
_DECODER: Final = json.JSONDecoder()


class NotJson(ValueError):
    """The text is no JSON object; ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, line: int, column: int = 1) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


@dataclass(frozen=True)
class Read:
    """An object and the line of each of its values: ``{'checker.config.paths.0': 12}``, the object itself at ``''``."""

    value: dict[str, Any]
    lines: dict[str, int]

    def line_of(self, path: str) -> int:
        """The line of a path, or of the nearest part of it that is there."""
        while path not in self.lines:
            path = path.rpartition('.')[0]
        return self.lines[path]


def read_json(text: str) -> Read:
    """Read an object. Raises ``NotJson``, also for a key that is there twice, and for NaN and Infinity."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg, error.lineno, error.colno) from None
    except _Constant as error:
        raise NotJson(f'{error} is no number in JSON', _line(text, max(0, text.find(str(error))))) from None
    except RecursionError:
        raise NotJson('This is nested too deeply', 1) from None
    if not isinstance(value, dict):
        raise NotJson('An object is needed here: { … }', 1)
    return Read(value, _Scanner(text).lines)


class _Constant(ValueError):
    pass


def _refuse_constant(name: str) -> Any:
    raise _Constant(name)


def _line(text: str, position: int) -> int:
    return text.count('\n', 0, position) + 1


class _Scanner:
    """Walks over a text that is known to be JSON and notes where each value begins."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._counted, self._line = text, 0, 0, 1
        self.lines: dict[str, int] = {}
        self._value('', 0)

    def _value(self, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise NotJson('This is nested too deeply', self._here())
        first = self._next()
        self.lines.setdefault(path, self._here())
        if first == '{':
            self._object(path, depth)
        elif first == '[':
            self._list(path, depth)
        else:
            self._scalar()

    def _object(self, path: str, depth: int) -> None:
        seen = set()
        self._at += 1
        while self._next() != '}':
            if self._text[self._at] == ',':
                self._at += 1
                self._next()
            line = self._here()
            key = str(self._scalar())
            if key in seen:
                raise NotJson(f'The key {key!r} is there twice', line)
            seen.add(key)
            inside = f'{path}.{key}' if path else key
            self.lines[inside] = line
            self._next()
            self._at += 1
            self._value(inside, depth + 1)
        self._at += 1

    def _list(self, path: str, depth: int) -> None:
        self._at += 1
        number = 0
        while self._next() != ']':
            if self._text[self._at] == ',':
                self._at += 1
            self._value(f'{path}.{number}' if path else str(number), depth + 1)
            number += 1
        self._at += 1

    def _scalar(self) -> Any:
        value, self._at = _DECODER.raw_decode(self._text, self._at)
        return value

    def _next(self) -> str:
        while self._text[self._at] in _BLANKS:
            self._at += 1
        return self._text[self._at]

    def _here(self) -> int:
        self._line += self._text.count('\n', self._counted, self._at)
        self._counted = self._at
        return self._line
