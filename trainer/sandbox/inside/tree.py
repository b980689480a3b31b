"""A folder as a stream of records, and back: how workspaces enter and leave a sandbox.

The writing side trusts nothing that it reads: paths have to be plain and relative, every count and size is capped,
only regular files and folders are made, and links are kept only if following them can never leave the folder.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 64
MAX_PATH = 3000
"""Below the system's limit of 4096, so that a copy elsewhere can still be reached by its path."""
MAX_LINKS_FOLLOWED = 40
CHUNK = 256 * 1024

FOLDER = b'd'
FILE = b'f'
DATA = b'x'
LINK = b'l'
SKIPPED = b's'


class BadRecord(Exception):
    """A record that no honest sender makes."""


class TooLarge(Exception):
    """The folder holds more than the receiving side takes."""


class Exactly:
    """How to read a folder so that an exact ``TreeWriter`` makes the same: what it would not is skipped.

    Nothing is changed on the way, times of change are told too, and names come from the oldest to the newest, so that
    a copy lists them in the same order.
    """

    def __init__(self, max_entries: int, *, newest_first: bool) -> None:
        self.most_names = max_entries + 1
        self.newest_first = newest_first


def lists_newest_first(place: str) -> bool:
    """Whether a file system lists the newest name of a folder first; found out in a folder of it that is at rest."""
    trial = os.path.join(place, '.rlvr-order')
    made = [trial, os.path.join(trial, '1'), os.path.join(trial, '2')]
    for folder in made:
        os.mkdir(folder)
    order = os.listdir(trial)
    for folder in reversed(made):
        os.rmdir(folder)
    return order == ['2', '1']


def read_tree(root: str, max_entries: int, *, exactly: Exactly | None = None) -> Iterator[list[bytes]]:
    """Yield the records of a folder, parents first; what cannot be kept becomes a ``SKIPPED`` record with its reason.

    Ends with such a record where there are more than ``max_entries``. The folder must be at rest. Modes are opened up
    on the way where they bar the reader (a folder without rights), unless it is read ``exactly``.
    """
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    entries = 0
    try:
        for record in _read_folder(fd, b'', 1, exactly):
            entries += record[0] != DATA
            if entries > max_entries:
                yield [SKIPPED, record[1], b'too many files']
                return
            yield record
    finally:
        os.close(fd)


def _read_folder(folder: int, above: bytes, depth: int, exactly: Exactly | None) -> Iterator[list[bytes]]:
    for name in _names(folder, exactly):
        path = above + name
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if exactly and not _can_be_made_again(status, b'/proc/self/fd/%d/%b' % (folder, name)):
            yield [SKIPPED, path[:MAX_PATH], b'not to be made the same']
            continue
        yield from _read_entry(folder, name, path, status, depth, exactly)


def _names(folder: int, exactly: Exactly | None) -> list[bytes]:
    with os.scandir(folder) as entries:
        if exactly is None:
            return sorted(os.fsencode(entry.name) for entry in entries)
        names = [os.fsencode(entry.name) for entry, _ in zip(entries, range(exactly.most_names), strict=False)]
    return names[::-1] if exactly.newest_first else names


def _read_entry(
    folder: int, name: bytes, path: bytes, status: os.stat_result, depth: int, exactly: Exactly | None
) -> Iterator[list[bytes]]:
    mode = b'%d' % (stat.S_IMODE(status.st_mode) & 0o777)
    changed = [b'%d' % status.st_mtime_ns] if exactly else []
    if len(path) > MAX_PATH:
        yield [SKIPPED, path[:100], b'too long a path']
    elif stat.S_ISLNK(status.st_mode):
        yield [LINK, path, os.fsencode(os.readlink(name, dir_fd=folder)), *changed]
    elif stat.S_ISREG(status.st_mode):
        yield [FILE, path, mode, b'%d' % status.st_size, *changed]
        yield from _read_file(folder, name, status)
    elif not stat.S_ISDIR(status.st_mode):
        yield [SKIPPED, path, b'not a regular file']
    elif depth >= MAX_DEPTH:
        yield [SKIPPED, path, b'too many levels']
    else:
        yield [FOLDER, path, mode, *changed]
        inner = _open(folder, name, os.O_DIRECTORY, status, 0o700)
        try:
            yield from _read_folder(inner, path + b'/', depth + 1, exactly)
        finally:
            os.close(inner)


