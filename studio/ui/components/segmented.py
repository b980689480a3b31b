"""Choices that stay on the page: the segmented control (a radio group) and the filter pill (a menu behind a pill)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from nicegui import events, ui

from studio.ui.components.elements import Icon, Text

MANY: Final = 10
"""A menu with more choices than this gets a box to look for one."""


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
    """A dashed pill that adds a filter; once set it says so, opens to be changed, and carries a cross.

    Empty text is "not set". With ``can_exclude`` its menu can turn "is" into "is not": ``excludes`` says which.
    ``before_open`` reads what the choices rest on.
    """

    def __init__(
        self,
        name: str,
        choices: Callable[[], Sequence[Choice]],
        value: str = '',
        *,
        on_change: Callable[[FilterPill], Any],
        can_exclude: bool = False,
        excludes: bool = False,
        before_open: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__('span')
        self.classes('pill')
        self._name, self._choices, self._on_change, self._can_exclude = name, choices, on_change, can_exclude
        self.value, self.excludes, self._before_open = value, excludes, before_open
        with self:
            with ui.element('button').props('type=button aria-haspopup=dialog').classes('in') as self._button:
                self._inside = ui.element('span').classes('hs hs-6')
                # A menu may hold nothing but entries; this popup also holds the box to look for one.
                self._menu = ui.menu().props('no-parent-event role=dialog').classes('menu')
                self._menu.props['aria-label'] = f'Filter by {name}'
            self._cross = ui.element('button').props('type=button').classes('in')
            with self._cross:
                Icon('x', 'ic-xs')
        self._button.on('click', self._open, args=[])
        self._cross.on('click', lambda: self.pick(''), args=[])
        self._draw()

    def pick(self, value: str) -> Any:
        """Set the filter and tell."""
        self._menu.close()
        self.value = value
        self._draw()
        return self._on_change(self)

    async def _open(self) -> None:
        if self._before_open is not None:
            await self._before_open()
        choices = self._choices()
        self._menu.clear()
        with self._menu:
            if len(choices) > MANY:
                box = ui.input(placeholder='Find').props('dense borderless autofocus').classes('menu-find')
                box.props['aria-label'] = f'Find in {self._name}'
                box.on_value_change(lambda event: self._list(choices, event))
            with ui.element('div').props('role=menu') as menu:
                menu.props['aria-label'] = self._name
                if self._can_exclude and self.value:
                    self._item('is' if self.excludes else 'is not', 'equal' if self.excludes else 'ban', self._turn)
                    ui.element('div').classes('menu-line').props('role=separator')
                self._rows = ui.element('div').classes('menu-rows').props('role=group')
        self._list(choices)
        self._menu.open()

    def _list(
        self, choices: Sequence[Choice], event: events.ValueChangeEventArguments[str | None] | None = None
    ) -> None:
        word = (event.value or '').casefold() if event is not None else ''
        self._rows.clear()
        with self._rows:
            fitting = [choice for choice in choices if word in choice.label.casefold()]
            for choice in fitting:
                row = self._item(choice.label, choice.icon, partial(self.pick, choice.value))
                row.props(f'role=menuitemradio aria-checked={"true" if choice.value == self.value else "false"}')
                if choice.count is not None:
                    with row:
                        Text(str(choice.count), classes='end t3 num')
            if not fitting:
                Text('Nothing to pick from', 'div', 'mi t3')

    def _item(self, label: str, icon: str, act: Callable[[], Any]) -> ui.element:
        with ui.element('div').classes('mi').props('role=menuitem tabindex=0') as row:
            if icon:
                Icon(icon, 'ic-s')
            Text(label)
        row.on('click', act, args=[])
        row.on('keydown.enter', act, args=[])
        row.on('keydown.space.prevent', act, args=[])
        return row

    def _turn(self) -> Any:
        self.excludes = not self.excludes
        return self.pick(self.value)

    def _draw(self) -> None:
        verb = 'is not' if self.excludes else 'is'
        self.classes(add='on') if self.value else self.classes(remove='on')
        self._button.props['aria-label'] = (
            f'{self._name} {verb} {self.value}' if self.value else f'Filter: {self._name}'
        )
        self._cross.props['aria-label'] = f'Remove the filter {self._name}: {self.value}'
        self._cross.set_visibility(bool(self.value))
        self._inside.clear()
        with self._inside:
            if self.value:
                Text(f'{self._name} {verb}')
                Text(self.value, 'b', 'ell')
            else:
                Icon('plus', 'ic-xs')
                Text(self._name)
