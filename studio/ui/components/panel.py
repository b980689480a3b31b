"""A card whose header and body are drawn in one block, and the small parts that the training pages share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nicegui import ui

from studio.ui.components.elements import Icon, Text, kbd


@contextmanager
def panel(
    title: str, *, icon: str = '', classes: str = '', label: str = '', flat: bool = False
) -> Iterator[ui.element]:
    """Draw a card. The block fills the body; what is drawn ``with`` the yielded header stands beside the title.

    ``flat`` leaves out the line below the header, as charts want it.
    """
    with ui.element('section').classes(f'card {classes}') as section:
        section.props['aria-label'] = label or title
        with ui.element('div').classes('hd flat' if flat else 'hd') as header:
            if icon:
                Icon(icon, 'lead')
            Text(title, 'h2')
        yield header


@contextmanager
def empty(icon: str, text: str, hint: str = '', *, room: int = 96) -> Iterator[ui.element]:
    """Draw what stands where there is nothing to show, ``room`` pixels from its edges; the block draws the way on."""
    with ui.element('div').classes('empty').style(f'padding: {room}px 16px; width: 100%') as place:
        Icon(icon, 'ic-l')
        Text(text)
        if hint:
            Text(hint, classes='t3 t-small')
        yield place


def measure(label: str, classes: str = '') -> Text:
    """Draw a small label with a value below it and return the value."""
    with ui.element('div').classes(f'm {classes}'):
        Text(label)
        return Text('', 'b', 'num')


def search_box(hint: str, value: str, on_change: Callable[[str], Any]) -> None:
    """Draw a search box that ``/`` focuses; ``on_change`` gets what was typed, a little after the last key."""
    with ui.element('label').classes('inp srch').props('data-search'):
        Icon('search', 'ic-s')
        box = ui.input(value=value, placeholder=hint).props('borderless dense debounce=200')
        box.props['aria-label'] = hint
        box.on_value_change(lambda event: on_change(event.value or ''))
        kbd('/')


def facts(*pairs: tuple[str, str]) -> None:
    """Draw name and value side by side, one pair a line."""
    with ui.element('dl').classes('kv'):
        for name, value in pairs:
            Text(name, 'dt')
            Text(value, 'dd')
