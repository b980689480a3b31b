"""The Task page."""

from __future__ import annotations

from studio.ui.layout import Shell


def page(shell: Shell, task_id: str) -> None:
    """Draw the page."""
    with shell.topbar('Task'):
        pass
