"""TensorBoard's event files: records of a length, a message and their checksums; the message is a small protobuf.

Written here because the libraries that do it import torch, which the studio never does, and the format has stood still
since 2015: ``Event {double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5}`` with
``Summary {repeated Value value = 1}`` and ``Value {string tag = 1; float simple_value = 2}``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final

LARGEST: Final = 3.4028234663852886e38
"""The largest value of a 32-bit float: what is beyond is cut to it."""
_POLYNOMIAL: Final = 0x82F63B78


def file_header(time: float) -> bytes:
    """What a file begins with; ``time`` in seconds since the epoch."""
    version = b'brain.Event:2'
    return _record(_double(1, time) + _bytes(3, version))


def scalars(time: float, step: int, values: Iterable[tuple[str, float]]) -> bytes:
    """The values of one step by tag."""
    summary = b''.join(
        _bytes(1, _tag(tag) + struct.pack('<f', min(max(value, -LARGEST), LARGEST))) for tag, value in values
    )
    return _record(_double(1, time) + b'\x10' + _varint(step) + _bytes(5, summary))


def _record(message: bytes) -> bytes:
    length = struct.pack('<Q', len(message))
    return b''.join((length, _checksum(length), message, _checksum(message)))


def _checksum(data: bytes) -> bytes:
    """CRC-32C, masked as TFRecord files want it."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack('<I', ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@cache
def _table() -> tuple[int, ...]:
    return tuple(_shifted(byte) for byte in range(256))


def _shifted(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    return crc


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
