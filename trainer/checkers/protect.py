"""Protected files: which of the author's files a verdict rests on, and putting them back over a candidate's workspace.

A file counts as named where its path stands whole in the author's command or script (also after ``./``, ``/work/`` or
a ``cd`` into its folder), or where ``python -m`` names it as a module; the Makefile where the command calls make.
It does not stop a candidate from changing what the author's files read and nobody protected.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

MAKEFILES = ('GNUmakefile', 'makefile', 'Makefile')
"""Names that make looks for, the strongest first."""

_FOLDER = re.compile(r"""(?:\bcd|\s-C|--directory(?:=|\s))\s*["']?([\w./-]+)""")
_MAKE = re.compile(r"""(?:^|[\s;&|('"`/])g?make(?=$|[\s;&|)'"`])""", re.MULTILINE)
_MODULE = re.compile(r"""-m["',\s]+([A-Za-z_][\w.]*(?:["',\s]+[A-Za-z_][\w.]*)*)""")


def named_files(text: str, author_files: Mapping[str, str]) -> frozenset[str]:
    """Author's files that a command or script names."""
    folders = ['', *(_clean(match) for match in _FOLDER.findall(text))]
    modules = {word for words in _MODULE.findall(text) for word in re.split(r"""["',\s]+""", words)}
    named = {path for path in author_files if _is_named(path, text, folders, modules)}
    named |= {path for folder in _make_folders(text) if (path := makefile_in(folder, author_files))}
    return frozenset(named)


def makefile_in(folder: str, author_files: Iterable[str]) -> str:
    """The author's file that make would read in a folder, or an empty text."""
    present = set(author_files)
    return next((path for name in MAKEFILES if (path := _join(folder, name)) in present), '')


def restore(workspace: Path, author_files: Mapping[str, str], protected: Iterable[str]) -> tuple[str, ...]:
    """Put protected files back and remove what outranks them; return the paths that the candidate had changed.

    The workspace is a host folder where no process of the candidate lives. Links in the way are removed, never
    followed. Raises ``OSError``.
    """
    changed = []
    for path in sorted(protected):
        if _put_back(workspace, path, author_files[path].encode('utf-8', 'surrogatepass')):
            changed.append(path)
        for rival in _rivals(workspace, path, author_files):
            remove(rival)
            changed.append(rival.relative_to(workspace).as_posix())
    return tuple(changed)


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, whatever its permissions. Raises ``OSError``."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for folder, _, _ in os.walk(path):
        Path(folder).chmod(0o700)
    shutil.rmtree(path)


def _clean(folder: str) -> str:
    return '/'.join(part for part in folder.removeprefix('/work').split('/') if part not in ('', '.'))


def _make_folders(text: str) -> list[str]:
    """Folders in which a command or script calls make, following ``cd`` and ``-C``."""
    folders, here = [], ''
    for part in re.split(r'[;&|\n]+', text):
        if moved := re.search(r"""\bcd\s+["']?([\w./-]+)""", part):
            here = _clean(moved[1]) if moved[1].startswith('/') else _clean(f'{here}/{moved[1]}')
        if _MAKE.search(part):
            there = re.search(r"""-C["',\s]*([\w./-]+)|--directory[=\s"',]+([\w./-]+)""", part)
            folders.append(_clean(f'{here}/{there[1] or there[2]}') if there else here)
    return folders


def _join(folder: str, name: str) -> str:
    return f'{folder}/{name}' if folder else name


def _is_named(path: str, text: str, folders: list[str], modules: set[str]) -> bool:
    if path.endswith('.py') and path.removesuffix('.py').removesuffix('/__init__').replace('/', '.') in modules:
        return True
    if path.removesuffix('/__main__.py').replace('/', '.') in modules:
        return True
    for folder in folders:
        inside = path.removeprefix(f'{folder}/') if folder else path
        if (inside != path or not folder) and _stands_in(inside, text):
            return True
    return False


def _stands_in(path: str, text: str) -> bool:
    whole = rf'(?<![\w./-])(?:\./|/work/)?{re.escape(path)}(?![\w/-]|\.\w)'
    if re.search(whole, text):
        return True
    parts = path.split('/')
    return len(parts) > 1 and all(re.search(rf"""(["']){re.escape(part)}\1""", text) for part in parts)


def _put_back(workspace: Path, path: str, data: bytes) -> bool:
    """Write one file as the author wrote it; return whether anything differed."""
    target = workspace
    for part in PurePosixPath(path).parts[:-1]:
        target = target / part
        if target.is_symlink() or not target.is_dir():
            remove(target)
            target.mkdir()
        target.chmod(0o755)
    target = workspace / path
    executable = data.startswith(b'#!')
    if not target.is_symlink() and target.exists():
        mode = target.stat().st_mode
        if stat.S_ISREG(mode):
            executable = executable or bool(mode & 0o100)
            target.chmod(0o755 if executable else 0o644)
            if target.read_bytes() == data:
                return False
    remove(target)
    with target.open('xb') as file:
        file.write(data)
    target.chmod(0o755 if executable else 0o644)
    return True


def _rivals(workspace: Path, path: str, author_files: Mapping[str, str]) -> list[Path]:
    """What the candidate left that make or Python would take instead of a protected file."""
    target = workspace / path
    rivals = []
    if target.name in MAKEFILES:
        stronger = MAKEFILES[: MAKEFILES.index(target.name)]
        rivals += [target.with_name(name) for name in stronger if _join_path(path, name) not in author_files]
    if target.suffix == '.py':
        stem = target.stem
        package = target.with_name(stem)
        if not any(name.startswith(f'{_join_path(path, stem)}/') for name in author_files) and any(
            package.glob('__init__.*')
        ):
            rivals.append(package)
        rivals += [file for file in target.parent.glob('*.so') if file.name.split('.')[0] == stem]
        rivals += [file for file in (target.parent / '__pycache__').glob('*.pyc') if file.name.split('.')[0] == stem]
    return [rival for rival in rivals if rival.is_symlink() or rival.exists()]


def _join_path(path: str, name: str) -> str:
    return PurePosixPath(path).with_name(name).as_posix()
