"""Whose pass rates the library shows: a menu of the models and adapters that attempted tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from nicegui import ui

from studio.calibrations.views import Subject
from studio.ui.components.elements import Button, Icon, Text
from studio.ui.components.wording import ago, plural


class RateOf:
    """Picks whose pass rates are shown, once there are any; ``on_change`` gets the key of who is picked."""

    def __init__(self, on_change: Callable[[str], Any]) -> None:
        self._on_change = on_change
        self._shown: tuple[tuple[str, ...], str] = ((), '')
        with ui.element('span').classes('rate-of') as self._all:
            Text('Pass rate of', classes='t3 t-small nowrap')
            with Button('', icon='box', kind='sm') as self._button:
                self._button.props('aria-haspopup=menu')
                self._caption = Text(classes='cap')
                Icon('chevrons-up-down', 'ic-xs')
                self._menu = ui.menu().classes('menu')
        self._all.set_visibility(False)

    def show(self, subjects: Sequence[Subject], key: str) -> None:
        """Offer subjects, of which one is shown."""
        picked = next((one for one in subjects if one.key == key), None)
        self._all.set_visibility(picked is not None)
        now = (tuple(one.key for one in subjects), key)
        if picked is None or now == self._shown:
            return
        self._shown = now
        self._caption.set_text(picked.title)
        self._button.props['aria-label'] = f'Pass rate of {picked.title}'
        self._button.props['title'] = picked.title
        self._menu.clear()
        with self._menu:
            for one in subjects:
                with ui.menu_item(on_click=partial(self._on_change, one.key)).classes('mi two'):
                    Icon('check' if one.key == key else 'box')
                    with ui.element('span').classes('vs vs-0'):
                        Text(one.title)
                        Text(f'{plural(one.attempts, "attempt")}, last {ago(one.used_at)}', classes='hint')
