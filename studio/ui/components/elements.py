"""The small parts of the design system as elements: icons, buttons, chips, seals, cards, fields and notes.

They produce the markup that ``assets/css/tokens.css`` styles. Text always goes in as a text node, never as HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

SPRITE = '/assets/icons/icons.svg'

CHECKER_ICONS = {'exit_code': 'terminal', 'file_exists': 'file-check', 'pytest': 'list-checks', 'script': 'braces'}
"""The icon of each checker type, the same everywhere."""


_SIZES = {'xs': 'z-xs', 'sm': 'z-sm', 'lg': 'z-lg'}


def sized(kind: str) -> str:
    """Rename size words: Quasar hides everything of class ``xs``, ``sm`` or ``lg`` at other screen widths."""
    return ' '.join(_SIZES.get(word, word) for word in kind.split())


def sprite(name: str) -> str:
    """Name a symbol for the ``icon`` argument of a Quasar element."""
    return f'svguse:{SPRITE}#{name}|0 0 24 24'


class Text(TextElement):
    """One text node in an element of any tag: ``Text('3 of 6', 'span', 'num t3')``."""

    def __init__(self, text: str = '', tag: str = 'span', classes: str = '') -> None:
        super().__init__(tag=tag, text=text)
        self.classes(classes)


class Icon(ui.element):
    """A symbol of our sprite. Decorative by default; ``label`` makes it speak."""

    def __init__(self, name: str, classes: str = '', *, label: str = '') -> None:
        super().__init__('svg')
        self.classes(f'ic {classes}')
        self._props['viewBox'] = '0 0 24 24'
        if label:
            self._props['role'] = 'img'
            self._props['aria-label'] = label
        else:
            self._props['aria-hidden'] = 'true'
        self.set(name)

    def set(self, name: str) -> None:
        """Show another symbol."""
        self._props['innerHTML'] = f'<use href="{SPRITE}#{name}"></use>'


class Button(ui.element):
    """A button of the design system: ``kind`` is any of ``pri``, ``gho``, ``dan``, ``sm``, ``xs``, ``icn``, ``lg``.

    ``key`` binds a shortcut (see ``assets/js/shell.js``): the key clicks this button while it is on the page.
    ``label`` names a button that has no text. A disabled button says why through ``disable(reason)``.
    """

    def __init__(
        self,
        text: str = '',
        *,
        icon: str = '',
        kind: str = '',
        on_click: Callable[..., Any] | None = None,
        label: str = '',
        key: str = '',
        shortcut: str = '',
    ) -> None:
        super().__init__('button')
        self._props['type'] = 'button'
        self.classes(f'btn {sized(kind)}')
        if label:
            self._props['aria-label'] = label
            self._props['title'] = label
        if key:
            self._props['data-key'] = key
        with self:
            self.icon = Icon(icon, 'ic-s' if {'sm', 'xs'} & set(kind.split()) else '') if icon else None
            self.caption = Text(text, classes='cap') if text else None
            if shortcut:
                kbd(shortcut)
        if on_click is not None:
            self.on('click', on_click, args=[])

    def set_text(self, text: str) -> None:
        """Change the caption."""
        if self.caption is not None:
            self.caption.set_text(text)

    def disable(self, reason: str) -> None:
        """Switch the button off and say why."""
        self.props('disabled')
        self._props['title'] = reason
        self.update()

    def enable(self) -> None:
        """Switch the button on."""
        self.props(remove='disabled')
        self._props['title'] = self._props.get('aria-label', '')
        self.update()

    def off(self, reason: str) -> None:
        """Switch the button off with a reason, or on without one."""
        self.disable(reason) if reason else self.enable()


def kbd(keys: str) -> Text:
    """Draw one key; ``mod`` is shown as ⌘ on macOS and Ctrl elsewhere (by ``shell.js``)."""
    text = Text(keys.replace('mod', 'Ctrl '), 'kbd')
    if 'mod' in keys:
        text.props(f'data-mod="{keys}"')
    return text


def chip(text: str, kind: str = '', *, icon: str = '') -> ui.element:
    """Draw a chip: a neutral fact, or a state with ``kind`` ``ok``, ``warn``, ``bad``, ``info``, ``acc``, ``out``."""
    element = ui.element('span').classes(f'chip {sized(kind)}')
    with element:
        if icon:
            Icon(icon, 'ic-xs')
        Text(text)
    return element


def checker_chip(kind: str) -> ui.element:
    """Draw the chip of a checker type with its icon."""
    return chip(kind, 'mono', icon=CHECKER_ICONS.get(kind, 'circle-help'))


def note(text: str, kind: str = '', *, icon: str = 'info', lead: str = '') -> ui.element:
    """Draw a note next to the thing it is about; ``lead`` is its first words in bold."""
    element = ui.element('div').classes(f'note {kind}')
    with element:
        Icon(icon, 'ic-s')
        with ui.element('span'):
            if lead:
                Text(f'{lead} ', 'b')
            Text(text)
    return element


@contextmanager
def card(title: str, *, icon: str = '', classes: str = '', block: bool = False) -> Iterator[ui.element]:
    """Draw a card around what is drawn inside; yields the row of its header where chips and buttons go."""
    with ui.element('section').classes(f'card {classes}') as section:
        section.props['aria-label'] = title
        with ui.element('div').classes('hd'):
            if block:
                with ui.element('span').classes('bicon'):
                    Icon(icon)
            elif icon:
                Icon(icon, 'lead')
            Text(title, 'h2')
            with ui.element('div').classes('hs sp') as actions:
                pass
        yield actions


@contextmanager
def field(label: str, *, hint: str = '', end: str = '') -> Iterator[ui.element]:
    """Draw a label above whatever is drawn inside, an optional hint at its right end and a line below."""
    with ui.element('div').classes('field') as element:
        with ui.element('span').classes('lbl'):
            Text(label)
            if end:
                Text(end, classes='hint end num')
        yield element
        if hint:
            Text(hint, classes='hint')


def spacer() -> ui.element:
    """Take the room that is left in a row."""
    return ui.element('span').classes('sp')


def divider() -> ui.element:
    """Draw a short vertical line between groups of a bar."""
    return ui.element('span').classes('vsep')
