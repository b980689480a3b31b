"""Dialogs: only to confirm a loss or to ask for input. Each is made when it opens and gone when it closes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nicegui import ui

from studio.ui.components.elements import Button, Text


@contextmanager
def opened_dialog(title: str, *, text: str = '', size: str = '') -> Iterator[ui.dialog]:
    """Open a dialog with a heading and fill it; ``size`` is ``mid`` or ``wide``.

    It hangs at the page, not at the button that opened it: what opened it may be gone before it closes.
    """
    with ui.context.client.layout, ui.dialog(value=True) as dialog, ui.card().classes(f'dlg {size}'):
        dialog.props['aria-label'] = title
        Text(title, 'h2')
        if text:
            Text(text, 'p')
        yield dialog
    dialog.on('hide', dialog.delete)


def ask(
    title: str,
    text: str,
    *,
    action: str,
    on_yes: Callable[[], Any],
    keep: str = 'Cancel',
    icon: str = '',
    kind: str = 'dan',
) -> None:
    """Ask before a loss: the title is the question, the text the result; focus starts on the safe button."""
    with opened_dialog(title, text=text) as dialog, ui.element('div').classes('act'):

        async def go() -> None:
            dialog.close()
            result = on_yes()
            if result is not None:
                await result

        Button(keep, on_click=dialog.close).props('autofocus')
        Button(action, icon=icon, kind=kind, on_click=go)
