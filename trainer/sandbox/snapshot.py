"""Copies of final workspaces on the host: a sanitised copy of a folder, by the same rules as a sandbox's snapshot."""

from __future__ import annotations

from pathlib import Path

from trainer.errors import SandboxError
from trainer.sandbox.inside.tree import TreeWriter, read_tree
from trainer.sandbox.protocol import Limits


def copy_workspace(source: Path, target: Path, *, limits: Limits | None = None) -> tuple[str, ...]:
    """Copy a host folder, sanitised, into the empty folder ``target``; return what was left out, ``path: reason``.

    Regular files and folders only, links only where they stay inside, no setuid, capped in bytes, files and depth.
    Nothing may change ``source`` meanwhile. Raises ``SandboxError``.
    """
    limits = limits or Limits()
    writer = TreeWriter(
        str(target), max_bytes=limits.disk_bytes, max_file=limits.file_bytes, max_entries=limits.inodes, strict=False
    )
    try:
        for record in read_tree(str(source), limits.inodes):
            writer.add(record)
        writer.finish(str(source.resolve()).encode())
    except OSError as error:
        raise SandboxError(f'{source} cannot be copied to {target}: {error.strerror or error}') from error
    finally:
        writer.close()
    return tuple(writer.left_out)
