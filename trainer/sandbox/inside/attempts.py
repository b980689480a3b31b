"""What the probe tries from inside a sandbox. Runs as a program: bait on the private channel in, findings out."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CLONE_NEWUSER = 0x10000000
IO_URING_SETUP = 425
PTRACE_TRACEME = 0

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Make every attempt and send the findings: for each a pair of "the sandbox held" and what happened."""
    channel = int(os.environ['RLVR_CHANNEL'])
    data = b''
    while True:
        chunk = os.read(channel, 65536)
        if not chunk:
            break
        data += chunk
    bait = json.loads(data)
    os.write(channel, json.dumps({name: attempt(bait) for name, attempt in ATTEMPTS.items()}).encode())


def network(bait: dict[str, Any]) -> tuple[bool, str]:
    """Reach the host, the internet and a socket that lives in no folder."""
    targets: list[tuple[str, int, int, Any]] = [
        ('TCP to the host', socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', bait['tcp'])),
        ('UDP to the host', socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', bait['udp'])),
        ('IPv4', socket.AF_INET, socket.SOCK_DGRAM, ('192.0.2.1', 53)),
        ('IPv6', socket.AF_INET6, socket.SOCK_DGRAM, ('2001:db8::1', 53)),
        ('an abstract socket', socket.AF_UNIX, socket.SOCK_STREAM, bait['abstract']),
    ]
    # Sending to a port where nobody listens is no way out: whether anything arrived, the host knows.
    reached = [name for name, *target in targets if _connects(*target) and name != 'UDP to the host']
    return not reached, f'reached: {", ".join(reached)}' if reached else 'nothing could be reached'


def _connects(family: int, kind: int, address: Any) -> bool:
    try:
        with socket.socket(family, kind) as line:
            line.settimeout(0.3)
            line.connect(address)
            if kind == socket.SOCK_DGRAM:
                line.send(b'probe')
            return True
    except OSError:
        return False


def files(bait: dict[str, Any]) -> tuple[bool, str]:
    """Read a file of the user and look into the user's home."""
    seen = [name for name in (bait['secret'], bait['home'], '/etc/shadow', '/root', '/home') if _visible(name)]
    return not seen, f'visible: {", ".join(seen)}' if seen else 'the host has no files here beside its programs'


def _visible(path: str) -> bool:
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, 'rb') as file:
            return bool(file.read(1))
    except OSError:
        return False


def processes(bait: dict[str, Any]) -> tuple[bool, str]:
    """See processes of the host."""
    count = sum(name.isdigit() for name in os.listdir('/proc'))
    # Oneself, the command server and perhaps a shell.
    return count <= 3, f'{count} processes visible'


def environments(bait: dict[str, Any]) -> tuple[bool, str]:
    """Find a secret in anybody's environment."""
    token = bait['token'].encode()
    leaks = 0
    for name in os.listdir('/proc'):
        if name.isdigit():
            try:
                with open(f'/proc/{name}/environ', 'rb') as file:
                    leaks += token in file.read()
            except OSError:
                continue
    return leaks == 0, f'the secret found in {leaks}' if leaks else 'the secret was not found'


def signals(bait: dict[str, Any]) -> tuple[bool, str]:
    """Reach a process of the host, and the server of this sandbox, with a signal."""
    reached = [name for name, pid in (('the host', bait['neighbour']), ('the server', os.getppid())) if _reaches(pid)]
    return not reached, f'reached: {", ".join(reached)}' if reached else 'nobody outside could be reached'


def _reaches(pid: int) -> bool:
    # Signal 0 only asks; the first process of a namespace is shielded from what would end it by the kernel.
    if pid in (1, os.getpid()):
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def write(bait: dict[str, Any]) -> tuple[bool, str]:
    """Make a file where a sandbox has no business."""
    written = []
    for folder in ('/', '/etc', '/usr', '/usr/bin', '/dev', '/proc/sys/kernel', '/run', '/var'):
        path = os.path.join(folder, f'.rlvr-probe-{bait["token"][:8]}')
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.unlink(path)
        except OSError:
            continue
        written.append(folder)
    return not written, f'could write to {", ".join(written)}' if written else 'everything else is read-only'


def privileges(bait: dict[str, Any]) -> tuple[bool, str]:
    """Look for capabilities and for a way to gain them."""
    with open('/proc/self/status', encoding='utf-8') as file:
        status = dict(line.split(':', 1) for line in file)
    capabilities = any(int(status[name], 16) for name in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb'))
    flags = int(status['NoNewPrivs']), int(status['Seccomp'])
    # The bounding set says what might be gained, which the flag NoNewPrivs rules out.
    held = not capabilities and flags == (1, 2) and os.getuid() != 0
    filtered = 'filtered' if flags[1] == 2 else 'not filtered'
    return held, f'user {os.getuid()}, {"some" if capabilities else "no"} capabilities, system calls {filtered}'


def namespaces(bait: dict[str, Any]) -> tuple[bool, str]:
    """Make a user namespace, where every privilege would come back."""
    return _refused('unshare', libc.unshare, CLONE_NEWUSER)


def kernel(bait: dict[str, Any]) -> tuple[bool, str]:
    """Use the two doors into the kernel that sandboxes have been broken through most."""
    ring = _refused('io_uring', libc.syscall, IO_URING_SETUP, 1, ctypes.create_string_buffer(120))
    traced = _refused('ptrace', libc.ptrace, PTRACE_TRACEME, 0, 0, 0)
    return ring[0] and traced[0], f'{ring[1]}, {traced[1]}'


def _refused(name: str, call: Callable[..., int], *arguments: object) -> tuple[bool, str]:
    pid = os.fork()
    if not pid:
        ctypes.set_errno(0)
        os._exit(ctypes.get_errno() if call(*arguments) < 0 else 0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code != 0, f'{name}: {os.strerror(code) if code > 0 else "allowed"}'


def forks(bait: dict[str, Any]) -> tuple[bool, str]:
    """Start more processes than allowed."""
    children: list[int] = []
    try:
        while len(children) < bait['processes'] + 5:
            pid = os.fork()
            if not pid:
                signal.pause()
                os._exit(0)
            children.append(pid)
    except OSError:
        return True, f'stopped after {len(children)}'
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return False, f'{len(children)} processes started'


def memory(bait: dict[str, Any]) -> tuple[bool, str]:
    """Take more memory than allowed, in a child that may die of it."""
    pid = os.fork()
    if not pid:
        try:
            os._exit(len(bytearray(bait['memory'] + 64 * 1024 * 1024)) > 0)
        except MemoryError:
            os._exit(0)
    status = os.waitpid(pid, 0)[1]
    return status != 256, 'refused' if status != 256 else f'more than {bait["memory"] >> 20} MB given'


def file_size(bait: dict[str, Any]) -> tuple[bool, str]:
    """Write a file larger than allowed."""
    written, why = _fill('probe.bin', bait['file'] + 1)
    return written <= bait['file'], why


def disk(bait: dict[str, Any]) -> tuple[bool, str]:
    """Fill the workspace with files of a size that is allowed."""
    total = 0
    names = [f'probe{number}.bin' for number in range(bait['disk'] // bait['file'] + 1)]
    for name in names:
        total += _fill(name, bait['file'], keep=True)[0]
    for name in names:
        if os.path.exists(name):
            os.unlink(name)
    return total <= bait['disk'], f'{total >> 20} MB written, {bait["disk"] >> 20} MB allowed'


def _fill(path: str, size: int, *, keep: bool = False) -> tuple[int, str]:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    written = 0
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        while written < size:
            written += os.write(fd, bytes(min(1 << 16, size - written)))
    except OSError as error:
        return written, f'stopped after {written >> 20} MB: {error.strerror}'
    finally:
        os.close(fd)
        if not keep:
            os.unlink(path)
    return written, f'{written >> 20} MB written'


ATTEMPTS: dict[str, Callable[[dict[str, Any]], tuple[bool, str]]] = {
    'network': network,
    'files': files,
    'processes': processes,
    'environments': environments,
    'signals': signals,
    'write': write,
    'privileges': privileges,
    'namespaces': namespaces,
    'kernel': kernel,
    'forks': forks,
    'memory': memory,
    'file_size': file_size,
    'disk': disk,
}

if __name__ == '__main__':
    main()
