"""Choices that stay on the page: the segmented control (a radio group) and the filter pill (a menu behind a pill)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from studio.ui.components.elements import Icon, Text


@dataclass(frozen=True)
class Choice:
    """One value of a segmented control or a menu."""

    value: str
    label: str
    icon: str = ''
    count: int | None = None


class Segmented(ui.element):
    """A radio group drawn as one bar; arrow keys move (``shell.js``). ``on_change`` gets the picked value."""

    def __init__(
        self,
        choices: Sequence[Choice],
        value: str,
        *,
        label: str,
        on_change: Callable[[str], Any],
        classes: str = '',
    ) -> None:
        super().__init__('div')
        self.classes(f'seg {classes}').props('role="radiogroup"')
        self.props['aria-label'] = label
        self.value = value
        self._on_change = on_change
        self._buttons: dict[str, ui.element] = {}
        self._counts: dict[str, Text] = {}
        with self:
            for choice in choices:
                with ui.element('button').props('type=button role=radio') as button:
                    if choice.icon:
                        Icon(choice.icon, 'ic-s')
                    Text(choice.label)
                    if choice.count is not None:
                        self._counts[choice.value] = Text(str(choice.count), classes='n')
                self._buttons[choice.value] = button
                # The handler is called in this element's slot, and may be asynchronous: hand its result on.
                button.on('click', lambda picked=choice.value: self._pick(picked), args=[])
        self.show(value)

    def show(self, value: str) -> None:
        """Mark a value as picked without telling anybody."""
        self.value = value
        for name, button in self._buttons.items():
            on = name == value
            button.props(f'aria-checked={"true" if on else "false"} tabindex={"0" if on else "-1"}')

    def set_counts(self, counts: dict[str, int]) -> None:
        """Bring the numbers behind the labels up to date."""
        for name, text in self._counts.items():
            text.set_text(str(counts.get(name, 0)))

    def _pick(self, value: str) -> Any:
        if value == self.value:
            return None
        self.show(value)
        return self._on_change(value)


class FilterPill(ui.element):
    """A dashed pill that adds a filter; once set it is solid and carries a cross. Empty text is "not set"."""

    def __init__(
        self, name: str, choices: Callable[[], Sequence[Choice]], value: str, *, on_change: Callable[[str], Any]
    ) -> None:
        super().__init__('button')
        self.props('type=button aria-haspopup=true').classes('pill')
        self._name, self._choices, self._on_change = name, choices, on_change
        self.value = value
        with self:
            self._inside = ui.element('span').classes('hs hs-6')
            self._menu = ui.menu().props('no-parent-event').classes('menu')
        self.on('click', self._click, args=[])
        self._draw()

    def _click(self) -> Any:
        if self.value:
            return self.pick('')
        self._menu.clear()
        with self._menu:
            for choice in self._choices():
                with ui.element('div').classes('mi').props('role=menuitem tabindex=0') as row:
                    if choice.icon:
                        Icon(choice.icon, 'ic-s')
                    Text(choice.label)
                row.on('click', lambda picked=choice.value: self.pick(picked), args=[])
                row.on('keydown.enter', lambda picked=choice.value: self.pick(picked), args=[])
            if not self._choices():
                Text('Nothing to pick from', 'div', 'mi t3')
        self._menu.open()
        return None

    def pick(self, value: str) -> Any:
        """Set the filter and tell."""
        self._menu.close()
        self.value = value
        self._draw()
        return self._on_change(value)

    def _draw(self) -> None:
        self.classes(add='on') if self.value else self.classes(remove='on')
        self.props['aria-label'] = (
            f'Remove the filter {self._name}: {self.value}' if self.value else f'Filter: {self._name}'
        )
        self._inside.clear()
        with self._inside:
            if self.value:
                Text(f'{self._name} is')
                Text(self.value, 'b')
                Icon('x', 'ic-xs')
            else:
                Icon('plus', 'ic-xs')
                Text(self._name)
