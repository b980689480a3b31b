"""How the limits of a sandbox are put into force: resource limits by name, and a bound on commands running at once."""

from __future__ import annotations

import os
import threading
from typing import Final

from trainer.sandbox.protocol import Limits

COMMANDS_AT_ONCE: Final = 4 * (os.cpu_count() or 1)

running_commands: Final = threading.BoundedSemaphore(COMMANDS_AT_ONCE)
"""Held while a command runs: a group of episodes must not starve the trainer of the processor."""


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
