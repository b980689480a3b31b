"""One step of a solution as a form: the tool and its arguments, kept byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nicegui import events, ui

from studio.ui.components.elements import sprite
from studio.ui.components.line_endings import as_shown, keep_line_endings
from studio.ui.components.wording import plural
from trainer.task import Step
from trainer.tools import TOOL_NAMES

_ARGUMENTS: Final = {
    'run_command': (('command', 'Command', 'python3 -m pytest -q'),),
    'read_file': (('path', 'Path', 'README.md'),),
    'write_file': (('path', 'Path', 'answer.txt'), ('content', 'Content', 'The whole new content')),
    'list_dir': (('path', 'Path', '.'),),
}


class StepForm:
    """Draws the form; ``on_change`` gets the whole step. What was typed for one tool is there for the next."""

    def __init__(self, step: Step, *, number: int, on_change: Callable[[Step], Any]) -> None:
        self._step, self._number, self._on_change = step, number, on_change
        self._typed_so_far = dict(step.args)
        with ui.element('div').classes('step-form'):
            tool = ui.select(list(TOOL_NAMES), value=step.tool, on_change=self._pick)
            tool.props('outlined dense options-dense popup-content-class=mono-menu')
            tool.props['dropdown-icon'] = sprite('chevrons-up-down')
            tool.props['aria-label'] = f'Tool of step {number}'
            self._boxes = ui.element('div').classes('vs vs-1')
        self._draw()

    def _pick(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._step = Step(tool=event.value, args=self._arguments(event.value))
        self._draw()
        self._on_change(self._step)

    def _arguments(self, tool: str) -> dict[str, str]:
        return {name: self._typed_so_far.get(name, '') for name, *_ in _ARGUMENTS[tool]}

    def _draw(self) -> None:
        self._boxes.clear()
        with self._boxes:
            for name, label, example in _ARGUMENTS[self._step.tool]:
                self._draw_argument(name, label, example)

    def _draw_argument(self, name: str, label: str, example: str) -> None:
        value = as_shown(self._step.args[name])
        if name == 'path':
            box: ui.input | ui.textarea = ui.input(value=value, placeholder=example)
        else:
            box = ui.textarea(value=value, placeholder=example).props('autogrow rows=1')
        box.props('outlined dense spellcheck=false').classes('mono-input code-box')
        box.props['aria-label'] = f'{label} of step {self._number}'

        def typed(event: events.ValueChangeEventArguments[str | None]) -> None:
            self._typed_so_far[name] = keep_line_endings(self._step.args[name], event.value or '')
            self._step = Step(tool=self._step.tool, args=self._arguments(self._step.tool))
            self._on_change(self._step)

        box.on_value_change(typed)


def step_words(step: Step) -> tuple[str, str]:
    """What a step works on, and how much it writes."""
    if step.tool == 'run_command':
        return ' '.join(step.args['command'].split('\n')), ''
    content = step.args.get('content')
    return step.args['path'], '' if content is None else plural(content.count('\n') + 1, 'line')
