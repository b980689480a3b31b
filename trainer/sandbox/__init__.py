"""Isolated workspaces for code that a model wrote: ``open_sandbox`` makes one, or says why not and what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final, Literal

from trainer.errors import SandboxUnavailable
from trainer.sandbox.bubblewrap import open_bubblewrap
from trainer.sandbox.client import ServedSandbox
from trainer.sandbox.landlock import open_landlock
from trainer.sandbox.limits import starting_sandboxes
from trainer.sandbox.protocol import ExecResult, Limits, Mount, PathRefused, Sandbox, SandboxSpec
from trainer.sandbox.scope import SandboxScope, current_scope
from trainer.sandbox.unsafe import open_unsafe

Isolation = Literal['bubblewrap', 'landlock', 'unsafe']
"""The kinds of isolation there are. ``landlock`` is weaker and ``unsafe`` is none: never chosen unless named."""

_OPEN: Final[Mapping[Isolation, Callable[[SandboxSpec], ServedSandbox]]] = {
    'bubblewrap': open_bubblewrap,
    'landlock': open_landlock,
    'unsafe': open_unsafe,
}


def open_sandbox(spec: SandboxSpec | None = None, *, isolation: Isolation | None = None) -> Sandbox:
    """Make a sandbox with an empty workspace, or with a copy of ``spec.workspace``.

    Without ``isolation`` it is bubblewrap or nothing: raises ``SandboxUnavailable`` with the fix, never falls back.
    Raises ``SandboxError`` when this one sandbox could not be made, or the scope it is for has ended.
    """
    if sys.platform != 'linux':
        raise SandboxUnavailable(
            'sandboxes need Linux', hint='Run the studio on Linux, in a virtual machine or in WSL.'
        )
    scope = current_scope()
    with starting_sandboxes:
        if scope is not None:
            scope.check()
        sandbox = _OPEN[isolation or 'bubblewrap'](spec or SandboxSpec())
    if scope is not None:
        scope.take(sandbox)
    return sandbox


__all__ = [
    'ExecResult',
    'Isolation',
    'Limits',
    'Mount',
    'PathRefused',
    'Sandbox',
    'SandboxScope',
    'SandboxSpec',
    'open_sandbox',
]
