"""Isolation by Landlock, for machines that forbid user namespaces: weaker than bubblewrap, and only when named.

Programs may read the system's programs and libraries and change the workspace and a temporary folder of their own, make
no sockets but socket pairs, and send no signal to anybody outside. What is lost against bubblewrap:

- There is no PID namespace: /proc shows all processes of the host with their command lines (not their environments),
  and if the command server is killed from outside the sandbox (by the kernel, short of memory), programs that it had
  started may live on. They are ended one by one, by number, until none is left.
- Workspace and temporary folder are folders of the host: nothing caps their disk space or number of files.
- The limit on processes is shared with all others of the same user.
- Landlock does not cover changes of mode, owner, times and attributes: programs can make them to any file that the user
  owns. They can ask for the existence, size and times of files anywhere that the user can.
- /tmp, /dev/shm and /etc/passwd cannot be used, and no socket at all, not even to 127.0.0.1.
- The kernel is shared with the host, as it is with bubblewrap.

As root none of this would hold well: it refuses.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainer.errors import SandboxError, SandboxUnavailable
from trainer.sandbox.bubblewrap import ETC
from trainer.sandbox.client import Launched, ServedSandbox
from trainer.sandbox.inside import server
from trainer.sandbox.inside.confine import OLDEST_ABI, landlock_abi
from trainer.sandbox.leftovers import private_folder, remove_tree
from trainer.sandbox.protocol import SandboxSpec
from trainer.sandbox.python_env import sandbox_interpreter
from trainer.sandbox.seccomp import seccomp_program

NAME: Final = 'landlock'

_SYSTEM: Final = ('/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/proc')
_DEVICES: Final = ('/dev/null', '/dev/zero', '/dev/full', '/dev/random', '/dev/urandom')


def open_landlock(spec: SandboxSpec) -> ServedSandbox:
    """Start a sandbox. Raises ``SandboxUnavailable`` as root and where the kernel has no or an old Landlock."""
    if os.geteuid() == 0:
        raise SandboxUnavailable(
            'Landlock does not hold root', hint='Run the studio as an ordinary user, or use bubblewrap.'
        )
    abi = landlock_abi()
    if abi < OLDEST_ABI:
        found = f'has version {abi}' if abi else 'has none, or it is switched off'
        raise SandboxUnavailable(
            f'Landlock of version {OLDEST_ABI} is needed, this kernel {found}',
            hint='Use bubblewrap, or Linux 6.12 or newer with landlock in the lsm= boot parameter.',
        )
    program = seccomp_program(sockets=False)
    try:
        folder = private_folder(NAME)
        workspace, temporary = folder / 'work', folder / 'tmp'
        workspace.mkdir()
        temporary.mkdir()
    except OSError as error:
        raise SandboxError(f'no temporary folder for a workspace: {error}') from error
    spec = replace(spec, env={'TMPDIR': str(temporary), **spec.env})
    return ServedSandbox(NAME, spec, _launch(spec, folder, program), own_user=False)


def _launch(spec: SandboxSpec, folder: Path, program: bytes) -> Launched:
    package = Path(server.__file__).parent
    start = f'import sys; sys.path.insert(0, {str(package.parent)!r}); from inside.server import main; main()'
    workspace = folder / 'work'
    mounts = (*sandbox_interpreter().mounts, *spec.mounts)
    rules = {
        'readable': [*_SYSTEM, *(f'/etc/{name}' for name in ETC), *(str(mount.source.resolve()) for mount in mounts)],
        'writable': [str(workspace), str(folder / 'tmp'), *_DEVICES],
        'program': program.hex(),
        'processes': spec.limits.processes,
    }
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                [sys.executable, '-I', '-S', '-B', '-c', start, str(theirs.fileno()), json.dumps(rules)],
                env={'PATH': '/usr/bin:/bin'},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=workspace,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            remove_tree(folder)
            raise SandboxError(f'the command server cannot be started: {error}') from error
    return Launched(process, ours, str(workspace), spec.mounts, discard=lambda: remove_tree(folder))
