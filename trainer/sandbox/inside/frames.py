"""Messages between the host and a sandbox: a length, one byte of kind, then byte strings. Nothing is ever evaluated."""

from __future__ import annotations

import os
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_FRAME = 80 * 1024 * 1024
"""Bytes of the longest message either side accepts."""

CONFIGURE = b'C'
RUN = b'R'
READ = b'G'
WRITE = b'P'
LIST = b'L'
EXPORT = b'X'
IMPORT = b'M'
SAVE = b'S'
RESTORE = b'T'
RECORD = b'd'
END = b'.'
OK = b'+'
REFUSED = b'-'

TIMED_OUT = b'T'
OUT_OF_MEMORY = b'M'
TOO_MANY_FILES = b'F'

LENGTH = Struct('>I')


class BrokenFrame(Exception):
    """A message that does not follow the format, or is longer than allowed."""


def pack(fields: list[bytes]) -> bytes:
    """Join byte strings, each behind its length (4 bytes, big endian)."""
    return b''.join([part for field in fields for part in (LENGTH.pack(len(field)), field)])


def unpack(data: bytes) -> list[bytes]:
    """Undo ``pack``. Raises ``BrokenFrame``."""
    fields = []
    position = 0
    while position < len(data):
        start = position + 4
        if start > len(data):
            raise BrokenFrame('a field has no length')
        position = start + LENGTH.unpack_from(data, position)[0]
        if position > len(data):
            raise BrokenFrame('a field is longer than its message')
        fields.append(data[start:position])
    return fields


def cost(fields: Sequence[bytes]) -> int:
    """Bytes that a record takes in memory, roughly."""
    return sum(len(field) + 64 for field in fields)


def frame(kind: bytes, fields: list[bytes]) -> bytes:
    """Build a whole message."""
    body = kind + pack(fields)
    if len(body) > MAX_FRAME:
        raise BrokenFrame(f'a message of {len(body)} bytes is longer than allowed')
    return LENGTH.pack(len(body)) + body


def send(fd: int, kind: bytes, fields: list[bytes]) -> None:
    """Write a whole message to a blocking descriptor."""
    data = memoryview(frame(kind, fields))
    while data:
        data = data[os.write(fd, data) :]


def receive(fd: int) -> tuple[bytes, list[bytes]]:
    """Read a whole message from a blocking descriptor. Raises ``EOFError`` at its end and ``BrokenFrame``."""
    length = LENGTH.unpack(_exactly(fd, 4))[0]
    if not 1 <= length <= MAX_FRAME:
        raise BrokenFrame(f'a message of {length} bytes')
    body = _exactly(fd, length)
    return body[:1], unpack(body[1:])


def _exactly(fd: int, size: int) -> bytes:
    data = b''
    while len(data) < size:
        chunk = os.read(fd, min(size - len(data), 1 << 20))
        if not chunk:
            raise EOFError
        data = data + chunk if data else chunk
    return data