def _can_be_made_again(status: os.stat_result, path: bytes) -> bool:
    """Whether an entry is its type, permissions, content and time of change, and nothing else."""
    if os.listxattr(path, follow_symlinks=False):
        return False
    if stat.S_ISLNK(status.st_mode):
        return True
    needed = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
    mode = stat.S_IMODE(status.st_mode)
    one_name = status.st_nlink == 1 or stat.S_ISDIR(status.st_mode)
    return one_name and mode & needed == needed and mode <= 0o777


def _read_file(folder: int, name: bytes, status: os.stat_result) -> Iterator[list[bytes]]:
    """Yield the parts of a file that hold data: a hole of a terabyte costs nothing."""
    if not status.st_size:
        return
    fd = _open(folder, name, 0, status, 0o600)
    try:
        end = 0
        while True:
            try:
                start = os.lseek(fd, end, os.SEEK_DATA)
            except OSError:
                return
            end = os.lseek(fd, start, os.SEEK_HOLE)
            while start < end:
                data = os.pread(fd, min(CHUNK, end - start), start)
                if not data:
                    return
                yield [DATA, b'%d' % start, data]
                start += len(data)
    finally:
        os.close(fd)


def _open(folder: int, name: bytes, flags: int, status: os.stat_result, needed: int) -> int:
    if status.st_uid == os.geteuid() and status.st_mode & needed != needed:
        os.chmod(name, stat.S_IMODE(status.st_mode) | needed, dir_fd=folder)
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags, dir_fd=folder)


