"""The command server of a sandbox: serves one host over one socket, and ends with it.

In a bubblewrap sandbox it is the first process of the namespace, so its end is the end of everything inside.
"""

from __future__ import annotations

import os
import resource
import sys

from . import frames, signals
from .commands import Channel, Commands, HostGone
from .files import Refused, Workspace
from .members import Descendants, Members, Namespace
from .tree import SKIPPED, BadRecord, Exactly, TooLarge, TreeWriter, lists_newest_first, read_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .commands import Spawn
    from .confine import Confined

OOM_SCORE = b'500'
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PLACES = ((b'/work', 0o755), (b'/tmp', 0o1777), (b'/dev/shm', 0o1777))
"""Where a command can leave anything for the next one, and the mode each place begins with."""
NOT_ITS_OWN = 'the temporary folders here are those of the host'


def main() -> None:
    """Serve the host on the descriptor named in the first argument until it goes away."""
    control = int(sys.argv[1])
    os.set_inheritable(control, False)
    try:
        server = Server(control, _confined(sys.argv[2]).spawn if len(sys.argv) > 2 else None)
        frames.send(control, frames.OK, [])
        server.serve()
    except (EOFError, HostGone, BrokenPipeError, ConnectionResetError):
        return


def _confined(rules: str) -> Confined:
    """Read how programs are to be confined; only the host without namespaces asks for it."""
    import json

    from .confine import Confined

    given = json.loads(rules)
    return Confined(given['readable'], given['writable'], bytes.fromhex(given['program']), given['processes'])


class Server:
    """One workspace, its processes and its host. The first message configures it."""

    def __init__(self, control: int, spawn: Spawn | None = None) -> None:
        kind, fields = frames.receive(control)
        if kind != frames.CONFIGURE:
            raise frames.BrokenFrame('the first message has to configure the server')
        root, limits, memory, inodes, disk, file_bytes, keep = fields
        self._control = control
        self._root = root.decode()
        self._inodes, self._disk, self._file_bytes = int(inodes), int(disk), int(file_bytes)
        self._alone = os.getpid() == 1
        self._scheduled = _scheduled()
        # Now, while nothing can be in the way.
        self._newest_first = self._alone and lists_newest_first('/dev/shm')
        os.chdir(self._root)
        os.umask(0o022)
        _harden(limits, self._alone)
        self._members = Members(Namespace() if self._alone else Descendants())
        self._files = Workspace(self._root)
        # A host folder shares its file system with everything else: its count of files says nothing.
        watched = self._inodes if self._alone else sys.maxsize
        self._commands = Commands(
            self._members, control, _wakeup(), memory=int(memory), inodes=watched, keep=int(keep), spawn=spawn
        )
        self._answers: dict[bytes, Callable[[list[bytes]], list[bytes]]] = {
            frames.RUN: self._run,
            frames.READ: lambda fields: [self._files.read(fields[0], int(fields[1]))],
            frames.WRITE: self._write,
            frames.LIST: lambda fields: self._files.names(fields[0]),
            frames.EXPORT: self._export,
            frames.IMPORT: self._import,
            frames.SAVE: self._save,
            frames.RESTORE: self._restore,
        }

    def serve(self) -> None:
        """Answer messages until the host goes away, then end every process."""
        try:
            while True:
                kind, fields = frames.receive(self._control)
                try:
                    answer = self._answers[kind](fields)
                except Refused as error:
                    frames.send(self._control, frames.REFUSED, [str(error).encode()])
                else:
                    frames.send(self._control, frames.OK, answer)
        finally:
            self._members.end()

    def _run(self, fields: list[bytes]) -> list[bytes]:
        timeout, arguments, environment, wants_channel, data = fields
        pairs = (line.partition(b'=') for line in frames.unpack(environment))
        channel = Channel(data) if wants_channel else None
        return self._commands.run(
            frames.unpack(arguments), {name: value for name, _, value in pairs}, float(timeout), channel
        )

    def _write(self, fields: list[bytes]) -> list[bytes]:
        self._files.write(fields[0], fields[1])
        return []

    def _export(self, fields: list[bytes]) -> list[bytes]:
        """Send the workspace as records; nobody but this process is alive to change it meanwhile."""
        self._members.end()
        os.chmod(self._root, 0o755)
        for record in read_tree(self._root, self._inodes):
            frames.send(self._control, frames.RECORD, record)
        return []

    def _import(self, fields: list[bytes]) -> list[bytes]:
        """Fill the workspace with the records that follow, up to an end mark."""
        self._fill([self._writer(self._root)])
        return []

    def _save(self, fields: list[bytes]) -> list[bytes]:
        """Send all that commands have left, each record behind the number of its place; answer when each was changed.

        The fields are the most bytes and the most entries of a place. Refuses where a copy would lose something, and
        where it is too much. No command is running, and none outlives its end.
        """
        if not self._alone:
            raise Refused(NOT_ITS_OWN)
        if self._scheduled != _scheduled() or _has_connections():
            raise Refused('a command has left something beside files')
        try:
            return self._send_places(int(fields[0]), int(fields[1]))
        except OSError as error:
            # A command has barred the way: a copy that cannot be had is no reason to end.
            raise Refused(error.strerror or 'cannot be read') from None

    def _send_places(self, most: int, entries: int) -> list[bytes]:
        exactly = Exactly(entries, newest_first=self._newest_first)
        states = [os.stat(place) for place, _ in PLACES]
        for number, ((place, mode), status) in enumerate(zip(PLACES, states, strict=True)):
            if status.st_mode & 0o7777 != mode or os.listxattr(place):
                raise Refused('a place has other rights')
            for record in read_tree(place.decode(), entries, exactly=exactly):
                most -= frames.cost(record)
                if record[0] == SKIPPED or most < 0:
                    raise Refused('there is something that cannot be copied, or too much')
                frames.send(self._control, frames.RECORD, [b'%d' % number, *record])
        return [b'%d' % status.st_mtime_ns for status in states]

    def _restore(self, fields: list[bytes]) -> list[bytes]:
        """Fill the empty places of a new sandbox with what another one sent; the fields are their times of change."""
        writers = [self._writer(place.decode(), exact=True) for place, _ in PLACES] if self._alone else []
        self._fill(writers, numbered=True)
        for (place, _), changed in zip(PLACES, fields, strict=True):
            os.utime(place, ns=(int(changed), int(changed)))
        return []

    def _writer(self, place: str, *, exact: bool = False) -> TreeWriter:
        return TreeWriter(
            place, max_bytes=self._disk, max_file=self._file_bytes, max_entries=self._inodes, strict=True, exact=exact
        )

    def _fill(self, writers: list[TreeWriter], *, numbered: bool = False) -> None:
        """Hand the records that follow, up to an end mark, to the writer whose number they carry."""
        failure = '' if writers else NOT_ITS_OWN
        while True:
            kind, record = frames.receive(self._control)
            if kind == frames.END:
                break
            if not failure:
                failure = _added(writers[int(record[0])], record[1:]) if numbered else _added(writers[0], record)
        for writer in writers:
            if not failure:
                writer.finish(self._root.encode())
            writer.close()
        if failure:
            raise Refused(failure)


