"""Isolation by bubblewrap: namespaces of its own for everything, a minimal read-only system, no network, no privileges.

What it does not stop: the kernel is shared with the host, so a bug in the kernel is a way out. Kernel memory (socket
buffers, page tables) is not counted against the limits. The processor is shared: a busy sandbox slows the machine.
The number of files is watched ten times a second, not capped, so a burst goes over it. The names of mounted host
folders, the kernel's version and the size of the machine can be read in /proc.
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from trainer.errors import SandboxError, SandboxUnavailable
from trainer.sandbox.client import Launched, ServedSandbox
from trainer.sandbox.compiled import compiled
from trainer.sandbox.inside import server
from trainer.sandbox.inside.confine import OLDEST_ABI, landlock_abi
from trainer.sandbox.leftovers import remove_tree
from trainer.sandbox.protocol import Mount, SandboxSpec
from trainer.sandbox.python_env import sandbox_interpreter
from trainer.sandbox.seccomp import seccomp_program
from trainer.sandbox.staging import staged

NAME: Final = 'bubblewrap'

UNPRIVILEGED_ID: Final = 61_100
"""User and group that bubblewrap runs as when the studio is root: in a range that no distribution hands out."""

TMP_BYTES: Final = 64 * 1024**2
SHM_BYTES: Final = 64 * 1024**2

_PROGRAM: Final = '/run/rlvr'
_START: Final = f'import sys; sys.path.insert(0, {_PROGRAM!r}); from inside.server import main; main()'

_PASSWD: Final = 'root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:1000:1000:agent:/work:/bin/sh\n'
_GROUP: Final = 'root:x:0:\nagent:x:1000:\n'
_HOSTS: Final = '127.0.0.1 localhost sandbox\n::1 localhost\n'

ETC: Final = (
    'alternatives',
    'ld.so.cache',
    'mime.types',
    'nsswitch.conf',
    'protocols',
    'services',
    'ssl/certs',
    'ssl/openssl.cnf',
)


def open_bubblewrap(spec: SandboxSpec) -> ServedSandbox:
    """Start a sandbox. Raises ``SandboxUnavailable`` with the fix when bubblewrap is missing or not allowed to work."""
    with os.fdopen(os.memfd_create('messages'), 'w+b') as messages:
        launched = _launch(spec, messages)
        try:
            return ServedSandbox(NAME, spec, launched, own_user=True)
        except SandboxError as error:
            messages.seek(0)
            said = messages.read(4096).decode('utf-8', 'replace').strip()
            if not said:
                raise
            raise _explain(said) from error


def _launch(spec: SandboxSpec, messages: IO[bytes]) -> Launched:
    folders: list[Path] = []

    def discard() -> None:
        for folder in folders:
            remove_tree(folder)

    ours, theirs = socket.socketpair()
    with theirs, _Descriptors() as passed:
        try:
            process = _as_nobody(
                _arguments(spec, passed, passed.keep(theirs.fileno()), folders),
                env={'PATH': '/usr/bin:/bin'},
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                pass_fds=passed.numbers,
                cwd='/',
                start_new_session=True,
            )
        except BaseException as error:
            ours.close()
            discard()
            if isinstance(error, OSError):
                raise SandboxError(f'bubblewrap cannot be started: {error}') from error
            raise
    return Launched(process, ours, '/work', discard=discard)


def _as_nobody(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program; as a user without rights where this one is root. Raises ``OSError``."""
    if os.geteuid():
        return subprocess.Popen(command, **options)
    first = _becoming_nobody()
    if first:
        return subprocess.Popen([*first, *command], **options)
    return subprocess.Popen(command, user=UNPRIVILEGED_ID, group=UNPRIVILEGED_ID, extra_groups=[], **options)


@functools.cache
def _becoming_nobody() -> tuple[str, ...]:
    """The program that gives root's rights up before another one; empty where there is none that can.

    Popen itself copies the page tables of this process to change the user: 25 ms of processor time beside a model.
    """
    number = str(UNPRIVILEGED_ID)
    first = ('/usr/bin/setpriv', '--reuid', number, '--regid', number, '--clear-groups', '--')
    try:
        able = subprocess.run([*first, 'true'], capture_output=True, env={'PATH': '/usr/bin:/bin'}, check=False)
    except OSError:
        return ()
    return first if able.returncode == 0 else ()


def _arguments(spec: SandboxSpec, passed: _Descriptors, control: int, folders: list[Path]) -> list[str]:
    """Build the command line; ``passed`` collects the descriptors it refers to, ``folders`` what was made for it."""
    bwrap = _find_bwrap()
    python = sandbox_interpreter()
    inside = f'{_PROGRAM}/inside'
    own = Mount(compiled(Path(server.__file__).parent, python, inside), inside, shared=True)
    mounts = [argument for mount in (own, *python.mounts, *spec.mounts) for argument in _mount(mount, folders)]
    return [
        bwrap.path,
        *('--unshare-all', '--unshare-user', *bwrap.disable_userns),
        *('--uid', '1000', '--gid', '1000', '--hostname', 'sandbox'),
        *('--cap-drop', 'ALL', '--new-session', '--as-pid-1'),
        *('--seccomp', passed.data(seccomp_program())),
        *_system(passed),
        *('--proc', '/proc', '--dev', '/dev'),
        *('--perms', '1777', '--size', str(SHM_BYTES), '--tmpfs', '/dev/shm', '--remount-ro', '/dev'),
        *('--perms', '1777', '--size', str(TMP_BYTES), '--tmpfs', '/tmp'),
        *('--dir', '/run', '--dir', '/var', '--symlink', '../tmp', '/var/tmp'),
        *('--perms', '0755', '--size', str(spec.limits.disk_bytes), '--tmpfs', '/work'),
        *mounts,
        *('--chdir', '/work', '--remount-ro', '/'),
        *('--', python.path, '-I', '-S', '-B', '-c', _START, str(control)),
    ]


