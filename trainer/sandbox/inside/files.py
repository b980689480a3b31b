"""The file tools as they run inside the sandbox: paths are resolved here, so nothing on the host can be reached.

Links are followed where they stay in the workspace. What was opened is judged, never the text of its path: a link that
is swapped in between changes nothing.
"""

from __future__ import annotations

import errno
import os
import stat

from .tree import MAX_DEPTH, MAX_PATH

MAX_NAMES = 5000
MAX_SCANNED = 200_000

_WHY = {
    errno.ENOENT: 'no such file or folder',
    errno.ENOTDIR: 'a part of the path is not a folder',
    errno.EACCES: 'permission denied',
    errno.EPERM: 'permission denied',
    errno.ELOOP: 'too many links',
    errno.ENAMETOOLONG: 'the path is too long',
    errno.ENOSPC: 'no space left in the workspace',
    errno.EFBIG: 'the file is larger than allowed',
    errno.EXDEV: 'the path leaves the workspace',
    errno.EISDIR: 'this is a folder',
    errno.EINVAL: 'this is not a usable path',
}


class Refused(Exception):
    """A path or file that a tool cannot work with; the text says why."""


class Workspace:
    """The files of one workspace, by paths relative to its folder (or absolute within it)."""

    def __init__(self, root: str) -> None:
        self._root = os.fsencode(os.path.realpath(root))

    def read(self, path: bytes, limit: int) -> bytes:
        """Return at most ``limit`` bytes of a regular file."""
        with _explained(path):
            fd = self._open(path)
            try:
                _expect_file(fd)
                return _read(fd, limit)
            finally:
                os.close(fd)

    def write(self, path: bytes, data: bytes) -> None:
        """Replace a file as a whole, making the folders above it. A link is followed if it stays inside."""
        with _explained(path):
            relative = self._relative(path)
            *folders, name = relative.split(b'/')
            if name in (b'', b'.', b'..'):
                raise Refused('a file is needed, this names a folder')
            # Judged before any folder is made for it; what links make of the path is judged on the way.
            if os.path.normpath(relative).split(b'/')[0] == b'..':
                raise Refused('the path leaves the workspace')
            if len(relative) > MAX_PATH or len(folders) >= MAX_DEPTH:
                raise Refused('the path is too long')
            folder = self._folder(folders)
            try:
                folder, name, mode = self._target(folder, name)
                _replace(folder, name, data, mode)
            finally:
                os.close(folder)

    def names(self, path: bytes) -> list[bytes]:
        """Return the names in a folder, sorted, folders with a trailing slash."""
        with _explained(path):
            fd = self._open(path)
            try:
                if not stat.S_ISDIR(os.fstat(fd).st_mode):
                    raise Refused('this is not a folder')
                return _names(fd)
            finally:
                os.close(fd)

    def _relative(self, path: bytes) -> bytes:
        if not path or b'\0' in path:
            raise Refused('this is not a usable path')
        if path == self._root or path.startswith(self._root + b'/'):
            return path[len(self._root) :].lstrip(b'/') or b'.'
        if path.startswith(b'/'):
            raise Refused('the path leaves the workspace')
        return path

    def _open(self, path: bytes) -> int:
        """Get a handle on what ``path`` names, without opening it in the ordinary sense (a FIFO would block)."""
        fd = os.open(self._root + b'/' + self._relative(path), os.O_PATH | os.O_CLOEXEC)
        return self._inside(fd)

    def _inside(self, fd: int) -> int:
        where = _real_path(fd)
        if where != self._root and not where.startswith(self._root + b'/'):
            os.close(fd)
            raise Refused('the path leaves the workspace')
        return fd

    def _folder(self, parts: list[bytes]) -> int:
        """Walk down from the workspace, making what is missing; every step has to be inside."""
        current = os.open(self._root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in parts:
            above = current
            try:
                current = self._inside(_step(above, part or b'.'))
            finally:
                os.close(above)
        return current

    def _target(self, folder: int, name: bytes) -> tuple[int, bytes, int]:
        """Return folder, name and mode of the file to replace; takes over ``folder``."""
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return folder, name, 0o644
        if stat.S_ISLNK(mode):
            fd = self._inside(os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=folder))
            where = _real_path(fd)
            mode = os.fstat(fd).st_mode
            os.close(fd)
            above, name = os.path.split(where)
            opened = os.open(above, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            os.dup2(opened, folder, inheritable=False)
            os.close(opened)
        if not stat.S_ISREG(mode):
            raise Refused('this is a folder' if stat.S_ISDIR(mode) else 'this is not a regular file')
        return folder, name, stat.S_IMODE(mode) & 0o777


class _explained:
    """Turns an OSError into a ``Refused`` that names the path."""

    def __init__(self, path: bytes) -> None:
        self._path = path.decode('utf-8', 'replace')

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Refused):
            raise Refused(f'{self._path}: {error}') from None
        if isinstance(error, OSError):
            why = _WHY.get(error.errno or 0) or (error.strerror or 'cannot be used').lower()
            raise Refused(f'{self._path}: {why}') from None


def _real_path(fd: int) -> bytes:
    return os.readlink(b'/proc/self/fd/%d' % fd)


def _reopen(fd: int, flags: int) -> int:
    return os.open(b'/proc/self/fd/%d' % fd, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def _expect_file(fd: int) -> None:
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        raise Refused('this is a folder' if stat.S_ISDIR(mode) else 'this is not a regular file')


def _read(handle: int, limit: int) -> bytes:
    fd = _reopen(handle, os.O_RDONLY)
    try:
        data = bytearray()
        while len(data) < limit:
            chunk = os.read(fd, min(limit - len(data), 1 << 20))
            if not chunk:
                break
            data += chunk
        return bytes(data)
    finally:
        os.close(fd)


def _step(folder: int, name: bytes) -> int:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        os.mkdir(name, 0o755, dir_fd=folder)
        return os.open(name, flags, dir_fd=folder)


def _replace(folder: int, name: bytes, data: bytes, mode: int) -> None:
    temporary = b'.rlvr-' + os.urandom(8).hex().encode()
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(temporary, dir_fd=folder)
        raise


def _names(handle: int) -> list[bytes]:
    fd = _reopen(handle, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found = []
        with os.scandir(fd) as entries:
            for entry in entries:
                slash = b'/' if entry.is_dir(follow_symlinks=False) else b''
                found.append(os.fsencode(entry.name) + slash)
                if len(found) >= MAX_SCANNED:
                    break
    finally:
        os.close(fd)
    found.sort()
    if len(found) > MAX_NAMES:
        return [*found[:MAX_NAMES], f'… and {len(found) - MAX_NAMES} more'.encode()]
    return found
