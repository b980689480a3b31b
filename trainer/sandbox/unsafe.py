"""No isolation: commands run as the studio's own user in a temporary folder. Only when asked for by name.

What it does not stop: reading every file that the user can read (keys, tokens, the studio's database), writing and
deleting them, the network, looking at and ending other processes, the command server among them, filling the disk,
and any number of processes. As root, commands run as root. Time limits, output caps and the end of all descendants are
kept up against programs that do not fight them; memory is watched; the environment is built from nothing as elsewhere.
The file tools refuse paths outside the workspace, but commands go where they like.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from trainer.errors import SandboxError
from trainer.sandbox.client import Launched, ServedSandbox
from trainer.sandbox.inside import server
from trainer.sandbox.leftovers import private_folder, remove_tree
from trainer.sandbox.protocol import SandboxSpec

NAME: Final = 'unsafe'


def open_unsafe(spec: SandboxSpec) -> ServedSandbox:
    """Start a command server without any isolation around it. Raises ``SandboxError``."""
    try:
        folder = private_folder('unsafe')
        workspace = folder / 'work'
        workspace.mkdir()
    except OSError as error:
        raise SandboxError(f'no temporary folder for a workspace: {error}') from error
    return ServedSandbox(NAME, spec, _launch(spec, folder, workspace), own_user=False)


def _launch(spec: SandboxSpec, folder: Path, workspace: Path) -> Launched:
    package = Path(server.__file__).parent
    start = f'import sys; sys.path.insert(0, {str(package.parent)!r}); from inside.server import main; main()'
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, '-I', '-S', '-B', '-c', start, str(theirs.fileno())],
            env={'PATH': '/usr/bin:/bin'},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd=workspace,
            start_new_session=True,
        )
    return Launched(process, ours, str(workspace), spec.mounts, discard=lambda: remove_tree(folder))
