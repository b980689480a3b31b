"""A process of the trainer at the side of the studio that reports JSON lines: started, listened to, ended with it.

It runs in a session of its own, so that everything it starts can be ended with it; when this program goes away its
stdin closes, and it gives its work up by itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from studio.launchers.local import child_environment
from trainer.errors import StoreError

TAIL_LINES: Final = 40
TERM_S: Final = 5.0


class SideProcess:
    """``python -m MODULE ARGUMENTS``: ``on_line`` gets each line of stdout, ``on_end`` the exit code, in a thread.

    ``without``: environment variables it must not see.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        on_line: Callable[[bytes], None],
        on_end: Callable[[int], None],
        environment: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
    ) -> None:
        kept = {name: value for name, value in child_environment(os.environ).items() if name not in without}
        self._on_line, self._on_end = on_line, on_end
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._ending = threading.Lock()
        try:
            self._process = subprocess.Popen(
                [sys.executable, '-m', module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**kept, **(environment or {})},
                start_new_session=True,
            )
        except OSError as error:
            raise StoreError(f'{module} could not be started: {error.strerror}', hint='Try again.') from error
        self._errors = threading.Thread(target=self._keep_errors, name=f'{module} errors', daemon=True)
        self._errors.start()
        self._lines = threading.Thread(target=self._listen, name=module, daemon=True)
        self._lines.start()

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its session."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    @property
    def tail(self) -> str:
        """The last lines it wrote to stderr."""
        return '\n'.join(self._tail)

    def send(self, line: str) -> bool:
        """Write a line to its stdin; False where nobody reads any more."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(line.encode('utf-8') + b'\n')
            stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def end(self, *, term_s: float = TERM_S) -> None:
        """End it and everything it started; return when it is gone."""
        with self._ending:
            if self.alive:
                self._signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(term_s)
            self._signal(signal.SIGKILL)
            self._process.wait()
        if threading.current_thread() is not self._lines:
            self._lines.join()

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end, and for ``on_end``; returns the exit code."""
        self._lines.join(timeout_s)
        return self._process.wait(0)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _listen(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        with stdout:
            for line in stdout:
                self._on_line(line)
        code = self._process.wait()
        self._errors.join()
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(OSError):
            stdin.close()
        self._on_end(code)

    def _keep_errors(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        with stderr:
            for line in stderr:
                self._tail.append(line.decode('utf-8', 'replace').rstrip('\n')[:2000])


def how_it_ended(code: int) -> tuple[str, str]:
    """What an exit code without a word means, and what to do."""
    if code == -signal.SIGKILL:
        hint = 'End other programs that use memory, a run that trains for instance, or choose a smaller model.'
        return 'It was killed, likely for want of memory', hint
    if code < 0:
        return f'It was ended by {signal.Signals(-code).name}', 'Try again.'
    return f'It ended with exit code {code}', 'The log of the studio says more.'
