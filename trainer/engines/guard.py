"""``python guard.py PROGRAM ARGUMENT…``: runs a program for as long as somebody holds the other end of stdin.

A server must not outlive its run, however that ends: when the pipe closes, the program and everything it started, in
whatever session, is ended, and the shared memory of a Python program is gone with it. Runs by path in a process of its
own and imports nothing of the product.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from contextlib import suppress

import psutil

PR_SET_CHILD_SUBREAPER = 36
TERM_S = 5.0


def main(command: list[str]) -> int:
    """Run a command to its end, or to that of stdin; returns its exit code."""
    if sys.platform == 'linux':
        # Orphans of the program become children of this process instead of leaving its sight.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    code = child.wait()
    end_descendants()
    return code


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    end_descendants()


def end_descendants() -> None:
    """End every process below this one: asked first, killed after ``TERM_S`` seconds, trackers of memory last."""
    asked = psutil.Process().children(recursive=True)
    for process in asked:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    psutil.wait_procs(asked, timeout=TERM_S)
    while left := [one for one in psutil.Process().children(recursive=True) if _alive(one)]:
        for process in [one for one in left if not _tracks_memory(one)] or left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=TERM_S)


def _alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _tracks_memory(process: psutil.Process) -> bool:
    """Whether it is Python's process that removes the shared memory of those it outlives, and then ends by itself.

    Killed with them, it leaves what a vLLM server shared in memory until the machine is started anew.
    """
    with suppress(psutil.Error):
        return any('multiprocessing.resource_tracker' in argument for argument in process.cmdline())
    return False


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
