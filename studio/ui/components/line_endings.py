"""Browsers show every line ending as a line feed; this keeps the ones a text came with, byte for byte."""

from __future__ import annotations

import re

_ENDING = re.compile('\r\n|\r')


def as_shown(text: str) -> str:
    """The text as a browser holds it: line feeds only."""
    return _ENDING.sub('\n', text)


def keep_line_endings(before: str, typed: str) -> str:
    """Carry an edit made on ``as_shown(before)`` over to ``before``: what was not touched keeps its own endings."""
    if '\r' not in before:
        return typed
    shown = as_shown(before)
    head = _common(shown, typed)
    tail = _common(shown[head:][::-1], typed[head:][::-1])
    middle = typed[head : len(typed) - tail]
    if '\n' not in before.replace('\r\n', ''):
        middle = middle.replace('\n', '\r\n')
    kept = before[: _position(before, head)] + middle + before[_position(before, len(shown) - tail) :]
    # A lone carriage return before a new line feed would become one ending: what is seen comes first.
    return kept if as_shown(kept) == typed else typed


def _common(left: str, right: str) -> int:
    """Length of the longest common start."""
    limit = min(len(left), len(right))
    low = 0
    while low < limit:
        # Doubling steps, so that long texts are compared by the interpreter and not character by character.
        step = 1
        while low + step <= limit and left[low : low + step] == right[low : low + step]:
            low += step
            step *= 2
        if step == 1:
            break
    return low


def _position(before: str, shown: int) -> int:
    """Index in ``before`` of an index in ``as_shown(before)``."""
    extra = 0
    for match in re.finditer('\r\n', before):
        if match.start() - extra >= shown:
            break
        extra += 1
    return shown + extra
