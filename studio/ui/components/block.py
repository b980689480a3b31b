"""A block of the editor: a card with a heading that folds, and can be taken out of the column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nicegui import ui

from studio.ui.components.elements import Button, Icon, Text


@contextmanager
def block(title: str, icon: str, *, on_remove: Callable[[], Any] | None = None) -> Iterator[ui.element]:
    """Draw a block around what is drawn inside; yields the row in its header."""
    with ui.element('section').classes('card blk') as section:
        section.props['aria-label'] = title
        with ui.element('div').classes('hd'):
            with ui.element('span').classes('bicon'):
                Icon(icon)
            Text(title, 'h2')
            row = ui.element('div').classes('hs sp')
            if on_remove is not None:
                remove = Button(icon='trash-2', kind='gho icn sm quiet', label=f'Remove {title}')
                remove.on('click', on_remove, args=[])
            fold = Button(icon='chevron-down', kind='gho icn sm fold', label=f'Fold {title}')
            fold.props('aria-expanded=true')
        body = ui.element('div').classes('bd vs vs-3')

        def toggle() -> None:
            section.classes(toggle='folded')
            folded = 'folded' in section.classes
            fold.props(f'aria-expanded={"false" if folded else "true"}')
            fold.props['aria-label'] = fold.props['title'] = f'{"Unfold" if folded else "Fold"} {title}'

        fold.on('click', toggle, args=[])
        with body:
            yield row
