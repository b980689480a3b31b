"""TensorBoard's event files: records of a length, a message and their checksums; the message is a small protobuf.

Written here because the libraries that do it import torch, which the studio never does, and the format has stood still
since 2015: ``Event {double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5}`` with
``Summary {repeated Value value = 1}`` and ``Value {string tag = 1; float simple_value = 2}``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import Final

import numpy
from numpy.typing import NDArray

LARGEST: Final = 3.4028234663852886e38
"""The largest value of a 32-bit float: what is beyond is cut to it."""
_POLYNOMIAL: Final = 0x82F63B78


def file_header(time: float) -> bytes:
    """What a file begins with; ``time`` in seconds since the epoch."""
    return records([_double(1, time) + _bytes(3, b'brain.Event:2')])


def scalars(time: float, step: int, values: Iterable[tuple[str, float]]) -> bytes:
    """The message of the values of one step by tag, for ``records``."""
    summary = b''.join(
        _bytes(1, _tag(tag) + struct.pack('<f', min(max(value, -LARGEST), LARGEST))) for tag, value in values
    )
    return _double(1, time) + b'\x10' + _varint(step) + _bytes(5, summary)


def records(messages: Sequence[bytes]) -> bytes:
    """Messages as a file holds them: each with its length before it, and the checksums of both."""
    parts: list[bytes] = []
    # Checksums are made of many messages at once, byte by byte: those of one length go together.
    for length, some in groupby(messages, key=len):
        group = list(some)
        size = struct.pack('<Q', length)
        head = size + _checksums([size])[0]
        for message, checksum in zip(group, _checksums(group), strict=True):
            parts += (head, message, checksum)
    return b''.join(parts)


def _checksums(messages: Sequence[bytes]) -> list[bytes]:
    """CRC-32C of messages of one length, masked as TFRecord files want it."""
    columns = numpy.frombuffer(b''.join(messages), numpy.uint8).reshape(len(messages), -1).T
    table, crcs = _table(), numpy.full(len(messages), 0xFFFFFFFF, numpy.uint32)
    for column in columns:
        crcs = table[(crcs ^ column) & 0xFF] ^ (crcs >> 8)
    masked = [((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF for crc in (crcs ^ 0xFFFFFFFF).tolist()]
    return [struct.pack('<I', crc) for crc in masked]


@cache
def _table() -> NDArray[numpy.uint32]:
    crcs: NDArray[numpy.uint32] = numpy.arange(256, dtype=numpy.uint32)
    for _ in range(8):
        crcs = (crcs >> 1 ^ numpy.where(crcs & 1, _POLYNOMIAL, 0)).astype(numpy.uint32)
    return crcs


@lru_cache(maxsize=1024)
def _tag(name: str) -> bytes:
    """The tag of a value, and the key of the number behind it."""
    return _bytes(1, name.encode('utf-8', 'replace')) + b'\x15'


def _double(field: int, value: float) -> bytes:
    return bytes([field << 3 | 1]) + struct.pack('<d', value)


def _bytes(field: int, data: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
