"""Verdicts of one batch: final workspaces of a task that are the same, byte for byte, are checked once.

A verdict is what a checker says of a task and a final workspace, and a group of attempts leaves the same workspace
often. Errors are never handed on: they say nothing of the workspace.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from trainer.sandbox.inside.frames import pack
from trainer.sandbox.inside.tree import SKIPPED, read_tree
from trainer.task import TaskSpec
from trainer.verdict import Verdict


class SharedVerdicts:
    """Hands the verdict on the first of equal workspaces to whoever comes with another one, also while it is made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, bytes], Future[Verdict]] = {}

    def of(self, task: TaskSpec, final: Path, check: Callable[[], Verdict]) -> Verdict:
        """Return the verdict on a sanitised final workspace at rest; ``check`` is called where there is none yet.

        Raises what ``check`` raises, and ``OSError`` where the workspace cannot be read.
        """
        content = _content(final)
        if content is None:
            return check()
        key = (task.hash, content)
        with self._lock:
            known = self._known.get(key)
            own = self._known.setdefault(key, Future())
        if known is not None:
            verdict = known.result()
            return verdict if verdict.outcome != 'error' else check()
        verdict = Verdict.not_scored('the check was given up')
        try:
            verdict = check()
        finally:
            own.set_result(verdict)
        return verdict


def _content(folder: Path) -> bytes | None:
    """A digest of every path, mode, link and byte; ``None`` where the folder holds what a copy would leave out."""
    digest = hashlib.sha256()
    for record in read_tree(str(folder), sys.maxsize):
        if record[0] == SKIPPED:
            return None
        packed = pack(record)
        digest.update(b'%d ' % len(packed))
        digest.update(packed)
    return digest.digest()
