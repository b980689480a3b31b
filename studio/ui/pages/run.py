"""The Run page."""

from __future__ import annotations

from studio.ui.layout import Shell


def page(shell: Shell, run_id: str) -> None:
    """Draw the page."""
    with shell.topbar('Run'):
        pass
