"""An ordered list of one-line texts (commands, paths): edit in place, add at the end, remove."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import events, ui

from studio.ui.components.elements import Button, Text

_PASTE = (
    "(event) => { const text = event.clipboardData.getData('text'); "
    "if (text.trim().includes('\\n')) { event.preventDefault(); emit(text); } }"
)


class Lines:
    """Draws the list; ``on_change`` gets all lines after every change. Empty lines are left out."""

    def __init__(
        self, lines: Sequence[str], *, name: str, placeholder: str, on_change: Callable[[list[str]], Any]
    ) -> None:
        self._name, self._placeholder, self._on_change = name, placeholder, on_change
        self._rows: list[_Row] = []
        with ui.element('div').classes('cmds') as box, ui.element('ol') as self._list:
            box.props('role=group')
            box.props['aria-label'] = name
        for line in lines:
            self._add(line)
        self._add('')

    def show_errors(self, errors: dict[int, str]) -> None:
        """Mark the lines that have a problem."""
        filled = [row for row in self._rows if row.text]
        for index, row in enumerate(filled):
            row.show_error(errors.get(index, ''))

    def row(self, index: int) -> ui.element | None:
        """The row of a line that has text, by its position among them."""
        filled = [row for row in self._rows if row.text]
        return filled[index].element if index < len(filled) else None

    def _add(self, line: str) -> None:
        with self._list:
            self._rows.append(_Row(self, len(self._rows) + 1, line, self._name, self._placeholder))

    def changed(self) -> Any:
        """A row was typed into: keep one empty row at the end, and tell."""
        if self._rows[-1].text:
            self._add('')
        return self._on_change([row.text for row in self._rows if row.text])

    def paste(self, row: _Row, text: str) -> Any:
        """Several lines were pasted into a row: each becomes a row of its own, after it."""
        lines = [line.strip('\r') for line in text.split('\n') if line.strip()]
        rest = [other.text for other in self._rows[self._rows.index(row) + 1 :] if other.text]
        kept = [other.text for other in self._rows[: self._rows.index(row) + 1] if other.text]
        self._list.clear()
        self._rows.clear()
        for line in [*kept, *lines, *rest, '']:
            self._add(line)
        return self._on_change([*kept, *lines, *rest])

    def remove(self, row: _Row) -> Any:
        """Take a row away and number the others anew."""
        place = self._rows.index(row)
        self._rows.remove(row)
        row.element.delete()
        for number, other in enumerate(self._rows, 1):
            other.renumber(number)
        next_row = self._rows[min(place, len(self._rows) - 1)]
        self._list.client.run_javascript(f'rlvrReveal({next_row.element.id})')
        return self._on_change([row.text for row in self._rows if row.text])


class _Row:
    def __init__(self, lines: Lines, number: int, text: str, name: str, placeholder: str) -> None:
        self.text = text
        self._lines, self._name = lines, name
        with ui.element('li') as self.element:
            self.number = Text(str(number), classes='n num')
            if '\n' in text:
                box: ui.input | ui.textarea = ui.textarea(value=text).props('borderless dense autogrow rows=1')
            else:
                box = ui.input(value=text, placeholder=placeholder).props('borderless dense')
                box.on('paste', lambda event: lines.paste(self, event.args), js_handler=_PASTE)
                box.on('keydown.enter.prevent', js_handler='(event) => rlvrNextLine(event.target)')
            box.props('spellcheck=false')
            self._box = box
            box.on_value_change(self._typed)
            self._error = Text('', classes='err')
            self._button = Button(icon='x', kind='gho icn xs', label=f'Remove {name.lower()} {number}')
            self._button.on('click', lambda: lines.remove(self), args=[])
            self._button.set_visibility(bool(text))
        self.renumber(number)

    def renumber(self, number: int) -> None:
        """Be the row with this number."""
        self.number.set_text(str(number))
        self._box.props['aria-label'] = f'{self._name} {number}'
        self._button.props['aria-label'] = self._button.props['title'] = f'Remove {self._name.lower()} {number}'

    def show_error(self, message: str) -> None:
        self._error.set_text(message)
        self.element.classes(add='bad') if message else self.element.classes(remove='bad')

    def _typed(self, event: events.ValueChangeEventArguments[str | None]) -> Any:
        self.text = event.value or ''
        self._button.set_visibility(bool(self.text))
        return self._lines.changed()
