"""The system calls that code in a sandbox may not make, as a classic BPF program for the kernel (no libseccomp needed).

A deny list: everything else is allowed. It takes away what has let code out of containers before (mounts, namespaces,
io_uring, bpf, keyrings, userfaultfd, tracing) and what would escape the limits:

- ``memfd_create`` and System V memory, queues and semaphores hold memory that no process is charged for and that
  outlives its maker. They answer "not implemented", on which programs fall back to /dev/shm or a file.
- ``prlimit64`` works on the caller only: on another process it could take away the command server's own limits.

What it does not stop: bugs in the system calls that stay allowed.
"""

from __future__ import annotations

import errno
import platform
import struct
from typing import Final

from trainer.errors import SandboxUnavailable

_REFUSED: Final = {
    # name: (x86_64, aarch64); None where the architecture has no such call
    'ptrace': (101, 117),
    'process_vm_readv': (310, 270),
    'process_vm_writev': (311, 271),
    'process_madvise': (440, 440),
    'process_mrelease': (448, 448),
    'kcmp': (312, 272),
    'pidfd_getfd': (438, 438),
    'mount': (165, 40),
    'umount2': (166, 39),
    'pivot_root': (155, 41),
    'chroot': (161, 51),
    'move_mount': (429, 429),
    'open_tree': (428, 428),
    'fsopen': (430, 430),
    'fsconfig': (431, 431),
    'fsmount': (432, 432),
    'fspick': (433, 433),
    'mount_setattr': (442, 442),
    'unshare': (272, 97),
    'setns': (308, 268),
    'bpf': (321, 280),
    'perf_event_open': (298, 241),
    'userfaultfd': (323, 282),
    'io_uring_setup': (425, 425),
    'io_uring_enter': (426, 426),
    'io_uring_register': (427, 427),
    'keyctl': (250, 219),
    'add_key': (248, 217),
    'request_key': (249, 218),
    'kexec_load': (246, 104),
    'kexec_file_load': (320, 294),
    'init_module': (175, 105),
    'finit_module': (313, 273),
    'delete_module': (176, 106),
    'reboot': (169, 142),
    'swapon': (167, 224),
    'swapoff': (168, 225),
    'open_by_handle_at': (304, 265),
    'name_to_handle_at': (303, 264),
    'acct': (163, 89),
    'settimeofday': (164, 170),
    'clock_settime': (227, 112),
    'clock_adjtime': (305, 266),
    'adjtimex': (159, 171),
    'syslog': (103, 116),
    'quotactl': (179, 60),
    'quotactl_fd': (443, 443),
    'fanotify_init': (300, 262),
    'vhangup': (153, 58),
    'sethostname': (170, 161),
    'setdomainname': (171, 162),
    'nfsservctl': (180, 42),
    'lookup_dcookie': (212, 18),
    'iopl': (172, None),
    'ioperm': (173, None),
    'modify_ldt': (154, None),
}
_NOT_IMPLEMENTED: Final = {
    'clone3': (435, 435),  # its flags lie in memory, where a filter cannot look; the C library falls back to clone
    'memfd_create': (319, 279),
    'memfd_secret': (447, 447),
    'shmget': (29, 194),
    'msgget': (68, 186),
    'semget': (64, 190),
    'mq_open': (240, 180),
}
_CLONE: Final = (56, 220)
_IOCTL: Final = (16, 29)
_SOCKET: Final = (41, 198)
_PRLIMIT: Final = (302, 261)

_NEW_NAMESPACE: Final = 0x7E020000
_TERMINAL_INJECTION: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_FAMILIES: Final = (1, 2, 10)  # AF_UNIX, AF_INET, AF_INET6

_X32_BIT: Final = 0x40000000

_MACHINES: Final = {'x86_64': (0, 0xC000003E), 'aarch64': (1, 0xC00000B7)}
"""Place in the tables above, and how the kernel names the architecture (AUDIT_ARCH)."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, (16, 24)


def seccomp_program(machine: str = '', *, sockets: bool = True) -> bytes:
    """Return the filter for this machine's architecture (or ``machine``), ready for ``bwrap --seccomp``.

    Without ``sockets`` no socket can be made, only a pair of connected ones: for sandboxes in the host's network.

    Raises ``SandboxUnavailable`` for an architecture whose call numbers are not known here.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise SandboxUnavailable(
            f'no system call filter for {machine or "this architecture"}',
            hint='The sandbox runs on x86_64 and aarch64 Linux.',
        )
    index, audit = _MACHINES[machine]
    families = _FAMILIES if sockets else ()
    program = [
        *((_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _KILL)),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == 'x86_64':
        program += [(_AT_LEAST, 0, 1, _X32_BIT), _refuse(errno.EPERM)]
    for table, code in ((_REFUSED, errno.EPERM), (_NOT_IMPLEMENTED, errno.ENOSYS)):
        for numbers in table.values():
            number = numbers[index]
            if number is not None:
                program += [(_EQUAL, 0, 1, number), _refuse(code)]
    program += _when(_CLONE[index], 0, [(_ANY_BIT, 0, 1, _NEW_NAMESPACE), _refuse(errno.EPERM)])
    program += _when(
        _IOCTL[index],
        1,
        [step for request in _TERMINAL_INJECTION for step in ((_EQUAL, 0, 1, request), _refuse(errno.EPERM))],
    )
    program += _when(
        _SOCKET[index],
        0,
        [
            *(step for family in families for step in ((_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW))),
            _refuse(errno.EAFNOSUPPORT),
        ],
    )
    program += _when(_PRLIMIT[index], 0, [(_EQUAL, 1, 0, 0), _refuse(errno.EPERM)])
    program.append((_RETURN, 0, 0, _ALLOW))
    return b''.join(struct.pack('=HBBI', code, yes, no, value) for code, yes, no, value in program)


def _refuse(code: int) -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, _ERRNO | code


def _when(number: int, argument: int, steps: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """For one call, judge the low half of an argument; what ``steps`` does not decide is allowed."""
    block = [(_LOAD, 0, 0, _ARGUMENT[argument]), *steps, (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(block), number), *block]
