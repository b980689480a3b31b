"""Texts and JSON values as Python source, in lines a person can read and edit."""

from __future__ import annotations

from collections.abc import Mapping
from pprint import pformat
from typing import Any


def text_source(text: str, indent: str = '    ') -> str:
    """A text as an expression: one literal a line of the text."""
    lines = text.splitlines(keepends=True)
    if len(lines) < 2:
        return repr(text)
    return '(\n' + ''.join(f'{indent}    {line!r}\n' for line in lines) + f'{indent})'


def texts_source(texts: Mapping[str, str]) -> str:
    """A dict of texts as an expression."""
    if not texts:
        return '{}'
    return '{\n' + ''.join(f'    {name!r}: {text_source(text)},\n' for name, text in texts.items()) + '}'


def value_source(value: Any) -> str:
    """A JSON value as an expression."""
    return pformat(value, width=112, sort_dicts=False)
