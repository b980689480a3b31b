"""Calls of one batch: episodes of a task that have gone the same way so far run an equal call once.

A way is everything a model has been told: the task, its calls and their answers. Two episodes that have gone the same
way cannot be told apart by the model, so one may take over the answer of the other together with all that its call
left behind, byte for byte. The setup of a task is the first such call. What fails, or leaves something that cannot be
copied, is not handed on: everybody runs it.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from trainer.errors import SandboxError
from trainer.sandbox.inside.frames import pack
from trainer.sandbox.protocol import State
from trainer.task import TaskSpec

Result = TypeVar('Result')
_Left = tuple[Any, State]


SETUP: Final = b'setup'
"""Stands for the setup of a task where a call would stand."""


def first_way(task: TaskSpec) -> bytes:
    """Where every episode of a task begins."""
    return task.hash.encode()


def spelled(name: str, args: Mapping[str, object]) -> bytes | None:
    """A tool call as bytes; ``None`` for one that no tool can carry out: all arguments of all tools are text."""
    texts = [name, *(text for pair in sorted(args.items()) for text in pair)] if isinstance(args, Mapping) else []
    if not texts or not all(isinstance(text, str) for text in texts):
        return None
    return pack([str(text).encode('utf-8', 'surrogatepass') for text in texts])


def further(way: bytes, call: bytes, answer: str) -> bytes:
    """The way of an episode that has gone ``way`` and then got this answer to this call."""
    return hashlib.sha256(pack([way, call, answer.encode('utf-8', 'surrogatepass')])).digest()


class SharedCalls:
    """Knows how many episodes stand at each way, and what their calls answered and left. Thread-safe."""

    def __init__(self, ways: Iterable[bytes]) -> None:
        self._lock = threading.Lock()
        self._standing = Counter(ways)
        self._given_up = False
        self._known: defaultdict[bytes, dict[bytes, Future[_Left | None]]] = defaultdict(dict)

    def once(
        self, way: bytes, call: bytes, run: Callable[[], Result], save: Callable[[], State | None]
    ) -> tuple[Result, State | None]:
        """Return what ``run`` returns, and ``None``; or what it returned for another episode, and what that one left.

        Who comes while the call runs waits for it. ``save`` is asked only where others stand at the same way. Raises
        what ``run`` and ``save`` raise, and ``SandboxError`` where the batch was given up meanwhile.
        """
        with self._lock:
            known = self._known[way].get(call)
            own = self._known[way].setdefault(call, Future())
        if known is not None:
            left = known.result()
            if self._given_up:
                raise SandboxError('the batch was given up')
            return left if left is not None else (run(), None)
        left = None
        try:
            result = run()
            if self._standing[way] > 1 and (state := save()) is not None:
                left = (result, state)
        finally:
            own.set_result(left)
        return result, None

    def give_up(self) -> None:
        """Let nobody who waits for another's call run it too: the batch is over."""
        self._given_up = True

    def go(self, way: bytes, onto: bytes) -> None:
        """Move an episode on."""
        with self._lock:
            self._standing[onto] += 1
        self.leave(way)

    def leave(self, way: bytes) -> None:
        """Take an episode out; what nobody can come for any more is forgotten."""
        with self._lock:
            self._standing[way] -= 1
            if self._standing[way] <= 0:
                del self._standing[way]
                self._known.pop(way, None)
