"""The Python inside sandboxes: which interpreter it is, and a small environment of its own with pytest."""

from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainer.sandbox.protocol import Mount

SYSTEM_PYTHON: Final = Path('/usr/bin/python3')
OLDEST: Final = (3, 11)


@dataclass(frozen=True)
class Interpreter:
    """A Python that sandboxes can run: its path inside, its version, and the folder to mount for it, if any."""

    path: str
    version: tuple[int, int]
    mounts: tuple[Mount, ...] = ()


@functools.cache
def sandbox_interpreter() -> Interpreter:
    """Choose the system's Python if it is new enough (nothing to mount), else the one the studio runs on."""
    version = _version(SYSTEM_PYTHON)
    if version >= OLDEST:
        return Interpreter(str(SYSTEM_PYTHON), version)
    prefix = Path(sys.base_prefix)
    own = prefix / 'bin' / f'python{sys.version_info.major}.{sys.version_info.minor}'
    mounts = () if prefix.is_relative_to('/usr') else (Mount(prefix, str(prefix)),)
    return Interpreter(str(own), (sys.version_info.major, sys.version_info.minor), mounts)


def _version(python: Path) -> tuple[int, int]:
    if not python.exists():
        return (0, 0)
    code = 'import sys; print(*sys.version_info[:2])'
    done = subprocess.run([python, '-I', '-S', '-c', code], capture_output=True, text=True, env={}, check=False)
    major, _, minor = done.stdout.strip().partition(' ')
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)
