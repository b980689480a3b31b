"""Copies of final workspaces on the host, sanitised by the same rules as a sandbox's own snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from trainer.errors import SandboxError
from trainer.sandbox.inside.tree import BadRecord, TreeWriter, read_tree
from trainer.sandbox.protocol import Limits, State


def copy_workspace(source: Path, target: Path, *, limits: Limits | None = None) -> tuple[str, ...]:
    """Copy a host folder, sanitised, into the empty folder ``target``; return what was left out, ``path: reason``.

    Regular files and folders only, links only where they stay inside, no setuid, capped in bytes, files and depth.
    Nothing may change ``source`` meanwhile. Raises ``SandboxError``.
    """
    limits = limits or Limits()
    records = read_tree(str(source), limits.inodes)
    return _write(records, target, limits, root=str(source.resolve()), source=str(source))


def write_workspace(state: State, target: Path, *, limits: Limits | None = None) -> tuple[str, ...]:
    """Write the workspace of a saved state, sanitised, into the empty folder ``target``; as ``copy_workspace``."""
    records = (record[1:] for record in state.records if record[0] == b'0')
    return _write(records, target, limits or Limits(), root='/work', source='a saved workspace')


def _write(
    records: Iterable[Sequence[bytes]], target: Path, limits: Limits, *, root: str, source: str
) -> tuple[str, ...]:
    writer = TreeWriter(
        str(target), max_bytes=limits.disk_bytes, max_file=limits.file_bytes, max_entries=limits.inodes, strict=False
    )
    try:
        for record in records:
            writer.add(list(record))
        writer.finish(root.encode())
    except BadRecord as error:
        raise SandboxError(f'{source} holds {error}') from error
    except OSError as error:
        raise SandboxError(f'{source} cannot be copied to {target}: {error.strerror or error}') from error
    finally:
        writer.close()
    return tuple(writer.left_out)