def _added(writer: TreeWriter, record: list[bytes]) -> str:
    """Write one record; return why it could not be written, or nothing."""
    try:
        writer.add(record)
    except (BadRecord, TooLarge) as error:
        return str(error)
    except OSError as error:
        return error.strerror or 'cannot be written'
    return ''


def _harden(limits: bytes, alone: bool) -> None:
    """Set what every process of the sandbox inherits, then hide this one from them."""
    with open('/proc/self/oom_score_adj', 'wb') as file:
        file.write(OOM_SCORE)
    for line in limits.decode().split():
        name, _, text = line.partition('=')
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = int(text) if hard == resource.RLIM_INFINITY else min(int(text), hard)
        resource.setrlimit(kind, (value, value))
    # The default action of a signal never reaches the first process of a namespace; Python's own handler would.
    signals.default(signals.SIGINT)
    if _prctl(PR_SET_DUMPABLE, 0) or (not alone and _prctl(PR_SET_CHILD_SUBREAPER, 1)):
        raise OSError('prctl failed')
    null = os.open('/dev/null', os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def _scheduled() -> tuple[object, ...]:
    """What commands could change of this process and so of all that come after them."""
    return os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0)


def _has_connections() -> bool:
    """Whether a port is held for a while because a command used it."""
    for name in ('tcp', 'tcp6'):
        try:
            with open(f'/proc/self/net/{name}', 'rb') as table:
                if len(table.readlines(4096)) > 1:
                    return True
        except FileNotFoundError:
            continue
    return False


def _prctl(option: int, value: int) -> int:
    """Call prctl through the C module beneath ctypes, which itself would cost 3 ms."""
    import _ctypes

    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), 'prctl')  # type: ignore[arg-type]
    return int(_ctypes.call_function(prctl, (option, value, 0, 0, 0)))


def _wakeup() -> int:
    """Return a descriptor that becomes readable whenever a child has ended."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signals.wake(signals.SIGCHLD, writer)
    return reader
