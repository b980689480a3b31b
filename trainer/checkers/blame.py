"""Whose fault is it: the same check without the candidate's files tells an author's mistake from a model's failure."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from trainer.checkers.base import CheckContext
from trainer.checkers.protect import restore
from trainer.sandbox.leftovers import passing_folder
from trainer.sandbox.protocol import Sandbox

MAX_REMEMBERED = 256

_remembered: dict[str, bool] = {}
_lock = threading.Lock()


def without_candidate(context: CheckContext, what: str, happens: Callable[[Sandbox], bool]) -> bool:
    """Whether something happens in a workspace that holds the author's protected files and nothing else.

    The answer depends on the author alone, so it is remembered for ``what`` and those files.
    """
    digest = hashlib.sha256(what.encode('utf-8', 'surrogatepass'))
    for path in sorted(context.protected):
        digest.update(f'\0{path}\0{context.author_files[path]}'.encode('utf-8', 'surrogatepass'))
    key = digest.hexdigest()
    with _lock:
        if key in _remembered:
            return _remembered[key]
    with passing_folder('blame') as folder:
        workspace = folder / 'work'
        workspace.mkdir()
        restore(workspace, context.author_files, context.protected)
        with context.open_sandbox(workspace=workspace) as sandbox:
            answer = happens(sandbox)
    with _lock:
        if len(_remembered) >= MAX_REMEMBERED:
            _remembered.clear()
        _remembered[key] = answer
    return answer
