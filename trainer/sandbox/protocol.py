"""What every isolation backend offers: one workspace, many commands, and an end that leaves nothing behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from trainer.errors import RlvrError
from trainer.sandbox.inside.frames import cost


class PathRefused(RlvrError):
    """A file tool cannot use this path: missing, outside the workspace, not of the kind asked for, or no space left."""


@dataclass(frozen=True)
class Limits:
    """What one sandbox may use. Bytes, seconds and counts."""

    command_s: float = 30.0
    memory_bytes: int = 2 * 1024**3
    processes: int = 256
    file_bytes: int = 256 * 1024**2
    disk_bytes: int = 512 * 1024**2
    inodes: int = 20_000
    open_files: int = 512
    output_bytes: int = 64 * 1024
    """Bytes of a command's output that are kept: half from the head, half from the tail."""


@dataclass(frozen=True)
class ExecResult:
    """How one command ended.

    ``exit_code`` is negative for a signal, as in ``subprocess``; ``None`` when a limit ended the command.
    ``output`` is stdout and stderr as they came, with a mark where ``cut_bytes`` were dropped.
    ``channel`` is what the command wrote to its private channel (empty when none was asked for).
    """

    exit_code: int | None
    output: bytes = b''
    cut_bytes: int = 0
    timed_out: bool = False
    out_of_memory: bool = False
    too_many_files: bool = False
    duration_ms: int = 0
    channel: bytes = b''

    @property
    def text(self) -> str:
        """The output as text; bytes that are not UTF-8 become replacement marks."""
        return self.output.decode('utf-8', errors='replace')


@dataclass(frozen=True)
class Mount:
    """A host file or folder shown read-only inside the sandbox."""

    source: Path
    target: str
    shared: bool = False
    """Whether many sandboxes show it and it never changes (an environment): it may then be prepared once for all."""


@dataclass(frozen=True)
class State:
    """All files that commands have left in a sandbox for later ones, with modes, order and times of change.

    Each record stands behind the number of its place: 0 is the workspace, the others are temporary folders.
    """

    records: tuple[Sequence[bytes], ...]
    changed: tuple[bytes, ...] = (b'0', b'0', b'0')
    """When each place was changed, nanoseconds since the epoch."""

    @property
    def cost(self) -> int:
        """Bytes of memory that it takes, roughly."""
        return sum(cost(record) for record in self.records)


@dataclass(frozen=True)
class SandboxSpec:
    """How to make a sandbox: limits, read-only mounts, environment, and what the workspace starts with."""

    limits: Limits = field(default_factory=Limits)
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    path_prefix: tuple[str, ...] = ()
    """Folders put first on PATH inside the sandbox (a task's Python environment)."""
    workspace: Path | None = None
    """A host folder whose content is copied into the workspace at the start."""
    state: State | None = None
    """What another sandbox has saved, to go on from there."""


class Sandbox(Protocol):
    """One isolated workspace with a persistent command server; thread-safe only in that calls are serialised."""

    name: str
    """The isolation in force, for example ``bubblewrap``."""
    left_out: tuple[str, ...]
    """What the snapshot left out, one ``path: reason`` each; empty before it was taken."""

    def where(self, path: str) -> str:
        """How programs in this sandbox spell an inside path: ``/work/…``, or a path below a mount's target.

        The same path wherever there is real isolation; without it, the place on the host. Programs and environment
        values given to ``run`` as a sequence are translated by themselves.
        """
        ...

    def run(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        channel: bytes | None = None,
    ) -> ExecResult:
        """Run a shell command (text) or a program (sequence) in the workspace and end all it left behind.

        With ``channel``, the program gets a private two-way channel whose file descriptor number is in the
        environment variable ``RLVR_CHANNEL``; the bytes given are readable there first, and what the program
        writes comes back in ``ExecResult.channel``. Raises ``SandboxError`` when the sandbox itself is broken.
        """
        ...

    def read_file(self, path: str, *, limit: int = 1024 * 1024) -> bytes:
        """Read a regular file of the workspace, at most ``limit`` bytes. Raises ``PathRefused``."""
        ...

    def write_file(self, path: str, data: bytes) -> None:
        """Write a file of the workspace whole or not at all, making folders as needed. Raises ``PathRefused``."""
        ...

    def list_dir(self, path: str = '.') -> list[str]:
        """Names in a folder of the workspace, sorted, folders with a trailing slash. Raises ``PathRefused``."""
        ...

    def save(self) -> State | None:
        """Copy all that commands have left; ``None`` where that would lose something, or is too much to be carried.

        A sandbox made with it as ``SandboxSpec.state`` differs, for all that a command can see, in numbers that the
        system gives out (processes, inodes), in times of access and of change of inodes, and in space that was set
        aside but not written to.
        """
        ...

    def snapshot(self, target: Path) -> None:
        """End every process, then copy the workspace, sanitised, into the empty host folder ``target``.

        Regular files and folders only, links only where they stay inside, no setuid, capped in bytes, files, depth.
        The sandbox is closed afterwards.
        """
        ...

    def close(self) -> None:
        """End every process and remove the workspace. Safe to call twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
