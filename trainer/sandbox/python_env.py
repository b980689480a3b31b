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
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import IO, Final

from trainer.errors import SandboxError
from trainer.sandbox.leftovers import open_to_all, owner_tag, remove_tree, sweep_folder
from trainer.sandbox.packages import InstallStopped, install, installed
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
    packages: tuple[str, ...] = ()
    """Everything in an environment with packages of a run, as ``name==version``."""

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

    def fill(_: Path, site: Path) -> None:
        for item in distributions:
            _copy_distribution(item, site)

    return _environment(home, names, fill)


def package_environment(
    home: Path,
    packages: Sequence[str],
    *,
    report: Callable[[str], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> PythonEnvironment:
    """Return the environment with pytest and ``packages`` (lines that ``parse_requirements`` let pass).

    Built once for each set of lines, by pip, from wheels alone; later runs of the set find it there, at the versions
    of then. ``report`` is told what is done, for people; ``stop`` is asked now and then and ends the wait.
    Raises ``PackagesFailed`` with pip's own words, and ``SandboxError``.
    """
    if not packages:
        return base_environment(home)
    distributions = [_distribution(name) for name in _BASE_PACKAGES]
    names = [f'{item.name}=={item.version}' for item in distributions]
    # Checkers are proven with this pytest: a set that needs another one cannot be had.
    pinned = names[_BASE_PACKAGES.index('pytest')]

    def fill(draft: Path, site: Path) -> None:
        if report is not None:
            report(f'Installing {len(packages)} package{"s" if len(packages) > 1 else ""} for sandboxes')
        for item in distributions:
            _copy_distribution(item, site)
        install(draft, site, packages, pinned=pinned, seen_at=INSIDE, stop=stop)

    environment = _environment(home, [*names, *(f'pip {line}' for line in packages)], fill, stop=stop)
    mounted = environment.mounts[-1].source
    there = installed(mounted / Path(environment.site_packages).relative_to(INSIDE))
    if report is not None:
        report('Packages of sandboxes: ' + ', '.join(there))
    return replace(environment, packages=there)


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


def _environment(
    home: Path,
    names: Iterable[str],
    fill: Callable[[Path, Path], None],
    *,
    stop: Callable[[], bool] = lambda: False,
) -> PythonEnvironment:
    """Return the environment named by ``names``; ``fill`` gets a new virtual environment and its site-packages."""
    python = sandbox_interpreter()
    library = f'lib/python{python.version[0]}.{python.version[1]}/site-packages'
    key = '\n'.join([_LAYOUT, python.path, library, *sorted(set(names))])
    folder = home / 'envs' / hashlib.sha256(key.encode()).hexdigest()[:16]
    if not folder.exists():
        with _building(folder, stop) as draft:
            if draft is not None:
                site = draft / library
                site.mkdir(parents=True)
                _add_programs(draft, python)
                fill(draft, site)
                _add_programs(draft, python)  # no package may put its own in their place
                _compile(draft, python)
                open_to_all(draft)
    return PythonEnvironment(
        mounts=(*python.mounts, Mount(folder, INSIDE, shared=True)),
        path_prefix=(f'{INSIDE}/bin',),
        python=f'{INSIDE}/bin/python3',
        site_packages=f'{INSIDE}/{library}',
    )


@contextlib.contextmanager
def _building(folder: Path, stop: Callable[[], bool]) -> Iterator[Path | None]:
    """Lend a draft folder and give it its final name at the end; ``None`` for whoever waited while another built it."""
    draft = folder.parent / f'.draft-{owner_tag()}'
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # One lock for each set: who needs another one does not wait for a long installation.
        with open(folder.parent / f'.lock-{folder.name}', 'wb') as lock:
            _acquire(lock, stop)
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


def _acquire(lock: IO[bytes], stop: Callable[[], bool]) -> None:
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if stop():
                raise InstallStopped('stopped while another run installs the same packages') from None
            time.sleep(0.05)


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
    programs.mkdir(exist_ok=True)
    for name in ('python3', 'python', f'python{python.version[0]}.{python.version[1]}', 'pytest'):
        remove_tree(programs / name) if (programs / name).is_dir() else (programs / name).unlink(missing_ok=True)
        if name != 'pytest':
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
    subprocess.run(command, capture_output=True, env={'LANG': 'C.UTF-8'}, check=False)
    # Packages may carry files for other versions of Python, which do not compile; what checks need must.
    if not any(draft.glob('lib/*/site-packages/_pytest/config/__pycache__/__init__.*.pyc')):
        raise SandboxError(f'{python.path} cannot compile the packages for sandboxes')


def _version(python: Path) -> tuple[int, int]:
    if not os.access(python, os.X_OK):
        return (0, 0)
    code = 'import sys; print(*sys.version_info[:2])'
    done = subprocess.run([python, '-I', '-S', '-c', code], capture_output=True, text=True, env={}, check=False)
    major, _, minor = done.stdout.strip().partition(' ')
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)
