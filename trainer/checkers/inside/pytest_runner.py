"""Runs the author's tests over the candidate's files and reports over the private channel.

Two processes: this one reads the request and writes the answer, and never runs a line of the candidate; its child runs
the tests and reports once, with a nonce that no variable holds. Without that report there is no reward.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from trainer.checkers.inside.tests_run import run_tests

MAX_REPORT_BYTES = 2_000_000

Request = Mapping[str, Any]


def main(request: Request, send: Callable[[bytes], None]) -> None:
    """Answer one request: ``send`` gets one JSON object, what became of the tests."""
    send(json.dumps({'started': True}).encode() + b'\n')
    gc.freeze()
    nonce = os.urandom(16).hex()
    before = _fingerprints(request)
    tests = _Child(run_tests, request, nonce.encode())
    tests.wait(time.monotonic() + request['timeout_s'])
    answer = _judge(tests, nonce)
    changed = [path for path, mark in _fingerprints(request).items() if mark != before[path]]
    if changed:
        answer.setdefault('tampered', f'forged: {changed[0]} was changed while the tests ran')
    send(json.dumps(answer).encode())


def _fingerprints(request: Request) -> dict[str, tuple[int, int, int] | None]:
    """Inode, change time and size of the author's files: no program can change a file and keep all three."""
    marks: dict[str, tuple[int, int, int] | None] = {}
    for path in request['trusted']:
        try:
            found = os.lstat(path)
        except OSError:
            marks[path] = None
        else:
            marks[path] = (found.st_ino, found.st_ctime_ns, found.st_size)
    return marks


def _judge(child: _Child, nonce: str) -> dict[str, Any]:
    """Read what the process that ran the tests reported: one sealed record, or a reason why there is none."""
    seals, doubtful = [], 0
    running = ''
    for line in child.data.split(b'\n'):
        mark, _, rest = line.partition(b' ')
        if mark == nonce.encode() and rest:
            seals.append(rest)
        elif mark == b'running':
            running = rest.decode('utf-8', 'replace')
        elif line.strip():
            doubtful += 1
    if child.timed_out:
        return {'ended': 'timed out', 'running': running}
    if len(seals) > 1:
        return {'tampered': 'forged: the tests reported more than once'}
    if not seals:
        ended = {'ended': 'ended before it reported', 'status': child.status, 'running': running}
        return {**ended, 'tampered': 'forged: a false report was written'} if doubtful else ended
    try:
        return dict(json.loads(seals[0]))
    except ValueError:
        return {'tampered': 'forged: the report cannot be read'}


class _Child:
    """A forked process that writes to a pipe; its data is read here, capped, until it ends."""

    def __init__(
        self, work: Callable[[Request, Callable[[bytes], None], bytes], None], request: Request, nonce: bytes
    ) -> None:
        self.data = b''
        self.timed_out = False
        self.status: int | None = None
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reader)
            _become(work, request, writer, nonce)
        os.close(writer)
        os.set_blocking(reader, False)
        self._reader = reader
        self._pidfd = os.pidfd_open(self.pid)

    def wait(self, deadline: float) -> None:
        """Read until the process ends or the deadline passes; then it is killed."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        poll.register(self._pidfd, select.POLLIN)
        ended = False
        while not ended:
            left = deadline - time.monotonic()
            events = dict(poll.poll(max(0.0, left) * 1000))
            if not events and left <= 0:
                self.timed_out = True
                os.kill(self.pid, signal.SIGKILL)
                break
            if self._reader in events and not self._read():
                poll.unregister(self._reader)
            ended = self._pidfd in events
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        while self._read():
            pass

    def _read(self) -> bool:
        try:
            chunk = os.read(self._reader, 65536)
        except BlockingIOError:
            return False
        if len(self.data) < MAX_REPORT_BYTES:
            self.data += chunk
        return bool(chunk)


def _become(
    work: Callable[[Request, Callable[[bytes], None], bytes], None], request: Request, writer: int, nonce: bytes
) -> None:
    """Be the child: do the work and leave without any exit handler."""
    code = 1
    try:
        os.set_inheritable(writer, False)
        request['close_channel']()

        def write(data: bytes) -> None:
            while data:
                data = data[os.write(writer, data) :]

        work(request, write, nonce)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)
