"""Runs one command to its end: output kept in constant memory, limits watched, nobody left behind afterwards."""

from __future__ import annotations

import os
import select
import time
from _socket import SHUT_WR, socketpair

from . import frames
from .members import Members
from .signals import SIGPIPE, SIGXFSZ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Spawn = Callable[[bytes, list[bytes], dict[bytes, bytes], list[Any]], int]

TICK_S = 0.1
CHUNK = 65536
CHANNEL_FD = 3
CHANNEL_LIMIT = 4 * 1024 * 1024
NOT_FOUND = 127
NOT_STARTED = 126


class HostGone(Exception):
    """The host closed the control socket: this sandbox has to end."""


class Commands:
    """Runs commands for one sandbox, one at a time.

    ``control`` is the socket to the host, ``wakeup`` a descriptor that becomes readable when a child ends,
    ``memory`` and ``inodes`` are caps, ``keep`` the bytes of output that are kept, ``spawn`` starts a program.
    """

    def __init__(
        self,
        members: Members,
        control: int,
        wakeup: int,
        *,
        memory: int,
        inodes: int,
        keep: int,
        spawn: Spawn | None = None,
    ) -> None:
        self._members = members
        self._control = control
        self._wakeup = wakeup
        self._memory = memory
        self._inodes = inodes
        self._keep = keep
        self._spawn = spawn or _spawn
        self._null = os.open('/dev/null', os.O_RDONLY)
        # Kept open: a command may take away the rights to its own folder.
        self._root = os.open('.', os.O_PATH | os.O_CLOEXEC)

    def run(self, argv: list[bytes], env: dict[bytes, bytes], timeout: float, channel: Channel | None) -> list[bytes]:
        """Run a program; return exit code (empty when a limit ended it), limit, bytes cut, output, channel.

        Raises ``HostGone`` when the host closes the control socket meanwhile.
        """
        program = _find(argv[0], env.get(b'PATH', b''))
        if program is None:
            return _not_started(NOT_FOUND, argv[0] + b': not found\n')
        reader, writer = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, self._null, 0), *((os.POSIX_SPAWN_DUP2, writer, fd) for fd in (1, 2))]
        if channel is not None:
            actions.append((os.POSIX_SPAWN_DUP2, channel.theirs, CHANNEL_FD))
        try:
            pid = self._spawn(program, argv, env, actions)
        except OSError as error:
            os.close(reader)
            return _not_started(NOT_STARTED, argv[0] + b': ' + (error.strerror or 'cannot be run').encode() + b'\n')
        finally:
            os.close(writer)
            if channel is not None:
                os.close(channel.theirs)
        output = Output(reader, self._keep)
        try:
            status, limit = self._watch(pid, output, channel, time.monotonic() + timeout)
            ended = self._members.end(pid)
            output.drain()
            if channel is not None:
                channel.read_all()
        finally:
            os.close(reader)
        return _result(status if status is not None else ended, limit, output, channel)

    def _watch(self, pid: int, output: Output, channel: Channel | None, deadline: float) -> tuple[int | None, bytes]:
        poller = select.poll()
        poller.register(output.fd, select.POLLIN)
        poller.register(self._wakeup, select.POLLIN)
        poller.register(self._control, 0)
        if channel is not None:
            channel.register(poller)
        files = self._files()
        look = time.monotonic() + TICK_S
        while True:
            wait = min(deadline, look) - time.monotonic()
            for fd, event in poller.poll(max(0.0, wait * 1000)):
                self._serve(poller, fd, event, output, channel)
            status = self._members.reap(pid)
            if status is not None:
                return status, b''
            now = time.monotonic()
            if now >= deadline:
                return None, frames.TIMED_OUT
            if now >= look:
                look = now + TICK_S
                if self._members.memory(self._memory) > self._memory:
                    return None, frames.OUT_OF_MEMORY
                # Only growth ends a command: one that cleans up after an earlier one must be allowed to finish.
                before, files = files, self._files()
                if files > max(self._inodes, before):
                    return None, frames.TOO_MANY_FILES

    def _serve(self, poller: select.poll, fd: int, event: int, output: Output, channel: Channel | None) -> None:
        if fd == self._control:
            raise HostGone
        if fd == self._wakeup:
            os.read(fd, CHUNK)
        elif fd == output.fd:
            if not output.read():
                poller.unregister(fd)
        elif channel is not None:
            channel.serve(poller, event)

    def _files(self) -> int:
        usage = os.fstatvfs(self._root)
        return usage.f_files - usage.f_ffree


