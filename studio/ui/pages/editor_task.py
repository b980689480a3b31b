"""The RL Task block: prompt, environment, max steps, setup files and setup commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from nicegui import events, ui

from studio.ui.components.block import block
from studio.ui.components.elements import Text, sprite
from studio.ui.components.fields import Field, name_fields
from studio.ui.components.file_editor import FileEditor
from studio.ui.components.lines import Lines
from studio.ui.components.prompt_box import PromptBox
from studio.ui.components.wording import plural
from trainer.task import DEFAULT_STEPS, MAX_STEPS

TASK_FIELDS: Final = ('prompt', 'env', 'max_steps', 'setup_files', 'setup_commands')
"""What of a task_spec this block holds; a spec with none of it has no RL Task block."""

SetField = Callable[[str, Any], Any]
UndoFiles = Callable[[Mapping[str, str | None]], Any]


class TaskBlock:
    """Draws the block over a raw spec; ``on_set`` gets the name and value of a field that was changed."""

    def __init__(
        self,
        raw: Mapping[str, Any],
        *,
        dark: bool,
        on_set: SetField,
        on_undo_files: UndoFiles,
        on_remove: Callable[[], Any],
    ) -> None:
        self._raw, self._on_set = raw, on_set
        self.boxes: dict[str, Field] = {}
        with block('RL Task', 'list-checks', on_remove=on_remove):
            prompt = str(raw.get('prompt', ''))
            with Field('Prompt', end=_words(prompt)) as self.boxes['prompt']:
                self.prompt = PromptBox(prompt, on_change=self._set_prompt)
            with ui.element('div').classes('g2'):
                self._draw_environment()
                self._draw_steps()
            self._draw_files(dark, on_undo_files)
            self._draw_commands()
        name_fields(self.boxes)

    def _set_prompt(self, text: str) -> None:
        self.boxes['prompt'].end.set_text(_words(text))
        self._on_set('prompt', text)

    def _draw_environment(self) -> None:
        value = self._raw.get('env', 'tfcode')
        names = list(dict.fromkeys(['tfcode', str(value)]))
        with Field('Environment') as self.boxes['env']:
            box = ui.select(names, value=str(value), on_change=lambda event: self._on_set('env', event.value))
            box.props('outlined dense options-dense').props['dropdown-icon'] = sprite('chevrons-up-down')
            box.props['aria-label'] = 'Environment'
            box.classes('mono-input')
            with box.add_slot('append'):
                Text('4 tools, no network', classes='t3 t-small')

    def _draw_steps(self) -> None:
        steps = self._raw.get('max_steps', DEFAULT_STEPS)
        with Field('Max steps', end=f'1 to {MAX_STEPS}') as field, ui.element('div').classes('hs hs-3 steps-row'):
            start = steps if isinstance(steps, int) and 1 <= steps <= MAX_STEPS else MAX_STEPS
            slider = ui.slider(min=1, max=MAX_STEPS, value=start)
            slider.props['aria-label'] = 'Max steps'
            number = ui.input(value=str(steps)).props('outlined dense inputmode=numeric').classes('steps-number num')
            number.props['aria-label'] = 'Max steps, as a number'
        self.boxes['max_steps'] = field

        def slid(event: events.GenericEventArguments) -> None:
            number.value = str(event.args)
            self._on_set('max_steps', event.args)

        def typed() -> None:
            text = (number.value or '').strip()
            value = int(text) if text.isdecimal() and len(text) < 10 else text
            self._on_set('max_steps', value)
            if isinstance(value, int) and 1 <= value <= MAX_STEPS:
                slider.value = value

        slider.on('update:model-value', slid, throttle=0.05)
        number.on('update:model-value', typed, args=[])

    def _draw_files(self, dark: bool, on_undo: UndoFiles) -> None:
        with Field('Setup files') as field:
            self.files = FileEditor(
                self._raw.get('setup_files', {}),
                dark=dark,
                on_change=lambda value: self._on_set('setup_files', value),
                on_size=field.end.set_text,
                on_undo=on_undo,
            )
        self.boxes['setup_files'] = field

    def _draw_commands(self) -> None:
        with Field('Setup commands', end='run once, in order, before the first turn') as field:
            self.commands = Lines(
                self._raw.get('setup_commands', []),
                name='Command',
                placeholder='Add a command',
                on_change=lambda value: self._on_set('setup_commands', value),
            )
        self.boxes['setup_commands'] = field


def _words(text: str) -> str:
    return f'{plural(len(text.split()), "word")} · kept exactly as typed'
