"""Measures what isolation a sandbox really gives on this machine: each row is an attempt that has to fail."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from trainer.errors import RlvrError, SandboxError
from trainer.sandbox import Isolation, Limits, Sandbox, SandboxSpec, open_sandbox
from trainer.sandbox.inside import attempts
from trainer.sandbox.python_env import sandbox_interpreter

PROBE_LIMITS: Final = Limits(
    command_s=5.0,
    memory_bytes=192 * 1024**2,
    processes=40,
    file_bytes=2 * 1024**2,
    disk_bytes=8 * 1024**2,
    inodes=500,
)
"""Small, so that running into each of them takes little time."""


class ProbeRow(BaseModel):
    """One attempt: ``ok`` when the sandbox stood up to it; ``detail`` says what happened."""

    model_config = ConfigDict(frozen=True, extra='forbid')

    name: str
    ok: bool
    detail: str = ''


class ProbeReport(BaseModel):
    """What isolation is in force. ``proven`` when every row is; ``fix`` says what to do when there is none at all."""

    model_config = ConfigDict(frozen=True, extra='forbid')

    name: str
    proven: bool
    rows: tuple[ProbeRow, ...]
    duration_ms: int = Field(ge=0)
    fix: str = ''


def probe(isolation: Isolation | None = None) -> ProbeReport:
    """Attack a sandbox of this kind and report; about a second. A missing backend is a report with the fix."""
    started = time.monotonic()
    name = isolation or 'bubblewrap'
    fix = ''
    try:
        with open_sandbox(SandboxSpec(limits=PROBE_LIMITS), isolation=isolation) as sandbox:
            rows = [*_inside(sandbox), *_lifetime(sandbox)]
    except RlvrError as error:
        rows = [ProbeRow(name='available', ok=False, detail=error.message)]
        fix = error.hint
    missing = [row.name for row in rows if not row.ok]
    if not fix and missing:
        fix = f'Weaker sandbox, without: {", ".join(missing)}. Do not run code of a model you do not trust in it.'
    return ProbeReport(
        name=name,
        proven=not missing,
        rows=tuple(rows),
        duration_ms=round((time.monotonic() - started) * 1000),
        fix=fix,
    )


def _inside(sandbox: Sandbox) -> list[ProbeRow]:
    """Run the attempts that a program inside can make and judge by itself."""
    with _bait() as bait:
        done = sandbox.run(
            [sandbox_interpreter().path, '-I', '-S', '-c', _ATTEMPTS], channel=json.dumps(bait.known).encode()
        )
        reached = bait.reached()
    try:
        found = json.loads(done.channel)
        rows = [ProbeRow(name=title, ok=found[key][0] is True, detail=str(found[key][1])) for key, title in _TITLES]
    except (ValueError, LookupError, TypeError):
        raise SandboxError(f'the probe did not finish inside the sandbox: {done.text[-300:]}') from None
    if reached:
        rows[0] = rows[0].model_copy(update={'ok': False, 'detail': f'the host was reached by {reached}'})
    return rows


def _lifetime(sandbox: Sandbox) -> list[ProbeRow]:
    """Try to outlive a command, with and without a time limit; the host looks for who is left."""
    mark = f'9{secrets.randbelow(10**9):09d}'
    done = sandbox.run(f'(setsid nohup sleep {mark} >/dev/null 2>&1 &); sleep 0.05; cat /proc/[0-9]*/cmdline')
    left = _running(mark)
    # Without a look at the process while it ran, a shell that never started it would pass.
    tried = f'sleep\0{mark}\0'.encode() in done.output
    rows = [
        ProbeRow(
            name='nothing outlives a command', ok=tried and not left, detail=_left(left) if tried else 'nothing started'
        )
    ]
    started = time.monotonic()
    done = sandbox.run(f'setsid sleep {mark} & sleep 60', timeout_s=0.2)
    seconds = time.monotonic() - started
    left = _running(mark)
    in_time = done.timed_out and seconds < 2
    return [
        *rows,
        ProbeRow(
            name='a time limit ends grandchildren',
            ok=in_time and not left,
            detail=f'returned after {seconds:.1f} s, {_left(left)}',
        ),
    ]


def _left(pids: list[int]) -> str:
    return f'{len(pids)} processes left' if pids else 'no process left'


def _running(mark: str) -> list[int]:
    """Return processes of the whole machine whose command line holds ``mark``."""
    found = []
    for place in Path('/proc').glob('[0-9]*/cmdline'):
        with contextlib.suppress(OSError):
            if mark.encode() in place.read_bytes().split(b'\0'):
                found.append(int(place.parent.name))
    return found


class _Bait:
    """Things on the host that a sandbox must not reach."""

    def __init__(self, known: dict[str, Any], listeners: dict[str, socket.socket]) -> None:
        self.known = known
        self._listeners = listeners

    def reached(self) -> str:
        """Name the listeners that something arrived at."""
        return ', '.join(name for name, listener in self._listeners.items() if _arrived(listener))


def _arrived(listener: socket.socket) -> bool:
    listener.setblocking(False)
    act: Callable[[], object] = listener.accept if listener.type == socket.SOCK_STREAM else lambda: listener.recv(1)
    try:
        taken = act()
    except BlockingIOError:
        return False
    if isinstance(taken, tuple):
        taken[0].close()
    return True


@contextlib.contextmanager
def _bait() -> Iterator[_Bait]:
    token = secrets.token_hex(16)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix='rlvr-probe-'))
        secret = Path(folder, 'secret.txt')
        secret.write_text(token, encoding='utf-8')
        listeners = {
            'TCP': stack.enter_context(socket.create_server(('127.0.0.1', 0))),
            'UDP': stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
            'an abstract socket': stack.enter_context(socket.socket(socket.AF_UNIX)),
        }
        listeners['UDP'].bind(('127.0.0.1', 0))
        listeners['an abstract socket'].bind(f'\0rlvr-probe-{token[:8]}')
        listeners['an abstract socket'].listen()
        neighbour = subprocess.Popen(['sleep', '60'], env={'RLVR_PROBE_TOKEN': token})
        stack.callback(neighbour.wait)
        stack.callback(neighbour.kill)
        yield _Bait(
            {
                'token': token,
                'secret': str(secret),
                'home': str(Path.home()),
                'neighbour': neighbour.pid,
                'tcp': listeners['TCP'].getsockname()[1],
                'udp': listeners['UDP'].getsockname()[1],
                'abstract': f'\0rlvr-probe-{token[:8]}',
                'memory': PROBE_LIMITS.memory_bytes,
                'processes': PROBE_LIMITS.processes,
                'file': PROBE_LIMITS.file_bytes,
                'disk': PROBE_LIMITS.disk_bytes,
            },
            listeners,
        )


_TITLES: Final = (
    ('network', 'no network'),
    ('files', 'no host files'),
    ('processes', 'no host processes'),
    ('environments', 'no secret in an environment'),
    ('signals', 'no signals to the outside'),
    ('write', 'no writing outside the workspace'),
    ('privileges', 'no privileges'),
    ('namespaces', 'no new namespaces'),
    ('kernel', 'no tracing, no io_uring'),
    ('forks', 'a limit on processes'),
    ('memory', 'a limit on memory'),
    ('file_size', 'a limit on file size'),
    ('disk', 'a limit on disk space'),
)

_ATTEMPTS: Final = Path(attempts.__file__).read_text(encoding='utf-8')
