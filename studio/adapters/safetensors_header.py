"""The header of a safetensors file, read and proven without loading a tensor: a file of others may claim anything.

Format: eight bytes with the length of a JSON object (little endian), the object, then the bytes of the tensors.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

from trainer.validation import Document

MAX_HEADER_BYTES: Final = 64 * 1024**2
MAX_DIMENSIONS: Final = 8
BYTES: Final = {
    'F64': 8, 'F32': 4, 'F16': 2, 'BF16': 2, 'F8_E4M3': 1, 'F8_E5M2': 1,
    'I64': 8, 'I32': 4, 'I16': 2, 'I8': 1, 'U64': 8, 'U32': 4, 'U16': 2, 'U8': 1, 'BOOL': 1,
}  # fmt: skip


class Tensor(Document):
    """One tensor as the header describes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class BadHeader(ValueError):
    """A file that is no whole safetensors file; ``where`` names the tensor, or is empty."""

    def __init__(self, message: str, where: str = '') -> None:
        super().__init__(message)
        self.where = where


def read_header(path: Path) -> tuple[Tensor, ...]:
    """The tensors of a file, which together fill it to the last byte. Raises ``BadHeader``."""
    size = path.stat().st_size
    with path.open('rb') as file:
        length = int.from_bytes(file.read(8), 'little')
        if size < 8 or length > min(MAX_HEADER_BYTES, size - 8):
            raise BadHeader('is no safetensors file: its header is longer than the file or than any header is')
        header = _object(file.read(length))
    placed = sorted(
        (_tensor(name, entry) for name, entry in header.items() if name != '__metadata__'), key=lambda one: one[1]
    )
    end = 0
    for tensor, (first, last) in placed:
        if first != end:
            raise BadHeader('does not begin where the tensor before it ends', tensor.name)
        end = last
    if end != size - 8 - length:
        raise BadHeader(f'is cut off or too long: its tensors take {end:,} bytes, and {size - 8 - length:,} follow')
    return tuple(tensor for tensor, _ in placed)


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data.decode('utf-8'), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise BadHeader(f'has a header that is no JSON: {error}') from None
    if not isinstance(found, dict):
        raise BadHeader('has a header that is no JSON object')
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadHeader('names a tensor twice')
    return found


def _tensor(name: str, entry: Any) -> tuple[Tensor, tuple[int, int]]:
    if not isinstance(entry, dict) or set(entry) != {'dtype', 'shape', 'data_offsets'}:
        raise BadHeader('must have dtype, shape and data_offsets, and nothing else', name)
    dtype, shape, offsets = entry['dtype'], entry['shape'], entry['data_offsets']
    if not isinstance(dtype, str) or dtype not in BYTES:
        raise BadHeader(f'has the unknown dtype {str(dtype)[:40]!r}', name)
    if not _sizes(shape) or len(shape) > MAX_DIMENSIONS:
        raise BadHeader(f'has no shape: {str(shape)[:80]}', name)
    if not _sizes(offsets) or len(offsets) != 2 or offsets[1] < offsets[0]:
        raise BadHeader(f'has no data_offsets: {str(offsets)[:80]}', name)
    wanted = math.prod(shape) * BYTES[dtype]
    if offsets[1] - offsets[0] != wanted:
        raise BadHeader(f'takes {offsets[1] - offsets[0]:,} bytes, and its shape needs {wanted:,}', name)
    return Tensor(name=name, dtype=dtype, shape=tuple(shape)), (offsets[0], offsets[1])


def _sizes(value: Any) -> bool:
    """Whether a value is a list of sizes; ``True`` is no number here."""
    return isinstance(value, list) and all(type(one) is int and 0 <= one < 2**48 for one in value)