def _system(passed: _Descriptors) -> list[str]:
    """Show the host's programs and libraries, and an /etc that says nothing about the host."""
    arguments = ['--ro-bind', '/usr', '/usr']
    for name in ('bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'):
        place = Path('/', name)
        if place.is_symlink():
            arguments += ['--symlink', os.readlink(place), str(place)]
        elif place.is_dir():
            arguments += ['--ro-bind', str(place), str(place)]
    arguments += ['--dir', '/etc']
    for name, text in (('passwd', _PASSWD), ('group', _GROUP), ('hosts', _HOSTS)):
        arguments += ['--perms', '0444', '--ro-bind-data', passed.data(text.encode()), f'/etc/{name}']
    for name in ETC:
        arguments += ['--ro-bind-try', f'/etc/{name}', f'/etc/{name}']
    return arguments


def _mount(mount: Mount, made: list[Path]) -> Sequence[str]:
    """Show a host path read-only."""
    try:
        source = mount.source if os.geteuid() else staged(mount, made)
    except OSError as error:
        raise SandboxError(f'{mount.source} cannot be shown in the sandbox: {error.strerror or error}') from error
    return '--ro-bind', str(source), mount.target


class _Descriptors:
    """Descriptors that bubblewrap inherits; closed on this side when it has started."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._ours: list[int] = []

    def keep(self, fd: int) -> int:
        """Pass on a descriptor that its owner closes."""
        self.numbers.append(fd)
        return fd

    def data(self, content: bytes) -> str:
        """Pass on a few kilobytes, to be read to their end."""
        reader, writer = os.pipe()
        self._ours.append(reader)
        os.write(writer, content)
        os.close(writer)
        return str(self.keep(reader))

    def __enter__(self) -> _Descriptors:
        return self

    def __exit__(self, *error: object) -> None:
        for fd in self._ours:
            os.close(fd)


@dataclass(frozen=True)
class _Bwrap:
    """The bubblewrap of this machine and what its version can do."""

    path: str
    disable_userns: tuple[str, ...]


def _find_bwrap() -> _Bwrap:
    path = shutil.which('bwrap', path='/usr/bin:/bin:/usr/local/bin')
    if path is None:
        raise SandboxUnavailable(
            'bubblewrap is not installed',
            hint='Install it: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora).'
            + _weaker(),
        )
    return _features(path)


@functools.cache
def _features(path: str) -> _Bwrap:
    text = subprocess.run([path, '--help'], capture_output=True, text=True, env={}, check=False).stdout
    # Before 0.8 there is no --disable-userns; the system call filter refuses new namespaces all the same.
    return _Bwrap(path, ('--disable-userns',) if '--disable-userns' in text else ())


def _weaker() -> str:
    """Name the weaker isolation where this user has it; it is never taken without being named."""
    if os.geteuid() == 0 or landlock_abi() < OLDEST_ABI:
        return ''
    return (
        ' This machine also has the weaker isolation landlock, which is taken only when asked for with '
        'RLVR_ISOLATION=landlock; rlvr sandbox probe --isolation landlock says what it lacks.'
    )


def _explain(said: str) -> SandboxError:
    """Turn what bubblewrap printed into an error with the fix."""
    reason = said.splitlines()[-1].removeprefix('bwrap: ')
    for pattern, hint in _FIXES:
        if pattern in said:
            return SandboxUnavailable(f'bubblewrap cannot make a sandbox here: {reason}', hint=f'{hint}{_weaker()}')
    return SandboxError(f'bubblewrap could not start the sandbox: {reason}')


_USERNS: Final = (
    'User namespaces are switched off for ordinary programs. '
    'Ubuntu 23.10 and later: allow them for bubblewrap with an AppArmor profile, as root: '
    "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) "
    "{\\n  userns,\\n}\\n' > /etc/apparmor.d/bwrap && systemctl reload apparmor. "
    'Debian 10 and older: sysctl -w kernel.unprivileged_userns_clone=1. '
    'Anywhere: check that sysctl user.max_user_namespaces is not 0.'
)
_CONTAINER: Final = (
    'The container that the studio runs in forbids it. Docker: start it with --security-opt seccomp=unconfined '
    '--security-opt apparmor=unconfined --security-opt systempaths=unconfined. Kubernetes: hostUsers: false and '
    'procMount: Unmasked.'
)
_FIXES: Final = (
    ('setting up uid map', _USERNS),
    ('No permissions to create', _USERNS),
    ('Creating new namespace failed', f'{_USERNS} In a container: {_CONTAINER}'),
    ('RTM_NEWADDR', _USERNS),
    ('Failed to make / slave', _CONTAINER),
    ("Can't mount proc", _CONTAINER),
    ('pivot_root', _CONTAINER),
    ('Unknown option', 'This bubblewrap is too old: version 0.6 or newer is needed.'),
)
