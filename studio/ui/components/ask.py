"""A question before something is lost: the title asks, the text says the result, the buttons repeat the verb."""

from __future__ import annotations

from nicegui import ui

from studio.ui.components.elements import Button, Text


async def ask(title: str, text: str, *, yes: str, no: str, icon: str = '') -> bool:
    """Ask, and wait for the answer. Esc and a click beside the dialog mean no; focus starts on the safe button."""
    with ui.dialog() as dialog, ui.card().classes('dlg').props(f'role=alertdialog aria-label="{title[:80]}"'):
        Text(title, 'h2')
        Text(text, 'p')
        with ui.element('div').classes('act'):
            Button(no, on_click=lambda: dialog.submit(False)).props('autofocus')
            Button(yes, icon=icon, kind='dan', on_click=lambda: dialog.submit(True))
    answer = await dialog
    dialog.delete()
    return bool(answer)


async def ask_text(title: str, text: str, value: str, *, yes: str, max_chars: int = 200) -> str | None:
    """Ask for one line of text; ``None`` if the user cancels."""
    with ui.dialog() as dialog, ui.card().classes('dlg'):
        Text(title, 'h2')
        Text(text, 'p')
        box = ui.input(value=value).props(f'outlined dense autofocus maxlength={max_chars}').classes('w-full mt-3')
        box.props['aria-label'] = title
        box.on('keydown.enter', lambda: dialog.submit(box.value), args=[])
        with ui.element('div').classes('act'):
            Button('Cancel', on_click=lambda: dialog.submit(None))
            Button(yes, kind='pri', on_click=lambda: dialog.submit(box.value))
    answer = await dialog
    dialog.delete()
    return None if answer is None else str(answer)