def _spawn(program: bytes, argv: list[bytes], env: dict[bytes, bytes], actions: list[Any]) -> int:
    return os.posix_spawn(program, argv, env, file_actions=actions, setsid=True, setsigdef=(SIGPIPE, SIGXFSZ))


class Output:
    """What a command prints: the first and the last half of ``keep`` bytes, and the number of bytes between them."""

    def __init__(self, fd: int, keep: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.cut = 0
        self._half = max(1, keep // 2)
        self._head = bytearray()
        self._tail = bytearray()

    def read(self) -> bool:
        """Take what is there; False at the end of the output."""
        try:
            chunk = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._half + CHUNK:
            self._trim()
        return True

    def drain(self) -> None:
        """Take the rest. Every writer is dead, so there is an end."""
        while self.read():
            pass

    def text(self) -> bytes:
        """Head and tail, with a mark between them where bytes were cut."""
        self._trim()
        if not self.cut:
            return bytes(self._head + self._tail)
        return bytes(self._head) + b'\n[\xe2\x80\xa6 cut, %d bytes \xe2\x80\xa6]\n' % self.cut + bytes(self._tail)

    def _trim(self) -> None:
        excess = len(self._tail) - self._half
        if excess > 0:
            self.cut += excess
            del self._tail[:excess]


class Channel:
    """A private two-way line to one program: a socket pair, because a pipe could be opened again through /proc.

    The program reads ``data`` to its end and then the end of file; what it writes is kept, up to 4 MB.
    """

    def __init__(self, data: bytes) -> None:
        ours, theirs = socketpair()
        self._socket = ours
        self.theirs = theirs.detach()
        ours.setblocking(False)
        self._data = memoryview(data)
        self.received = bytearray()

    def register(self, poller: select.poll) -> None:
        """Ask to be told when data can be read or written."""
        if not self._data:
            self._socket.shutdown(SHUT_WR)
        poller.register(self._socket.fileno(), select.POLLIN | (select.POLLOUT if self._data else 0))

    def serve(self, poller: select.poll, event: int) -> None:
        """Write what is left to write and read what is there to read."""
        fd = self._socket.fileno()
        if event & select.POLLOUT and self._data:
            self._write()
            if not self._data:
                poller.modify(fd, select.POLLIN)
        if event & (select.POLLIN | select.POLLHUP | select.POLLERR) and not self._read():
            poller.unregister(fd)

    def read_all(self) -> None:
        """Take the rest. Every holder of the other end is dead, so there is an end."""
        while self._read():
            pass
        self._socket.close()

    def _write(self) -> None:
        try:
            self._data = self._data[self._socket.send(self._data[:CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            # The program closed its end without reading everything: its choice.
            self._data = memoryview(b'')
            return
        if not self._data:
            self._socket.shutdown(SHUT_WR)

    def _read(self) -> bool:
        try:
            chunk = self._socket.recv(CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.received += chunk[: max(0, CHANNEL_LIMIT - len(self.received))]
        return bool(chunk)


def _find(program: bytes, path: bytes) -> bytes | None:
    if b'/' in program:
        return program
    for folder in path.split(b':'):
        candidate = folder + b'/' + program
        if folder.startswith(b'/') and os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    return None


def _not_started(code: int, why: bytes) -> list[bytes]:
    return [b'%d' % code, b'', b'0', why, b'']


def _result(status: int | None, limit: bytes, output: Output, channel: Channel | None) -> list[bytes]:
    text = output.text()
    code = b'' if limit or status is None else b'%d' % os.waitstatus_to_exitcode(status)
    return [code, limit, b'%d' % output.cut, text, bytes(channel.received) if channel is not None else b'']
