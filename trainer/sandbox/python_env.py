"""The Python inside sandboxes: which interpreter it is, and a small environment of its own with pytest.

A sandbox never sees the environment that the studio and the training run in: a package that a task brings along cannot
break them, and they cannot change what a task's tests see. An environment is a folder under ``<home>/envs``, named by
the hash of what is in it, built once, complete from the moment it has its name, and mounted read-only.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from trainer.errors import SandboxError
from trainer.sandbox.leftovers import open_to_all, owner_tag, remove_tree, sweep_folder
from trainer.sandbox.protocol import Mount

SYSTEM_PYTHON: Final = Path('/usr/bin/python3')
OLDEST: Final = (3, 11)
"""The oldest Python for sandboxes: the one that the packages copied from the studio's environment are resolved for."""

INSIDE: Final = '/opt/rlvr/env'
"""Where an environment is seen inside a sandbox."""

_BASE_PACKAGES: Final = ('pytest', 'pluggy', 'iniconfig', 'packaging', 'pygments')
_LAYOUT: Final = '2'
"""Changes when folders are laid out differently, so that older ones are not taken for current."""


@dataclass(frozen=True)
class Interpreter:
    """A Python that sandboxes can run: its path inside, its version, and the folder to mount for it, if any."""

    path: str
    version: tuple[int, int]
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True)
class PythonEnvironment:
    """What a sandbox needs to have a Python with packages: give ``mounts`` and ``path_prefix`` to ``SandboxSpec``."""

    mounts: tuple[Mount, ...]
    path_prefix: tuple[str, ...]
    python: str
    """The environment's interpreter, as a path inside the sandbox."""
    site_packages: str
    """The folder with its packages, as a path inside the sandbox."""

    @property
    def key(self) -> str:
        """A name for what it holds, the same for every home."""
        return self.mounts[-1].source.name if self.mounts else 'system'


def base_environment(home: Path) -> PythonEnvironment:
    """Return the environment that has pytest and nothing else, building it under ``home`` if it is not there yet.

    The packages are copied from the environment the studio runs in: no network is needed. Safe to call from several
    threads and processes at once. Raises ``SandboxError``.
    """
    distributions = [_distribution(name) for name in _BASE_PACKAGES]
    names = [f'{item.name}=={item.version}' for item in distributions]

    def fill(site: Path) -> None:
        for item in distributions:
            _copy_distribution(item, site)

    return _environment(home, names, fill)


@functools.cache
def sandbox_interpreter() -> Interpreter:
    """Choose the system's Python if it is new enough (nothing to mount), else the one the studio runs on."""
    version = _version(SYSTEM_PYTHON)
    if version >= OLDEST:
        return Interpreter(str(SYSTEM_PYTHON), version)
    prefix = Path(sys.base_prefix)
    own = prefix / 'bin' / f'python{sys.version_info.major}.{sys.version_info.minor}'
    mounts = () if prefix.is_relative_to('/usr') else (Mount(prefix, str(prefix), shared=True),)
    return Interpreter(str(own), (sys.version_info.major, sys.version_info.minor), mounts)


def _environment(home: Path, names: Iterable[str], fill: Callable[[Path], None]) -> PythonEnvironment:
    """Return the environment with the packages ``names``; ``fill`` puts them into a new site-packages folder."""
    python = sandbox_interpreter()
    library = f'lib/python{python.version[0]}.{python.version[1]}/site-packages'
    key = '\n'.join([_LAYOUT, python.path, library, *sorted(names)])
    folder = home / 'envs' / hashlib.sha256(key.encode()).hexdigest()[:16]
    if not folder.exists():
        with _building(folder) as draft:
            if draft is not None:
                site = draft / library
                site.mkdir(parents=True)
                fill(site)
                _add_programs(draft, python)
                _compile(draft, python)
                open_to_all(draft)
    return PythonEnvironment(
        mounts=(*python.mounts, Mount(folder, INSIDE, shared=True)),
        path_prefix=(f'{INSIDE}/bin',),
        python=f'{INSIDE}/bin/python3',
        site_packages=f'{INSIDE}/{library}',
    )


@contextlib.contextmanager
def _building(folder: Path) -> Iterator[Path | None]:
    """Lend a draft folder and give it its final name at the end; ``None`` for whoever waited while another built it."""
    draft = folder.parent / f'.draft-{owner_tag()}'
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(folder.parent / '.lock', 'wb') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                yield None
                return
            sweep_folder(folder.parent)
            draft.mkdir()
            yield draft
            draft.rename(folder)
    except OSError as error:
        raise SandboxError(
            f'the Python environment for sandboxes cannot be built in {folder.parent}: {error}',
            hint='Check that the folder can be written and that the disk is not full.',
        ) from error
    finally:
        remove_tree(draft)


def _distribution(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise SandboxError(
            f'{name} is missing from the environment that the studio runs in',
            hint=f'Install it there: {sys.executable} -m pip install {name}',
        ) from None


def _copy_distribution(item: metadata.Distribution, site: Path) -> None:
    files = item.files
    if not files:
        raise SandboxError(
            f'{item.name} does not list its files',
            hint=f'Install it again: {sys.executable} -m pip install --force-reinstall {item.name}',
        )
    for file in files:
        if '..' in file.parts or '__pycache__' in file.parts:
            continue
        target = site.joinpath(*file.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(item.locate_file(file)), target)


def _add_programs(draft: Path, python: Interpreter) -> None:
    """Lay the folder out as a virtual environment, which every Python recognises by itself."""
    programs = draft / 'bin'
    programs.mkdir()
    for name in ('python3', 'python', f'python{python.version[0]}.{python.version[1]}'):
        (programs / name).symlink_to(python.path)
    (draft / 'pyvenv.cfg').write_text(
        f'home = {Path(python.path).parent}\ninclude-system-site-packages = false\n', encoding='utf-8'
    )
    pytest = programs / 'pytest'
    pytest.write_text(
        # For the shell one command, for Python a string: the interpreter is found beside it, wherever that is.
        """#!/bin/sh\n'''exec' "${0%/*}/python3" "$0" "$@"\n' '''\n"""
        'import sys\n\nimport pytest\n\nsys.exit(pytest.main())\n',
        encoding='utf-8',
    )
    pytest.chmod(0o755)


def _compile(draft: Path, python: Interpreter) -> None:
    """Compile with the interpreter that will run it, under the path at which sandboxes see it."""
    command = [python.path, '-I', '-m', 'compileall', '-q', '-s', str(draft), '-p', INSIDE, str(draft)]
    done = subprocess.run(command, capture_output=True, text=True, env={'LANG': 'C.UTF-8'}, check=False)
    if done.returncode:
        raise SandboxError(f'{python.path} cannot compile the packages for sandboxes: {done.stdout[-500:]}')


def _version(python: Path) -> tuple[int, int]:
    if not os.access(python, os.X_OK):
        return (0, 0)
    code = 'import sys; print(*sys.version_info[:2])'
    done = subprocess.run([python, '-I', '-S', '-c', code], capture_output=True, text=True, env={}, check=False)
    major, _, minor = done.stdout.strip().partition(' ')
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)
