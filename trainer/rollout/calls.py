"""Calls of one batch: attempts of a task that have the same history run an equal call once.

A history is all that an attempt has been told: the task, its calls and their answers. Of two attempts with the same
history either could be in the place of the other, so one may take over the answer of the other's next call together
with all files that this call left. The setup of a task is the first such call. What meets a limit or leaves something
that cannot be copied is not handed on: those attempts run everything themselves from then on.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from trainer.errors import SandboxError
from trainer.sandbox.inside.frames import pack
from trainer.sandbox.protocol import State
from trainer.task import TaskSpec
from trainer.tools import ToolResult

SETUP: Final = b'setup'
"""Stands for the setup of a task where a call would stand."""
MAX_BYTES: Final = 256 * 1024**2
"""Of all states that one batch may hold."""


def first_history(task: TaskSpec) -> bytes:
    """What every attempt of a task begins with."""
    return task.hash.encode()


def spelled(name: str, args: Mapping[str, object]) -> bytes | None:
    """A tool call as bytes; ``None`` for one that no tool can carry out: all arguments of all tools are text.

    Such a call changes nothing, so it does not count as a part of a history either.
    """
    texts = [name, *(text for pair in sorted(args.items()) for text in pair)] if isinstance(args, Mapping) else []
    if not texts or not all(isinstance(text, str) for text in texts):
        return None
    return pack([str(text).encode('utf-8', 'surrogatepass') for text in texts])


@dataclass(frozen=True)
class Answer:
    """How a call was answered, and the history it leads to: ``None`` for who runs everything itself from now on.

    ``state`` is what the call left, where it was another attempt's.
    """

    result: ToolResult
    history: bytes | None
    state: State | None = None


@dataclass
class _Call:
    """A call that runs or has run, and how many wait for it; its future holds ``None`` where nothing is handed on."""

    answered: Future[Answer | None] = field(default_factory=Future)
    waiting: int = 0


class SharedCalls:
    """Knows how many attempts have each history, and what their calls answered and left. Thread-safe."""

    def __init__(self, histories: Iterable[bytes]) -> None:
        self._lock = threading.Lock()
        self._having = Counter(histories)
        self._calls: defaultdict[bytes, dict[bytes, _Call]] = defaultdict(dict)
        self._room = MAX_BYTES
        self._given_up = False

    def once(
        self, history: bytes, call: bytes, run: Callable[[], ToolResult], save: Callable[[], State | None]
    ) -> Answer:
        """Run a call, or wait for whoever runs it and take over its answer.

        ``save`` is asked where others have the same history and the call met no limit. Raises what ``run`` raises, and
        ``SandboxError`` where the batch was given up meanwhile.
        """
        with self._lock:
            made = self._calls[history].get(call)
            if made is None:
                own = self._calls[history][call] = _Call()
            elif not made.answered.done():
                made.waiting += 1
            else:
                self._move(history, made.answered.result(), 1)
        if made is None:
            return self._run(history, call, own, run, save)
        answer = made.answered.result()
        if self._given_up:
            raise SandboxError('the batch was given up')
        return answer or Answer(run(), None)

    def leave(self, history: bytes) -> None:
        """Take an attempt out."""
        with self._lock:
            self._move(history, None, 1)

    def give_up(self) -> None:
        """Let nobody who waits for another's call run it too: the batch is over."""
        self._given_up = True

    def _run(
        self, history: bytes, call: bytes, own: _Call, run: Callable[[], ToolResult], save: Callable[[], State | None]
    ) -> Answer:
        answer = None
        try:
            result = run()
            answer = self._kept(history, call, result, save)
        finally:
            with self._lock:
                self._move(history, answer, 1 + own.waiting)
                own.answered.set_result(answer)
        return Answer(result, answer.history if answer else None)

    def _kept(self, history: bytes, call: bytes, result: ToolResult, save: Callable[[], State | None]) -> Answer | None:
        """The answer as others get it; ``None`` where there are no others, or nothing can be handed on."""
        if self._having[history] < 2 or result.met_limit or self._room < 0:
            return None
        state = save()
        if state is None:
            return None
        with self._lock:
            self._room -= state.cost
        text = result.text.encode('utf-8', 'surrogatepass')
        return Answer(result, hashlib.sha256(pack([history, call, text])).digest(), state)

    def _move(self, history: bytes, answer: Answer | None, attempts: int) -> None:
        """Give attempts the history that an answer leads to, or none; what nobody can come for is forgotten."""
        if answer is not None and answer.history is not None:
            self._having[answer.history] += attempts
        self._having[history] -= attempts
        if self._having[history] <= 0:
            del self._having[history]
            self._calls.pop(history, None)
