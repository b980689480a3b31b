"""What a process at the side of the studio says while it works, one JSON object a line; it ends with who started it.

Whoever starts one holds the other end of its stdin: when that closes, or on SIGTERM, the work is given up.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Annotated, Any, Final, Literal, TextIO

from pydantic import Field, TypeAdapter

from trainer.errors import RlvrError
from trainer.validation import Document

GIVEN_UP: Final = 130
MEMORY_WORDS: Final = ('out of memory', 'DefaultCPUAllocator', "can't allocate memory", 'Cannot allocate memory')


class Progress(Document):
    """How far the work is: ``done`` of ``total`` of what ``text`` names; a total of 0 is not known."""

    kind: Literal['progress'] = 'progress'
    text: str
    done: int = 0
    total: int = 0


class Done(Document):
    """The work is done."""

    kind: Literal['done'] = 'done'
    result: dict[str, Any] = Field(default_factory=dict)


class Failed(Document):
    """The work cannot be done; ``hint`` says what to do.

    ``error`` is the class of what happened: one of ``trainer.errors``, ``MemoryError``, or another of Python's.
    """

    kind: Literal['failed'] = 'failed'
    message: str
    hint: str = ''
    error: str = ''


Report = Annotated[Progress | Done | Failed, Field(discriminator='kind')]
REPORT: Final[TypeAdapter[Report]] = TypeAdapter(Report)
"""Reads one line."""


class GivenUp(BaseException):
    """Somebody wants the work to end now; everything half done is to be taken away."""


class Reporter:
    """Writes lines to the stdout that the process was started with; what libraries print goes to stderr."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def write(self, message: Document) -> None:
        """Write one line."""
        with self._lock:
            self._out.write(message.model_dump_json() + '\n')
            self._out.flush()

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None:
        """Say how far the work is."""
        self.write(Progress(text=text, done=done, total=total))


def run(work: Callable[[Reporter], Mapping[str, Any]], *, watch_stdin: bool = True) -> int:
    """Do the work of a process, tell how it went, and return its exit code."""
    with reporting() as report:
        signal.signal(signal.SIGTERM, _give_up)
        if watch_stdin:
            threading.Thread(target=_end_with_stdin, daemon=True).start()
        try:
            report.write(Done(result=dict(work(report))))
        except GivenUp:
            return GIVEN_UP
        except KeyboardInterrupt:
            return GIVEN_UP
        except Exception as error:
            # Whatever libraries raise: the reader gets a sentence, the log its trace.
            failed = failure(error)
            report.write(failed)
            if not isinstance(error, RlvrError):
                sys.excepthook(type(error), error, error.__traceback__)
            return 1
    return 0


@contextmanager
def reporting() -> Iterator[Reporter]:
    """A reporter over the real stdout, while everything else that prints goes to stderr."""
    with redirect_stdout(sys.stderr):
        yield Reporter(sys.__stdout__ or sys.stderr)


def failure(error: Exception) -> Failed:
    """What an error says to a user."""
    name = type(error).__name__
    if isinstance(error, RlvrError):
        return Failed(message=error.message, hint=error.hint, error=name)
    said = str(error).strip().splitlines() or ['']
    if is_out_of_memory(error):
        hint = 'End other programs that use it, a run that trains for instance, or choose a smaller model.'
        return Failed(message='There is not enough memory for this model', hint=hint, error=MemoryError.__name__)
    if isinstance(error, OSError) and error.strerror:
        what = f'{error.strerror}: {error.filename or "a file"}'
        return Failed(message=what, hint='See whether the disk is full.', error=name)
    return Failed(message=f'{name}: {said[0][:300]}', error=name)


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out: torch has no class of its own for that on every device."""
    return isinstance(error, MemoryError) or any(word in str(error) for word in MEMORY_WORDS)


def _give_up(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise GivenUp


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
