"""The same draft as JSON: what is valid is the draft at once; what is not is named by its line and kept typed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui

from studio.ui.components.block import block
from studio.ui.components.code_editor import CodeEditor
from studio.ui.components.elements import Button, note, spacer
from studio.ui.components.fields import Field, name_fields
from studio.ui.components.json_lines import NotJson, Read, read_json
from trainer.errors import FieldError


class JsonBlock:
    """Draws the view; ``on_change`` gets every object that was typed, ``on_invalid`` is told of what is none."""

    def __init__(
        self,
        raw: dict[str, Any],
        *,
        dark: bool,
        broken: bool,
        on_change: Callable[[dict[str, Any]], Any],
        on_invalid: Callable[[], Any],
    ) -> None:
        self._on_change, self._on_invalid = on_change, on_invalid
        self._marked: dict[int, str] = {}
        text = json.dumps(raw, indent=2, ensure_ascii=False)
        self._read: Read | None = None
        with block('task_spec', 'braces'):
            if broken:
                lead = 'The form cannot show this draft.'
                note('Put its parts in shape here first.', 'warn', icon='triangle-alert', lead=lead)
            with Field('JSON', hint='The same draft as in the form; what is valid JSON is saved as you type.') as field:
                self.editor = CodeEditor(
                    text, label='task_spec as JSON', language='JSON', dark=dark, classes='json', on_change=self._typed
                )
            with ui.element('div').classes('hs') as self._jump:
                spacer()
                Button('Go to the line', icon='corner-down-right', kind='xs', on_click=self._go)
        name_fields({'json': field})
        self._field, self._wrong_line = field, 0
        self._jump.set_visibility(False)
        self._look(text)

    @property
    def is_valid(self) -> bool:
        """Whether what is typed is an object, and so the draft."""
        return self._read is not None

    def show_problems(self, problems: Sequence[FieldError]) -> None:
        """Mark the line of each problem of the spec; nothing while the text is no JSON, which has marks of its own."""
        if self._read is None:
            return
        found: dict[int, str] = {}
        for problem in problems:
            found.setdefault(self._read.line_of(problem.loc), problem.msg)
        self._mark(found)

    def reveal(self, loc: str) -> None:
        """Put the cursor on the line of a field."""
        self.editor.reveal(self._read.line_of(loc) if self._read else self._wrong_line)

    def _typed(self, text: str) -> None:
        read = self._look(text)
        self._on_change(read.value) if read else self._on_invalid()

    def _look(self, text: str) -> Read | None:
        """Read what is in the editor, and say what is wrong with it as JSON."""
        try:
            self._read = read_json(text)
        except NotJson as error:
            self._read, self._wrong_line = None, error.line
            where = f'Line {error.line}, column {error.column}'
            self._field.show_error(f'Not JSON yet. {where}: {error.message}. The last valid text is what is saved.')
            self._jump.set_visibility(True)
            self._mark({error.line: error.message})
            return None
        self._field.show_error('')
        self._jump.set_visibility(False)
        self._mark({})
        return self._read

    def _go(self) -> None:
        self.editor.reveal(self._wrong_line)

    def _mark(self, found: dict[int, str]) -> None:
        if found != self._marked:
            self._marked = found
            self.editor.mark_lines(found)
