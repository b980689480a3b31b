"""The processes of a run: found by descent and by the mark in their environment, ended together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Final

import psutil

from trainer.runfolder import Claim

KILL_S: Final = 10.0


def members(claim: Claim, variable: str) -> list[psutil.Process]:
    """Every living process of a run but its waiting parent: the trainer, its descendants, and marked strays."""
    found: dict[int, psutil.Process] = {}
    if claim.alive:
        _add(found, claim.pid)
    for process in marked(variable, claim.token) if claim.token else ():
        # A trainer that was forked a moment ago still has its parent's command line.
        if process.pid == claim.pid or not _waits(process):
            _add(found, process.pid)
    return [process for process in found.values() if process.pid != os.getpid() and _lives(process)]


def marked(variable: str, value: str) -> list[psutil.Process]:
    """Every living process that carries a mark in its environment."""
    return [process for process in psutil.process_iter() if _mark(process, variable) == value and _lives(process)]


def end_all(find: Callable[[], list[psutil.Process]], *, term_s: float) -> None:
    """Ask processes to end, kill those that do not, and those that appear meanwhile. Raises ``TimeoutError``."""
    known: dict[int, psutil.Process] = {process.pid: process for process in find()}
    _signal(known.values(), psutil.Process.terminate)
    psutil.wait_procs(list(known.values()), timeout=term_s)
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline:
        known |= {process.pid: process for process in find()}
        left = [process for process in known.values() if _lives(process)]
        if not left:
            return
        _signal(left, psutil.Process.kill)
        psutil.wait_procs(left, timeout=1)
    raise TimeoutError(f'{len(left)} processes of the run do not end: {[process.pid for process in left]}')


def _add(found: dict[int, psutil.Process], pid: int) -> None:
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    found.update({member.pid: member for member in family})


def _mark(process: psutil.Process, variable: str) -> str | None:
    try:
        value: str | None = process.environ().get(variable)
        return value
    except (psutil.Error, OSError):  # another user's process, or one that has just ended: not ours
        return None


def _waits(process: psutil.Process) -> bool:
    """Whether this is the waiting parent, which must stay to record how the trainer ended."""
    try:
        return any(part.endswith('launchers/wait.py') for part in process.cmdline()[:5])
    except psutil.Error:
        return False


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _signal(processes: Iterable[psutil.Process], act: Callable[[psutil.Process], None]) -> None:
    for process in list(processes):
        try:
            act(process)
        except psutil.NoSuchProcess:
            continue
