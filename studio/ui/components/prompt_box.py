"""The prompt as plain text, kept byte for byte: a text box with a Markdown bar that only types marks for you."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from nicegui import events, ui

from studio.ui.components.elements import Button, Text, spacer
from studio.ui.components.line_endings import as_shown, keep_line_endings

_MARKS: Final = (
    ('bold', 'Bold', '**', '**', False),
    ('italic', 'Italic', '*', '*', False),
    ('code', 'Code', '`', '`', False),
    ('list', 'List', '- ', '', True),
    ('link', 'Link', '[', '](https://)', False),
)


class PromptBox:
    """Draws the box; ``on_change`` gets the whole text."""

    def __init__(self, value: str, *, on_change: Callable[[str], Any]) -> None:
        self.value = value
        self._on_change = on_change
        with ui.element('div').classes('rt'):
            with ui.element('div').classes('tb').props('role=toolbar aria-label="Markdown marks"'):
                bar = {icon: Button(icon=icon, kind='gho icn xs', label=label) for icon, label, *_ in _MARKS}
                spacer()
                Text('Markdown', classes='hint')
            box = ui.textarea(value=as_shown(value)).props('borderless dense autogrow input-class=prompt-text')
            box.props['aria-label'] = 'Prompt'
            box.props['placeholder'] = 'What should the model do? Name the files it must leave behind.'
            box.on_value_change(self._typed)
        for icon, _, before, after, each in _MARKS:
            call = f'() => rlvrWrap({box.id}, {json.dumps(before)}, {json.dumps(after)}, {json.dumps(each)})'
            bar[icon].on('click', js_handler=call)

    def _typed(self, event: events.ValueChangeEventArguments[str | None]) -> Any:
        self.value = keep_line_endings(self.value, event.value or '')
        return self._on_change(self.value)
