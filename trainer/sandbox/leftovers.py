"""Folders on the host that belong to one process: named after it, and swept when it is dead.

A name carries the process id and the time that process started, so that a new process with an old id is not mistaken
for the owner.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

PASSING: Final = 'rlvr-'
_TAG: Final = re.compile(r'(\d+)-(\d+)-[0-9a-f]{12}$')


def owner_tag() -> str:
    """Return a new ending for a folder's name that says whose it is."""
    pid = os.getpid()
    return f'{pid}-{_started(pid)}-{uuid.uuid4().hex[:12]}'


def private_folder(kind: str) -> Path:
    """Make an empty folder that this process owns, readable by nobody else, under this user's base folder."""
    folder = base_folder() / f'{kind}-{owner_tag()}'
    folder.mkdir(mode=0o700)
    return folder


@contextlib.contextmanager
def passing_folder(kind: str) -> Iterator[Path]:
    """Lend an empty folder among the host's temporary ones, readable by nobody else, that this process owns."""
    folder = Path(tempfile.gettempdir(), f'{PASSING}{kind}-{owner_tag()}')
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):  # what is left of it is swept one day
            remove_tree(folder)


def base_folder() -> Path:
    """Return (and make) the folder that holds this user's sandbox folders; refuses one that somebody else planted."""
    above = os.environ.get('XDG_RUNTIME_DIR', '')
    base = Path(above, 'rlvr-sandbox') if above else Path(tempfile.gettempdir(), f'rlvr-sandbox-{os.geteuid()}')
    # Entering is allowed, looking around is not: bubblewrap may run as another user, who is told where to go.
    base.mkdir(mode=0o711, parents=True, exist_ok=True)
    status = base.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(f'{base} belongs to somebody else: remove it or set XDG_RUNTIME_DIR')
    return base


def sweep_leftovers() -> tuple[Path, ...]:
    """Remove what dead processes have left of sandboxes and of passing folders; return what was removed."""
    # Everybody may write where passing folders are: only this user's own are touched.
    passing = [place for place in Path(tempfile.gettempdir()).glob(f'{PASSING}*') if _is_own_folder(place)]
    return sweep_folder(base_folder()) + _remove_dead(passing)


def sweep_folder(base: Path) -> tuple[Path, ...]:
    """Remove the entries of ``base`` whose names carry a dead owner; return them."""
    return _remove_dead(base.iterdir())


def _remove_dead(places: Iterable[Path]) -> tuple[Path, ...]:
    removed = []
    for place in sorted(places):
        tag = _TAG.search(place.name)
        if tag and _started(int(tag[1])) != int(tag[2]):
            remove_tree(place)
            removed.append(place)
    return tuple(removed)


def _is_own_folder(place: Path) -> bool:
    try:
        status = place.lstat()
    except OSError:  # gone meanwhile
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def remove_tree(folder: Path) -> None:
    """Remove a folder whatever its modes and depth; one that is gone already is fine."""
    if not os.path.lexists(folder):
        return

    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):
        # Another process may be removing the same leftovers: what is gone meanwhile is as wanted.
        with contextlib.suppress(FileNotFoundError):
            _remove_level_by_level(folder)


def open_to_all(folder: Path) -> None:
    """Make a file or a folder with all in it readable by everybody: sandboxes may run as another user."""
    for place in [folder, *folder.rglob('*')]:
        if not place.is_symlink():
            mode = stat.S_IMODE(place.stat().st_mode)
            place.chmod(mode | (0o555 if place.is_dir() or mode & 0o100 else 0o444))


def _remove_level_by_level(top: Path) -> None:
    """Remove a tree with closed folders, or one deeper than any path: what is nested moves up before it is emptied."""
    prefix = f'{top}/{uuid.uuid4().hex}-'
    folders = [str(top)]
    for folder in folders:
        os.chmod(folder, 0o700)
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                os.chmod(entry.path, 0o700)
                moved = f'{prefix}{len(folders)}'
                os.rename(entry.path, moved)
                folders.append(moved)
        if folder != str(top):
            os.rmdir(folder)
    os.rmdir(top)


def _started(pid: int) -> int:
    """Clock ticks since boot at which a process started; 0 when there is none or it is dead and not yet collected."""
    try:
        text = Path(f'/proc/{pid}/stat').read_text(encoding='utf-8', errors='replace')
    except OSError:
        return 0
    # The name in parentheses may hold spaces and parentheses of its own.
    fields = text.rpartition(')')[2].split()
    return 0 if fields[0] in 'ZX' else int(fields[19])
