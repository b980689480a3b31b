"""Text that others wrote, made fit to be looked at: control characters are seen and do nothing."""

from __future__ import annotations

import re
from typing import Final

_COLOUR: Final = re.compile(r'\x1b\[[0-9;:]*[mGKJHF]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\\\)')
_PICTURES: Final = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {127: 0x2421}
_DIRECTIONS: Final = {code: f'\u27e8U+{code:04X}\u27e9' for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_SEEN: Final = _PICTURES | _DIRECTIONS


def visible(text: str) -> str:
    """Show control characters as their pictures (``\u241b`` for an escape) and marks that turn text around by number.

    New lines and tabs stay, and so does a carriage return that only ends a line.
    """
    return text.replace('\r\n', '\n').translate(_SEEN)


def without_colours(text: str) -> str:
    """Leave out what would colour a terminal, for logs that are read and not copied."""
    return _COLOUR.sub('', text)
