"""How the limits of a sandbox are put into force: resource limits by name, and bounds on what runs at once."""

from __future__ import annotations

import os
import threading
import time
from typing import Final

from trainer.sandbox.protocol import Limits

CORES: Final = os.cpu_count() or 1
YOUNG_S: Final = 0.5


class Gate:
    """Lets commands through: at most ``most`` at once, and of those that began a moment ago only ``few``.

    Short ones then end one after the other instead of all at the end, and leave the trainer its share of the
    processor; those that wait for something do not hold up the others.
    """

    def __init__(self, few: int, most: int, *, young_s: float = YOUNG_S) -> None:
        self._few = few
        self._most = most
        self._young_s = young_s
        self._changed = threading.Condition()
        self._began: dict[int, float] = {}

    def __enter__(self) -> None:
        """Wait until there is room."""
        with self._changed:
            while (wait_s := self._full()) != 0:
                self._changed.wait(wait_s)
            self._began[threading.get_ident()] = time.monotonic()

    def __exit__(self, *error: object) -> None:
        """Make room."""
        with self._changed:
            del self._began[threading.get_ident()]
            self._changed.notify_all()

    def _full(self) -> float | None:
        """Seconds to wait, ``None`` for until something ends."""
        if len(self._began) >= self._most:
            return None
        now = time.monotonic()
        young = [began for began in self._began.values() if now - began < self._young_s]
        return 0 if len(young) < self._few else min(young) + self._young_s - now


running_commands: Final = Gate(CORES + 1, 4 * CORES)
"""Held by a thread while its command runs: a group of episodes must not starve the trainer of the processor."""

starting_sandboxes: Final = threading.BoundedSemaphore(max(2, CORES))
"""Held while a sandbox is made, which is all computing."""


def resource_limits(limits: Limits, *, own_user: bool) -> str:
    """Return the resource limits that the server sets, one ``NAME=value`` a word.

    RLIMIT_DATA and not RLIMIT_AS: threads and large reservations that are never touched must keep working. Without a
    user namespace of its own (``own_user`` false) the kernel would count all the user's processes: no RLIMIT_NPROC.
    """
    chosen = {
        'RLIMIT_CORE': 0,
        'RLIMIT_DATA': limits.memory_bytes,
        'RLIMIT_FSIZE': limits.file_bytes,
        'RLIMIT_NOFILE': limits.open_files,
    }
    if own_user:
        chosen['RLIMIT_NPROC'] = limits.processes
    return ' '.join(f'{name}={value}' for name, value in chosen.items())
