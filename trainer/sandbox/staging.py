"""Mounts of a studio that runs as root: what an ordinary user may not read is shown from a twin with open rights.

bubblewrap is run as an ordinary user then, who may not enter every folder that root may (/root, what mkdtemp makes).
A twin is made of hard links where that is possible.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import threading
from pathlib import Path

from trainer.sandbox.leftovers import private_folder, remove_tree
from trainer.sandbox.protocol import Mount

_shared: dict[tuple[Path, int, int], Path] = {}
_lock = threading.Lock()


def staged(mount: Mount, made: list[Path]) -> Path:
    """Return the folder or file to show for ``mount``: itself where everybody can read it, else a twin.

    Twins for one sandbox are added to ``made``, for its end; those of shared mounts live as long as this process.
    """
    source = mount.source.resolve()
    if _open_to_everybody(source):
        return source
    if not mount.shared:
        made.append(private_folder('mount'))
        return _twin(source, made[-1])
    status = source.stat()
    key = (source, status.st_ino, status.st_mtime_ns)
    with _lock:
        if key not in _shared:
            folder = private_folder('mount')
            atexit.register(_remove_own, folder, os.getpid())
            _shared[key] = _twin(source, folder)
        return _shared[key]


def _remove_own(folder: Path, owner: int) -> None:
    """Remove at the end of the process that made it, not of one forked from it."""
    if os.getpid() == owner:
        remove_tree(folder)


def _open_to_everybody(source: Path) -> bool:
    wanted = 0o005 if source.is_dir() else 0o004
    mode = source.stat().st_mode
    return mode & wanted == wanted and all(above.stat().st_mode & 0o001 for above in source.parents)


def _twin(source: Path, folder: Path) -> Path:
    folder.chmod(0o711)
    twin = folder / 'mount'
    if not source.is_dir():
        _link_or_copy(str(source), str(twin))
        return twin
    shutil.copytree(source, twin, symlinks=True, copy_function=_link_or_copy)
    for place in [twin, *twin.rglob('*')]:
        if place.is_dir() and not place.is_symlink():
            place.chmod(0o755)
    return twin


def _link_or_copy(source: str, target: str) -> None:
    status = os.stat(source)
    mode = stat.S_IMODE(status.st_mode)
    wanted = 0o005 if mode & 0o100 else 0o004
    if mode & wanted == wanted and _linked(source, target):
        return
    shutil.copyfile(source, target)
    os.chmod(target, 0o755 if mode & 0o100 else 0o644)
    # Compiled Python is only taken for a source of its own time.
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _linked(source: str, target: str) -> bool:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or links are not allowed there: a copy does as well.
        return False
    return True
