"""The host's end of a sandbox: sends requests to the command server and trusts nothing that comes back."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from trainer.errors import SandboxError
from trainer.sandbox.inside import frames
from trainer.sandbox.inside.members import descendants
from trainer.sandbox.inside.tree import BadRecord, TreeWriter, read_tree
from trainer.sandbox.limits import resource_limits, running_commands
from trainer.sandbox.protocol import ExecResult, Limits, Mount, PathRefused, SandboxSpec, State

GRACE_S: Final = 20.0
"""Seconds beyond a command's own limit after which a silent server counts as broken."""
MAX_COMMAND_S: Final = 86_400.0
TRANSFER_S: Final = 120.0
MAX_STATE_BYTES: Final = 16 * 1024**2
MAX_STATE_ENTRIES: Final = 2000
"""More than this costs more to carry over than most commands take."""
CLOSE_S: Final = 10.0
BASE_PATH: Final = '/usr/local/bin:/usr/bin:/bin'


@dataclass(frozen=True)
class Launched:
    """A command server that was started: its process, the host's end of its socket, and where its files are."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    workspace: str
    mounts: tuple[Mount, ...] = ()
    """Mounts that could only be had under their host paths."""
    discard: Callable[[], None] = lambda: None
    """Removes what the sandbox leaves on the host."""


class ServedSandbox:
    """A sandbox behind a command server; see ``Sandbox`` for what each method promises."""

    def __init__(self, name: str, spec: SandboxSpec, launched: Launched, *, own_user: bool) -> None:
        self.name = name
        self.left_out: tuple[str, ...] = ()
        """What the snapshot left behind, one ``path: reason`` each."""
        self._limits = spec.limits
        self._launched = launched
        self._control = launched.control
        self._lock = threading.Lock()
        self._closed = False
        self._env = self._environment(spec)
        _open_sandboxes.add(self)
        try:
            self._configure(spec.limits, own_user)
            if spec.workspace is not None:
                self._fill(spec.workspace)
            if spec.state is not None:
                self._restore(spec.state)
        except BaseException:
            self.close()
            raise

    def where(self, path: str) -> str:
        """How programs in this sandbox spell ``path`` (``/work/…`` or a path below a mount's target)."""
        places = [('/work', self._launched.workspace)]
        places += [(mount.target, str(mount.source)) for mount in self._launched.mounts]
        for target, place in places:
            if path == target or path.startswith(target + '/'):
                return place + path[len(target) :]
        return path

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        channel: bytes | None = None,
    ) -> ExecResult:
        """Run a command in the workspace; see ``Sandbox.run``."""
        arguments = ['/bin/sh', '-c', command] if isinstance(command, str) else [self.where(part) for part in command]
        variables = self._env | {name: self.where(value) for name, value in (env or {}).items()}
        if channel is not None:
            variables['RLVR_CHANNEL'] = '3'
        if not arguments or any('\0' in text for text in (*arguments, *variables, *variables.values())):
            return ExecResult(exit_code=126, output=b'a command cannot be empty or hold a NUL character\n')
        limit = min(self._limits.command_s if timeout_s is None else timeout_s, MAX_COMMAND_S)
        request = [
            b'%f' % limit,
            frames.pack([_encode(text) for text in arguments]),
            frames.pack([_encode(f'{name}={value}') for name, value in variables.items()]),
            b'' if channel is None else b'1',
            channel or b'',
        ]
        with running_commands:
            started = time.monotonic()
            answer = self._ask(frames.RUN, request, limit + GRACE_S)
        return self._result(answer, round((time.monotonic() - started) * 1000))

    def read_file(self, path: str, *, limit: int = 1024 * 1024) -> bytes:
        """Read a file of the workspace; see ``Sandbox.read_file``."""
        limit = max(0, min(limit, frames.MAX_FRAME - 64))
        return self._one(self._ask(frames.READ, [_encode(path), b'%d' % limit]))[:limit]

    def write_file(self, path: str, data: bytes) -> None:
        """Write a file of the workspace; see ``Sandbox.write_file``."""
        if len(data) > self._limits.file_bytes or len(data) > frames.MAX_FRAME - 65536:
            raise PathRefused(f'{path}: the file is larger than allowed')
        self._ask(frames.WRITE, [_encode(path), data])

    def list_dir(self, path: str = '.') -> list[str]:
        """List a folder of the workspace; see ``Sandbox.list_dir``."""
        return [os.fsdecode(name) for name in self._ask(frames.LIST, [_encode(path)])]

    def save(self) -> State | None:
        """Copy all that commands have left; see ``Sandbox.save``."""
        records: list[list[bytes]] = []
        room = 2 * MAX_STATE_BYTES
        with self._lock:
            deadline = time.monotonic() + TRANSFER_S
            self._send(frames.SAVE, [b'%d' % MAX_STATE_BYTES, b'%d' % MAX_STATE_ENTRIES], deadline)
            while True:
                kind, fields = self._receive(deadline)
                if kind != frames.RECORD:
                    break
                records.append(fields)
                room -= frames.cost(fields)
                if room < 0:
                    raise self._broken('it sent more than it was asked for')
            try:
                self._checked(kind, fields)
            except PathRefused:
                return None
        return State(tuple(records), tuple(fields))

    def snapshot(self, target: Path) -> None:
        """Copy the sanitised workspace into an empty host folder and close; see ``Sandbox.snapshot``."""
        limits = self._limits
        writer = None
        try:
            writer = TreeWriter(
                str(target),
                max_bytes=limits.disk_bytes,
                max_file=limits.file_bytes,
                max_entries=limits.inodes,
                strict=False,
            )
            self._export(writer)
            writer.finish(os.fsencode(self._launched.workspace))
        except BadRecord as error:
            raise self._broken(f'its snapshot holds {error}') from None
        except OSError as error:
            raise SandboxError(f'the snapshot cannot be written to {target}: {error.strerror or error}') from error
        finally:
            if writer is not None:
                writer.close()
            self.close()
        self.left_out = tuple(writer.left_out)

    def close(self) -> None:
        """End every process and remove the workspace; a command that is running ends with ``SandboxError``."""
        if self._closed:
            return
        self._closed = True
        _open_sandboxes.discard(self)
        try:
            self._control.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The other end is gone already: what closing is meant to achieve.
            self._control.close()
        try:
            self._launched.process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            _kill_tree(self._launched.process)
        with self._lock:
            self._control.close()
        self._launched.discard()

    def __enter__(self) -> Self:
        """Return the sandbox itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _environment(self, spec: SandboxSpec) -> dict[str, str]:
        base = {
            'HOME': self._launched.workspace,
            'LANG': 'C.UTF-8',
            'TERM': 'dumb',
            'PYTHONDONTWRITEBYTECODE': '1',
            **{name: self.where(value) for name, value in spec.env.items()},
        }
        path = base.get('PATH', BASE_PATH)
        return base | {'PATH': ':'.join([*(self.where(folder) for folder in spec.path_prefix), path])}

    def _configure(self, limits: Limits, own_user: bool) -> None:
        fields = [
            self._launched.workspace,
            resource_limits(limits, own_user=own_user),
            *(
                str(number)
                for number in (
                    limits.memory_bytes,
                    limits.inodes,
                    limits.disk_bytes,
                    limits.file_bytes,
                    limits.output_bytes,
                )
            ),
        ]
        self._ask(frames.CONFIGURE, [_encode(field) for field in fields])

    def _fill(self, folder: Path) -> None:
        try:
            self._import(frames.IMPORT, read_tree(str(folder), self._limits.inodes))
        except OSError as error:
            raise SandboxError(f'{folder} cannot be copied into the sandbox: {error.strerror or error}') from error
        except PathRefused as error:
            raise SandboxError(f'{folder} does not fit into the sandbox: {error}') from None

    def _restore(self, state: State) -> None:
        try:
            self._import(frames.RESTORE, state.records, state.changed)
        except PathRefused as error:
            raise SandboxError(f'what another sandbox has left does not fit into this one: {error}') from None

    def _import(self, kind: bytes, records: Iterable[Sequence[bytes]], fields: Iterable[bytes] = ()) -> None:
        with self._lock:
            deadline = time.monotonic() + TRANSFER_S
            self._send(kind, fields, deadline)
            for record in records:
                self._send(frames.RECORD, record, deadline)
            self._send(frames.END, [], deadline)
            self._checked(*self._receive(deadline))

    def _export(self, writer: TreeWriter) -> None:
        with self._lock:
            deadline = time.monotonic() + TRANSFER_S
            self._send(frames.EXPORT, [], deadline)
            while True:
                kind, record = self._receive(deadline)
                if kind != frames.RECORD:
                    break
                writer.add(record)
            self._checked(kind, record)

    def _result(self, answer: list[bytes], duration_ms: int) -> ExecResult:
        try:
            code, limit, cut, output, channel = answer
            return ExecResult(
                exit_code=int(code) if code else None,
                output=output[: self._limits.output_bytes + 1024],
                cut_bytes=int(cut),
                timed_out=limit == frames.TIMED_OUT,
                out_of_memory=limit == frames.OUT_OF_MEMORY,
                too_many_files=limit == frames.TOO_MANY_FILES,
                duration_ms=duration_ms,
                channel=channel,
            )
        except ValueError:
            raise self._broken('its answer to a command has the wrong shape') from None

    def _one(self, answer: list[bytes]) -> bytes:
        if len(answer) != 1:
            raise self._broken('its answer has the wrong shape')
        return answer[0]

    def _ask(self, kind: bytes, fields: list[bytes], seconds: float = TRANSFER_S) -> list[bytes]:
        with self._lock:
            deadline = time.monotonic() + seconds
            self._send(kind, fields, deadline)
            return self._checked(*self._receive(deadline))

    def _checked(self, kind: bytes, fields: list[bytes]) -> list[bytes]:
        if kind == frames.OK:
            return fields
        if kind == frames.REFUSED and len(fields) == 1:
            raise PathRefused(fields[0][:2000].decode('utf-8', 'replace'))
        raise self._broken('it sent an answer of unknown kind')

    def _send(self, kind: bytes, fields: Iterable[bytes], deadline: float) -> None:
        try:
            self._control.settimeout(max(0.01, deadline - time.monotonic()))
            self._control.sendall(frames.frame(kind, list(fields)))
        except OSError as error:
            raise self._gone(error) from None

    def _receive(self, deadline: float) -> tuple[bytes, list[bytes]]:
        try:
            length = frames.LENGTH.unpack(self._exactly(4, deadline))[0]
            if not 1 <= length <= frames.MAX_FRAME:
                raise self._broken(f'it announced a message of {length} bytes')
            body = self._exactly(length, deadline)
            return body[:1], frames.unpack(body[1:])
        except frames.BrokenFrame as error:
            raise self._broken(f'it sent {error}') from None
        except OSError as error:
            raise self._gone(error) from None

    def _exactly(self, size: int, deadline: float) -> bytes:
        data = b''
        while len(data) < size:
            left = deadline - time.monotonic()
            if left < 0:
                # Who sends a little all the time would not be cut off otherwise.
                raise TimeoutError
            self._control.settimeout(left + 0.01)
            chunk = self._control.recv(min(size - len(data), 1 << 20))
            if not chunk:
                raise ConnectionResetError
            data = data + chunk if data else chunk
        return data

    def _gone(self, error: OSError) -> SandboxError:
        if self._closed:
            return SandboxError('the sandbox is closed')
        if isinstance(error, TimeoutError):
            return self._broken('it does not answer')
        return self._broken('its command server is gone')

    def _broken(self, why: str) -> SandboxError:
        """Drop the sandbox; called with the lock held, so closing must not wait for it."""
        self._closed = True
        _open_sandboxes.discard(self)
        self._control.close()
        _kill_tree(self._launched.process)
        self._launched.discard()
        return SandboxError(f'the {self.name} sandbox broke: {why}')


def _encode(text: str) -> bytes:
    """UTF-8, with undecodable bytes of file names restored; other lone surrogates, which no file has, become ``?``."""
    try:
        return text.encode('utf-8', 'surrogateescape')
    except UnicodeEncodeError:
        return text.encode('utf-8', 'replace')


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a launcher and all below it; the server's namespace, if it has one, ends with it."""
    # Stopped and killed last: those below belong to it as long as it is there, and can be found.
    _signal(process.pid, signal.SIGSTOP)
    killed: set[int] = set()
    while new := set(descendants(process.pid)) - killed:
        for pid in new:
            _signal(pid, signal.SIGKILL)
        killed |= new
    _signal(process.pid, signal.SIGKILL)
    process.wait()


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


_open_sandboxes: weakref.WeakSet[ServedSandbox] = weakref.WeakSet()


def _let_go_after_fork() -> None:
    """In a forked child: a copy of the control socket would keep a sandbox alive after its owner has died."""
    for sandbox in list(_open_sandboxes):
        sandbox._closed = True
        sandbox._control.close()


os.register_at_fork(after_in_child=_let_go_after_fork)
