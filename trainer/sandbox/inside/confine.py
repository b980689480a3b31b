"""Starts programs confined by Landlock, a system call filter and limits, from a command server that stays outside.

Each program gives its rights up between fork and exec. The server keeps its own: nothing in the sandbox may send it a
signal or look into it, so it is there to end everybody.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import stat
import sys

from . import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION = 1
OLDEST_ABI = 6
"""Linux 6.12. Before it, programs could send signals to all processes of the user, the command server among them."""
PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
FILTER = 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
EVERYTHING = (1 << 16) - 1
READ = EXECUTE | READ_FILE | READ_DIR
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
TCP = 3
SCOPED = 3
"""No signals to processes outside, no connections to abstract sockets of others."""

libc = ctypes.CDLL(None, use_errno=True)


class _FilterProgram(ctypes.Structure):
    _fields_ = (('length', ctypes.c_ushort), ('steps', ctypes.c_void_p))


def landlock_abi() -> int:
    """Version of Landlock in this kernel; 0 where there is none or it is switched off."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)))


class Confined:
    """Starts programs that may read ``readable``, change ``writable`` and make no other use of the machine's files.

    ``program`` is the system call filter; ``processes`` bounds how many more the user may have. Raises ``OSError``.
    """

    def __init__(self, readable: Iterable[str], writable: Iterable[str], program: bytes, processes: int) -> None:
        attributes = b''.join(number.to_bytes(8, sys.byteorder) for number in (EVERYTHING, TCP, SCOPED))
        self._rules = _high(_checked(libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)))
        for paths, rights in ((readable, READ), (writable, EVERYTHING)):
            for path in paths:
                self._allow(path, rights)
        self._steps = ctypes.create_string_buffer(program, len(program))
        self._filter = _FilterProgram(len(program) // 8, ctypes.addressof(self._steps))
        self._processes = processes

    def spawn(
        self, program: bytes, argv: list[bytes], env: dict[bytes, bytes], actions: Iterable[tuple[int, int, int]]
    ) -> int:
        """Start a program in a session of its own, its descriptors duplicated as in ``posix_spawn``; return its id."""
        most = _tasks_of_user() + self._processes
        reader, low = os.pipe()
        writer = _high(low)
        pid = os.fork()
        if not pid:
            code = errno.EIO
            try:
                self._become(program, argv, env, actions, most)
            except OSError as error:
                code = error.errno or errno.EIO
            finally:
                os.write(writer, code.to_bytes(4, 'little'))
                os._exit(126)
        os.close(writer)
        with open(reader, 'rb') as report:
            failure = report.read(4)
        if failure:
            os.waitpid(pid, 0)
            number = int.from_bytes(failure, 'little')
            raise OSError(number, os.strerror(number))
        return pid

    def _become(
        self,
        program: bytes,
        argv: list[bytes],
        env: dict[bytes, bytes],
        actions: Iterable[tuple[int, int, int]],
        most: int,
    ) -> None:
        os.setsid()
        for _, ours, theirs in actions:
            os.dup2(ours, theirs)
            os.set_inheritable(theirs, True)
        for number in (signals.SIGPIPE, signals.SIGXFSZ, signals.SIGCHLD):
            signals.default(number)
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(libc.syscall(RESTRICT_SELF, self._rules, 0))
        _checked(libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(self._filter), 0, 0))
        os.execve(program, argv, env)

    def _allow(self, path: str, rights: int) -> None:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                rights &= ON_FILES
            rule = rights.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
            _checked(libc.syscall(ADD_RULE, self._rules, PATH_BENEATH, rule, 0))
        finally:
            os.close(fd)


def _high(fd: int) -> int:
    """Move a descriptor out of the way of those that programs get."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return moved


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)


def _tasks_of_user() -> int:
    """Threads that the kernel counts against this user's limit on processes."""
    count = 0
    for name in os.listdir('/proc'):
        if name.isdigit():
            try:
                if os.stat(f'/proc/{name}').st_uid == os.getuid():
                    count += len(os.listdir(f'/proc/{name}/task'))
            except OSError:
                continue
    return count
