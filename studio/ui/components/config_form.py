"""A form drawn from a pydantic model: its titles, descriptions, bounds and formats are the form.

Values go in and out as plain JSON, as typed: what does not fit the model is the validator's business, shown beside the
field. Numbers are text boxes, so that nothing is rounded or replaced under the cursor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args, get_origin

from nicegui import events, ui
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from studio.ui.components.code_editor import CodeEditor
from studio.ui.components.elements import Text
from studio.ui.components.fields import Field
from studio.ui.components.lines import Lines

SHARED: Final = ('timeout_s', 'protect')
"""Settings every checker has; drawn last and small."""


class ConfigForm:
    """Draws a field for each setting of ``model``; ``on_change`` gets its name and value, ``None`` for "not set"."""

    def __init__(
        self,
        model: type[BaseModel],
        values: Mapping[str, Any],
        *,
        on_change: Callable[[str, Any], Any],
        dark: bool = False,
    ) -> None:
        self._on_change, self._dark, self._values = on_change, dark, values
        self.fields: dict[str, Field] = {}
        self.lines: dict[str, Lines] = {}
        self.editors: list[CodeEditor] = []
        own = [name for name in model.model_fields if name not in SHARED]
        for name in own:
            self._draw(name, model.model_fields[name])
        with ui.element('details').classes('more-settings') as details:
            if any(values.get(name) is not None for name in SHARED):
                details.props('open')
            Text('Time limit and protected files', 'summary')
            with ui.element('div').classes('g2'):
                for name in SHARED:
                    self._draw(name, model.model_fields[name])

    def _draw(self, name: str, info: FieldInfo) -> None:
        title, hint = info.title or name, info.description or ''
        kind = _kind(info)
        value = self._values.get(name)
        wide = kind in ('code', 'lines')
        with Field(title, hint=hint, classes='' if wide else 'short') as self.fields[name]:
            if kind == 'code':
                self._code(name, title, info, value)
            elif kind == 'lines':
                self._line_list(name, title, info, value)
            else:
                self._text(name, title, info, value, number=kind == 'number')

    def _code(self, name: str, title: str, info: FieldInfo, value: Any) -> None:
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        editor = CodeEditor(
            _shown(value),
            label=title,
            language='Python' if extra.get('format') == 'python' else 'Shell',
            dark=self._dark,
            classes='tall' if extra.get('format') == 'python' else '',
            on_change=lambda text: self._on_change(name, text),
        )
        self.editors.append(editor)

    def _line_list(self, name: str, title: str, info: FieldInfo, value: Any) -> None:
        optional = type(None) in get_args(info.annotation)
        lines = [_shown(line) for line in value] if isinstance(value, list) else []
        singular = title.removesuffix('s')
        self.lines[name] = Lines(
            lines,
            name=singular,
            placeholder=_example(info) or 'Add a path',
            on_change=lambda texts: self._on_change(name, texts if texts or not optional else None),
        )

    def _text(self, name: str, title: str, info: FieldInfo, value: Any, *, number: bool) -> None:
        default = (
            '' if info.is_required() else f'{info.default:g}' if isinstance(info.default, float) else str(info.default)
        )
        box = ui.input(value=_shown(value), placeholder=default).props('outlined dense hide-bottom-space')
        box.props['aria-label'] = title
        if number:
            box.classes('number').props('inputmode=decimal')
        if name.endswith('_s'):
            with box.add_slot('append'):
                Text('s', classes='hint')

        def typed(event: events.ValueChangeEventArguments[str | None]) -> Any:
            text = event.value or ''
            return self._on_change(name, (_number(text) if number else text) if text else None)

        box.on_value_change(typed)


def _kind(info: FieldInfo) -> str:
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    if extra.get('format') in ('shell', 'python'):
        return 'code'
    members = [info.annotation, *get_args(info.annotation)]
    if any(get_origin(member) in (tuple, list) for member in members):
        return 'lines'
    return 'number' if info.annotation in (int, float) else 'text'


def _example(info: FieldInfo) -> str:
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    examples = extra.get('examples')
    first: Any = examples[0] if isinstance(examples, list) and examples else ''
    while isinstance(first, list) and first:
        first = first[0]
    return f'For example {first}' if isinstance(first, str) and first else ''


def _shown(value: Any) -> str:
    """A JSON value as text in a box."""
    if value is None:
        return ''
    return value if isinstance(value, str) else json.dumps(value)


def _number(text: str) -> int | float | str:
    """The number somebody typed; what is no number stays the text it is, for the validator to name."""
    for read in (int, float):
        try:
            return read(text.strip())
        except ValueError:
            continue
    return text
