"""The prompt as plain text, kept byte for byte: a text box with a Markdown bar that only types marks, and a preview."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from nicegui import events, ui

from studio.ui.components.elements import Button, spacer
from studio.ui.components.line_endings import as_shown, keep_line_endings
from studio.ui.components.markdown_view import markdown_view
from studio.ui.components.segmented import Choice, Segmented

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
            with ui.element('div').classes('tb'):
                with ui.element('div').classes('hs').props('role=toolbar aria-label="Markdown marks"') as self._bar:
                    bar = {icon: Button(icon=icon, kind='gho icn xs', label=label) for icon, label, *_ in _MARKS}
                spacer()
                choices = [Choice('write', 'Write', 'pencil'), Choice('preview', 'Preview', 'eye')]
                self._segmented = Segmented(choices, 'write', label='Prompt view', on_change=self._show, classes='slim')
            self._box = ui.textarea(value=as_shown(value)).props('borderless dense autogrow input-class=prompt-text')
            self._box.props['aria-label'] = 'Prompt'
            self._box.props['placeholder'] = 'What should the model do? Name the files it must leave behind.'
            self._box.on_value_change(self._typed)
            self._preview = (
                ui.element('div').classes('marked').props('role=region aria-label="Prompt preview" tabindex=0')
            )
            self._preview.set_visibility(False)
        for icon, _, before, after, each in _MARKS:
            call = f'() => rlvrWrap({self._box.id}, {json.dumps(before)}, {json.dumps(after)}, {json.dumps(each)})'
            bar[icon].on('click', js_handler=call)

    def _show(self, view: str) -> None:
        """Swap the source for its preview; the source stays in place, with its cursor and its undo."""
        preview = view == 'preview'
        self._bar.set_visibility(not preview)
        self._box.set_visibility(not preview)
        self._preview.set_visibility(preview)
        self._preview.clear()
        if preview:
            with self._preview:
                markdown_view(self.value)

    def show_source(self) -> None:
        """Leave the preview, as a jump to the prompt needs it."""
        if self._preview.visible:
            self._show('write')
            self._segmented.show('write')

    def _typed(self, event: events.ValueChangeEventArguments[str | None]) -> Any:
        self.value = keep_line_endings(self.value, event.value or '')
        return self._on_change(self.value)
