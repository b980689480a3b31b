"""A file of lines that several processes may read while one appends: each line is there whole, or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path
from typing import Final

PIECE: Final = 64 * 1024


class LineFile:
    """Appends lines; safe to use from several threads. An unfinished last line is cut off at opening.

    A line that cannot be written whole (the disk is full) leaves nothing behind. Raises ``BlockingIOError`` where
    another one, of any process, appends to the file.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._file = path.open('ab', buffering=0)
        try:
            _lock(self._file.fileno())
        except BlockingIOError:
            self._file.close()
            raise
        if path.is_file():
            os.truncate(path, whole_bytes(path))
        self._end = os.fstat(self._file.fileno()).st_size

    def append(self, line: bytes) -> int:
        """Append a line (its end is added) and return its byte offset. Raises ``OSError`` with nothing written."""
        data = memoryview(line + b'\n')
        with self._lock:
            offset = self._end
            try:
                while data:
                    data = data[self._file.write(data) :]
            except OSError:
                self._cut(offset)
                raise
            self._end += len(line) + 1
            return offset

    def close(self) -> None:
        """Flush to disk and close."""
        with self._lock:
            if not self._file.closed:
                os.fsync(self._file.fileno())
                self._file.close()

    def _cut(self, size: int) -> None:
        if os.fstat(self._file.fileno()).st_size > size:
            os.ftruncate(self._file.fileno(), size)


def _lock(descriptor: int) -> None:
    """Be the only one who has the file, until it is closed; on a file system without locks, go without."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            raise


def whole_bytes(path: Path) -> int:
    """Size of a file up to the end of its last whole line, found from the end."""
    with path.open('rb') as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - PIECE)
            file.seek(start)
            found = file.read(end - start).rfind(b'\n')
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def last_line(path: Path) -> bytes:
    """The last whole line of a file without its end, or nothing."""
    end = whole_bytes(path) - 1
    line = b''
    with path.open('rb') as file:
        while end > 0:
            start = max(0, end - PIECE)
            file.seek(start)
            piece = file.read(end - start)
            found = piece.rfind(b'\n')
            line = piece[found + 1 :] + line
            end = start if found < 0 else 0
    return line
