"""Which processes belong to this sandbox, how much memory they hold, and how to end all of them."""

from __future__ import annotations

import os
import time

from .signals import SIGKILL

PAGE = os.sysconf('SC_PAGE_SIZE')


class Namespace:
    """Members of a PID namespace whose first process is this one: everybody else in it."""

    def pids(self) -> list[int]:
        """Every other process that this one can see."""
        return [int(name) for name in os.listdir('/proc') if name.isdigit() and name != '1']

    def kill(self) -> None:
        """Send SIGKILL to all of them in one system call; the kernel leaves no gap for a fork in between."""
        try:
            os.kill(-1, SIGKILL)
        except ProcessLookupError:
            return


class Descendants:
    """Members without a namespace: the descendants of this process, which must be a subreaper to keep hold of them."""

    def pids(self) -> list[int]:
        """Children, their children and so on, as far as the kernel lists them."""
        return descendants(os.getpid())

    def kill(self) -> None:
        """Send SIGKILL to each; a process that forks meanwhile is caught by the next call."""
        for pid in self.pids():
            try:
                os.kill(pid, SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue


class Members:
    """The processes of one sandbox: reaped as they end, measured, and ended together."""

    def __init__(self, group: Namespace | Descendants) -> None:
        self._group = group

    def reap(self, watched: int) -> int | None:
        """Collect every process that has ended; return the wait status of ``watched`` if it is among them."""
        status = None
        while True:
            try:
                pid, code = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return status
            if not pid:
                return status
            if pid == watched:
                status = code

    def end(self, watched: int = 0) -> int | None:
        """Kill and collect everybody; return the wait status of ``watched`` if it had not been collected before."""
        status = None
        pause = 0.0
        while True:
            self._group.kill()
            found = self.reap(watched)
            status = found if found is not None else status
            try:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return status
            time.sleep(pause)
            pause = min(0.02, pause + 0.0002)

    def memory(self, enough: int) -> int:
        """Bytes held in all, exact only above ``enough``: shared pages are then counted once, not per process."""
        pids = self._group.pids()
        resident = sum(_resident(pid) for pid in pids)
        if resident <= enough:
            return resident
        return sum(_proportional(pid) for pid in pids)


def descendants(pid: int) -> list[int]:
    """Children, their children and so on."""
    found: list[int] = []
    queue = [pid]
    while queue:
        children = _children(queue.pop())
        found += children
        queue += children
    return found


def _children(pid: int) -> list[int]:
    found = []
    try:
        for task in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{task}/children', encoding='ascii') as file:
                found += [int(word) for word in file.read().split()]
    except OSError:
        return found
    return found


def _resident(pid: int) -> int:
    try:
        with open(f'/proc/{pid}/statm', 'rb') as file:
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    """Proportional set size; a process that hides it (it may) is counted with all it maps."""
    try:
        with open(f'/proc/{pid}/smaps_rollup', 'rb') as file:
            for line in file:
                if line.startswith(b'Pss:'):
                    return int(line.split()[1]) * 1024
    except OSError:
        return _resident(pid)
    return _resident(pid)