class TreeWriter:
    """Writes records into an empty folder that nobody else touches.

    ``strict`` raises ``TooLarge`` when a cap is met; otherwise the entry is left out and listed in ``left_out``.
    ``exact`` makes links wherever they lead and sets times of change: only for a folder that can do no harm with it.
    """

    def __init__(
        self, root: str, *, max_bytes: int, max_file: int, max_entries: int, strict: bool, exact: bool = False
    ) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._bytes_left = max_bytes
        self._max_file = max_file
        self._entries_left = max_entries
        self._most_paths = 2 * max_entries + 1000
        self._strict = strict
        self._exact = exact
        self._times: list[tuple[bytes, int]] = []
        self._folders = {b''}
        self._seen: set[bytes] = set()
        self._links: dict[bytes, bytes] = {}
        self._file = -1
        self._name = b''
        self._size = 0
        self.left_out: list[str] = []

    def add(self, record: list[bytes]) -> None:
        """Write one record. Raises ``BadRecord``, ``TooLarge`` or ``OSError``."""
        try:
            kind, first, *rest = record
            if kind == DATA:
                self._data(int(first), rest[0])
                return
            self._end_file()
            path = self._checked(first)
            if kind == SKIPPED:
                self._leave_out(path, rest[0].decode('utf-8', 'replace')[:80])
            elif kind == FOLDER:
                self._folder(path, int(rest[0]))
            elif kind == FILE:
                self._begin_file(path, int(rest[0]), int(rest[1]))
            elif kind == LINK:
                self._link(path, rest[0])
            else:
                raise BadRecord('a record of unknown kind')
            if self._exact:
                self._times.append((path, int(rest[-1])))
        except (ValueError, IndexError):
            raise BadRecord('a record of the wrong shape') from None

    def finish(self, inside_root: bytes = b'/work') -> None:
        """Write the links that stay inside; absolute targets below ``inside_root`` become relative ones.

        Where all is exact, links are there as they were, and times of change are set.
        """
        self._end_file()
        # Folders come after what is in them: to write into one changes its time.
        for path, changed in reversed(self._times):
            os.utime(path, ns=(changed, changed), dir_fd=self._root, follow_symlinks=False)
        self._links = {path: _relative(path, target, inside_root) for path, target in self._links.items()}
        for path, target in self._links.items():
            if target and self._stays_inside(path):
                os.symlink(target, path, dir_fd=self._root)
            else:
                self._leave_out(path, 'a link that leaves the workspace')

    def close(self) -> None:
        """Close what is open. Safe to call twice."""
        for fd in (self._file, self._root):
            if fd >= 0:
                os.close(fd)
        self._file = self._root = -1

    def _checked(self, path: bytes) -> bytes:
        """Insist on a plain relative path, new, in a folder that was made before (so no link can be on the way)."""
        parts = path.split(b'/')
        if b'\0' in path or len(path) > MAX_PATH or len(parts) > MAX_DEPTH or {b'', b'.', b'..'} & set(parts):
            raise BadRecord('a path that is not plain and relative')
        if path in self._seen:
            raise BadRecord('a path that came twice')
        if len(self._seen) >= self._most_paths:
            raise BadRecord('far more paths than allowed')
        self._seen.add(path)
        return path

    def _takes(self, path: bytes) -> bool:
        if path.rpartition(b'/')[0] not in self._folders:
            # Its folder was left out, or the sender is lying: either way there is no place for it.
            return False
        self._entries_left -= 1
        if self._entries_left < 0:
            self._leave_out(path, 'too many files')
            return False
        return True

    def _leave_out(self, path: bytes, why: str) -> None:
        if self._strict and why.startswith('too '):
            raise TooLarge(f'{path.decode("utf-8", "replace")}: {why}')
        if len(self.left_out) < 1000:
            self.left_out.append(f'{path.decode("utf-8", "replace")}: {why}')

    def _folder(self, path: bytes, mode: int) -> None:
        if self._takes(path):
            os.mkdir(path, 0o700, dir_fd=self._root)
            os.chmod(path, mode & 0o777 | 0o700, dir_fd=self._root)
            self._folders.add(path)

    def _begin_file(self, path: bytes, mode: int, size: int) -> None:
        if not self._takes(path):
            return
        if not 0 <= size <= self._max_file:
            self._leave_out(path, 'too large')
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600, dir_fd=self._root)
        self._name, self._size = path, size
        os.fchmod(self._file, mode & 0o777 | 0o600)
        os.ftruncate(self._file, size)

    def _data(self, offset: int, data: bytes) -> None:
        if self._file < 0:
            return
        if offset < 0 or offset + len(data) > self._size:
            raise BadRecord('data outside its file')
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            os.unlink(self._name, dir_fd=self._root)
            self._leave_out(self._name, 'too large together with the files before it')
            self._end_file()
            return
        view = memoryview(data)
        while view:
            written = os.pwrite(self._file, view, offset)
            offset += written
            view = view[written:]

    def _end_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _link(self, path: bytes, target: bytes) -> None:
        if self._takes(path):
            if b'\0' in target or len(target) > MAX_PATH:
                raise BadRecord('a link with an impossible target')
            if self._exact:
                os.symlink(target, path, dir_fd=self._root)
            else:
                self._links[path] = target

    def _stays_inside(self, path: bytes) -> bool:
        """Follow a link through all other links; at no moment may it climb above the folder."""
        todo = path.split(b'/')[::-1]
        done: list[bytes] = []
        followed = 0
        while todo:
            part = todo.pop()
            if part in (b'', b'.'):
                continue
            if part == b'..':
                if not done:
                    return False
                done.pop()
                continue
            target = self._links.get(b'/'.join([*done, part]))
            if target is None:
                done.append(part)
                continue
            followed += 1
            if followed > MAX_LINKS_FOLLOWED or not target:
                return False
            todo += target.split(b'/')[::-1]
        return True


def _relative(path: bytes, target: bytes, inside_root: bytes) -> bytes:
    """Rewrite an absolute target below the workspace as a relative one; empty when it points elsewhere."""
    if not target.startswith(b'/'):
        return target
    if target != inside_root and not target.startswith(inside_root + b'/'):
        return b''
    return b'../' * path.count(b'/') + (target[len(inside_root) :].lstrip(b'/') or b'.')
