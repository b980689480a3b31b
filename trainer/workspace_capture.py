"""Reads a final workspace into memory, compressed, as it is to be kept."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from trainer.kept_workspaces import MAX_BYTES, MAX_ENTRIES, MAX_FILE_BYTES, Entry, Tree
from trainer.sandbox.inside.tree import DATA, FILE, FOLDER, LINK, read_tree

MAX_HELD_BYTES: Final = 256 * 1024**2
"""Of compressed contents in memory, until their episodes are recorded."""
LEVEL: Final = 1
"""Of the compression: the quickest, for a run goes on beside it."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Packed:
    """A compressed content: one object, however many workspaces hold it."""

    data: bytes


@dataclass(frozen=True)
class Captured:
    """A workspace as it was read; can be sent to another process. ``contents`` are named by their sha256."""

    tree: Tree
    contents: dict[str, Packed]


class Capture:
    """Reads workspaces, in one thread; what is in memory already is not compressed again."""

    def __init__(self) -> None:
        self._packed: WeakValueDictionary[str, Packed] = WeakValueDictionary()

    def read(self, final: Path) -> Captured:
        """Read a folder that nobody changes any more. Raises ``OSError`` where any of it cannot be read."""
        reading = _Reading(self._packed)
        for record in read_tree(str(final), MAX_ENTRIES):
            reading.add(record)
        reading.end_file()
        tree = Tree(entries=tuple(reading.entries), left_out=tuple(reading.left_out[:1000]))
        return Captured(tree, reading.contents)


@dataclass
class _Reading:
    packed: WeakValueDictionary[str, Packed]
    entries: list[Entry] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    contents: dict[str, Packed] = field(default_factory=dict)
    left: int = MAX_BYTES
    path: bytes = b''
    mode: int = 0
    file: bytearray | None = None

    def add(self, record: list[bytes]) -> None:
        kind, first, *rest = record
        if kind == DATA:
            if self.file is not None:
                start = int(first)
                self.file[start : start + len(rest[0])] = rest[0]
            return
        self.end_file()
        if kind == FOLDER:
            self.entries.append(Entry(path=first, kind='folder', mode=int(rest[0])))
        elif kind == LINK:
            self.entries.append(Entry(path=first, kind='link', target=rest[0]))
        elif kind == FILE:
            self._begin_file(first, int(rest[0]), int(rest[1]))
        else:
            self._leave_out(first, rest[0].decode('utf-8', 'replace'))

    def end_file(self) -> None:
        """Take the file that was being read as whole."""
        if self.file is None:
            return
        data, self.file = bytes(self.file), None
        sha256 = hashlib.sha256(data).hexdigest() if data else ''
        if data and sha256 not in self.contents:
            packed = self._pack(sha256, data)
            if packed is None:
                self._leave_out(self.path, 'too large together with other workspaces')
                return
            self.contents[sha256] = packed
        self.entries.append(Entry(path=self.path, kind='file', mode=self.mode, size=len(data), sha256=sha256))

    def _begin_file(self, path: bytes, mode: int, size: int) -> None:
        if size > MAX_FILE_BYTES:
            self._leave_out(path, f'larger than {MAX_FILE_BYTES // 1024**2} MB')
        elif size > self.left:
            self._leave_out(path, f'the workspace is larger than {MAX_BYTES // 1024**2} MB')
        else:
            self.left -= size
            self.path, self.mode, self.file = path, mode, bytearray(size)

    def _pack(self, sha256: str, data: bytes) -> Packed | None:
        known = self.packed.get(sha256)
        if known is None:
            if sum(len(one.data) for one in list(self.packed.values())) + len(data) > MAX_HELD_BYTES:
                return None
            known = self.packed[sha256] = Packed(zlib.compress(data, LEVEL))
        return known

    def _leave_out(self, path: bytes, why: str) -> None:
        self.left_out.append(f'{path.decode("utf-8", "replace")}: {why}')
