"""ULIDs: 26 characters that sort by time of creation and are safe as names of folders."""

from __future__ import annotations

import secrets
import time
from typing import Final

ALPHABET: Final = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'


def new_id() -> str:
    """A fresh ULID: 48 bits of milliseconds, then 80 random bits, in Crockford's base 32."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return ''.join(ALPHABET[(value >> shift) & 31] for shift in range(125, -5, -5))


def is_id(text: str) -> bool:
    """Whether a text is spelt like a ULID."""
    return len(text) == 26 and set(text) <= set(ALPHABET)
