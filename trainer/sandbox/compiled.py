"""Our own modules as sandboxes show them: with bytecode for the Python that runs there, which can write none itself.

Without it every sandbox would compile its command server anew: where the studio runs on another Python, was told not
to write bytecode (PYTHONDONTWRITEBYTECODE), or may not write where it is installed.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from trainer.sandbox.leftovers import private_folder, remove_tree
from trainer.sandbox.python_env import Interpreter

HEADER: Final = 16
"""Bytes before the code in a file of bytecode: format, kind, and time and size of its source, four each."""


@functools.cache
def compiled(folder: Path, python: Interpreter, shown_at: str) -> Path:
    """Return a folder of modules if all have bytecode that ``python`` will take, else a compiled copy of it.

    The copy lives as long as this process; ``shown_at`` is where sandboxes see it. Raises ``OSError``.
    """
    if all(_is_compiled(path, python) for path in folder.glob('*.py')):
        return folder
    private = private_folder('mount')
    atexit.register(_remove_own, private, os.getpid())
    copy = private / folder.name
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns('__pycache__'))
    command = [python.path, '-I', '-m', 'compileall', '-q', '-s', str(copy), '-p', shown_at, str(copy)]
    # Where that fails the modules are compiled in each sandbox: slower, and nothing else.
    subprocess.run(command, capture_output=True, env={'LANG': 'C.UTF-8'}, check=False)
    return copy


def _is_compiled(path: Path, python: Interpreter) -> bool:
    version = ''.join(map(str, python.version))
    try:
        with open(path.parent / '__pycache__' / f'{path.stem}.cpython-{version}.pyc', 'rb') as file:
            header = file.read(HEADER)
    except OSError:
        return False
    status = path.stat()
    source = (int(status.st_mtime), status.st_size)
    return header[4:] == bytes(4) + b''.join((number & 0xFFFFFFFF).to_bytes(4, 'little') for number in source)


def _remove_own(folder: Path, owner: int) -> None:
    """Remove at the end of the process that made it, not of one forked from it."""
    if os.getpid() == owner:
        remove_tree(folder)
