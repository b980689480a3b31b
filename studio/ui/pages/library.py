"""The Tasks page."""

from __future__ import annotations

from studio.ui.layout import Shell


def page(shell: Shell) -> None:
    """Draw the page."""
    with shell.topbar('Tasks'):
        pass
