"""The few names of ``signal`` that a server needs, from the C module beneath it: enum alone would cost 3 ms."""

from __future__ import annotations

import _signal as _c  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SIGCHLD: int = _c.SIGCHLD
SIGINT: int = _c.SIGINT
SIGKILL: int = _c.SIGKILL
SIGPIPE: int = _c.SIGPIPE
SIGXFSZ: int = _c.SIGXFSZ


def default(number: int) -> None:
    """Give a signal back its default action."""
    _c.signal(number, _c.SIG_DFL)


def wake(number: int, fd: int) -> None:
    """Write a byte to the non-blocking ``fd`` whenever the signal arrives."""
    _c.set_wakeup_fd(fd, warn_on_full_buffer=False)
    handler: Callable[[int, object], None] = lambda number, frame: None  # noqa: E731
    _c.signal(number, handler)
