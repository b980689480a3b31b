"""Sandboxes made ahead of need, and a bound on how many are alive at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from trainer.errors import SandboxError
from trainer.sandbox import Isolation, Sandbox, SandboxSpec, open_sandbox


class SandboxPool:
    """At most ``size`` sandboxes of one kind at a time, of which up to ``ready`` wait to be used.

    Every sandbox is used once: what ``acquire`` lends is fresh, and closed afterwards.
    """

    def __init__(
        self, size: int, spec: SandboxSpec | None = None, *, ready: int = 2, isolation: Isolation | None = None
    ) -> None:
        self._size = size
        self._ready = min(ready, size)
        self._spec = spec
        self._isolation = isolation
        self._changed = threading.Condition()
        self._alive = 0
        self._spares: list[Sandbox] = []
        self._failure: SandboxError | None = None
        self._closed = False
        self._filler = threading.Thread(target=self._keep_ready, name='sandbox pool', daemon=True)
        self._filler.start()

    @contextlib.contextmanager
    def acquire(self) -> Iterator[Sandbox]:
        """Lend a fresh sandbox, waiting while ``size`` are alive. Raises ``SandboxError`` when none can be made."""
        sandbox = self._take()
        try:
            yield sandbox
        finally:
            sandbox.close()
            self._one_less()

    def close(self) -> None:
        """Close the sandboxes that nobody has taken and lend no more; those that are lent end with their users."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._filler.join()
        while self._spares:
            self._spares.pop().close()
            self._one_less()

    def __enter__(self) -> Self:
        """Return the pool itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _take(self) -> Sandbox:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._failure or self._spares or self._alive < self._size)
            if self._closed:
                raise SandboxError('the pool of sandboxes is closed')
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self._spares:
                sandbox = self._spares.pop()
                self._changed.notify_all()
                return sandbox
            self._alive += 1
        return self._make()

    def _make(self) -> Sandbox:
        """Make a sandbox that has been counted already."""
        try:
            return open_sandbox(self._spec, isolation=self._isolation)
        except BaseException:
            self._one_less()
            raise

    def _one_less(self) -> None:
        with self._changed:
            self._alive -= 1
            self._changed.notify_all()

    def _keep_ready(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._wants_more)
                if self._closed:
                    return
                self._alive += 1
            try:
                sandbox = self._make()
            except SandboxError as error:
                with self._changed:
                    # Handed to the next user; filling goes on only when that one has seen it.
                    self._failure = error
                    self._changed.notify_all()
                continue
            with self._changed:
                self._spares.append(sandbox)
                self._changed.notify_all()

    def _wants_more(self) -> bool:
        lacks = len(self._spares) < self._ready and self._alive < self._size
        return self._closed or (self._failure is None and lacks)
