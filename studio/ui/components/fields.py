"""A labelled field that can show, below itself, what is wrong with it or what was changed in it."""

from __future__ import annotations

from collections.abc import Mapping

from nicegui import ui

from studio.ui.components.elements import Icon, Text


class Field:
    """Label, whatever is drawn inside, and a line below. Drawing: ``with Field('Prompt') as field: …``."""

    def __init__(self, label: str, *, hint: str = '', end: str = '', classes: str = '') -> None:
        self._hint_text = hint
        with ui.element('div').classes(f'field {classes}') as self.element:
            with ui.element('span').classes('lbl'):
                Text(label)
                self.end = Text(end, classes='hint end num')
            self.inside = ui.element('div').classes('vs vs-1')
            self._hint = Text(hint, classes='hint')
            with ui.element('span').classes('err').props('role=alert') as self._error:
                Icon('circle-alert', 'ic-xs')
                self._message = Text()
            with ui.element('span').classes('wrn') as self._warning:
                Icon('triangle-alert', 'ic-xs')
                self._remark = Text()
        self._error.set_visibility(False)
        self._warning.set_visibility(False)
        self._hint.set_visibility(bool(hint))

    def __enter__(self) -> Field:
        """Draw into the room between label and line below."""
        self.inside.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        """Leave the room between label and line below."""
        self.inside.__exit__(*exc)

    def show_error(self, message: str) -> None:
        """Say what is wrong; empty text takes it back. Never touches the input itself."""
        self._message.set_text(message)
        self._error.set_visibility(bool(message))
        self._hint.set_visibility(bool(self._hint_text) and not message)
        self.element.classes(add='bad') if message else self.element.classes(remove='bad')

    def show_remark(self, message: str) -> None:
        """Say what was changed on reading it."""
        self._remark.set_text(message)
        self._warning.set_visibility(bool(message))


def name_fields(fields: Mapping[str, Field]) -> None:
    """Tell the browser which part of a document each field holds (``editor.js`` keeps what was typed there)."""
    for name, field in fields.items():
        field.element.props['data-field'] = name
