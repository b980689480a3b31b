"""A scope of sandboxes: whatever opens one inside it can be ended from another thread, with all that runs there.

Like the cancel scopes of structured concurrency: those who open sandboxes (a checker, a replay) need not know of it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from trainer.errors import SandboxError

if TYPE_CHECKING:
    from trainer.sandbox.protocol import Sandbox


class SandboxScope:
    """The sandboxes opened while it is entered; ``end`` closes them, and any opened later, with ``SandboxError``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[Sandbox] = weakref.WeakSet()
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether it was ended: what failed inside failed because of that."""
        return self._ended

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Take every sandbox that this thread opens meanwhile; several threads may enter one scope."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def end(self) -> None:
        """Close what is open, ending every process in it; calls that wait for one raise ``SandboxError``."""
        with self._lock:
            self._ended = True
            sandboxes = list(self._open)
        for sandbox in sandboxes:
            sandbox.close()

    def check(self) -> None:
        """Raise ``SandboxError`` where it has ended: no sandbox need be made for it any more."""
        if self._ended:
            raise SandboxError('the work was ended')

    def take(self, sandbox: Sandbox) -> None:
        """Add a sandbox that was just opened. Raises ``SandboxError`` where the scope has ended, and closes it."""
        with self._lock:
            if not self._ended:
                self._open.add(sandbox)
                return
        sandbox.close()
        self.check()


_current: ContextVar[SandboxScope | None] = ContextVar('sandbox_scope', default=None)


def current_scope() -> SandboxScope | None:
    """The scope this thread is in, if any."""
    return _current.get()
