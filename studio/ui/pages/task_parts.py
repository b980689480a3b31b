"""A task to be read part by part: prompt, files, commands, checker, solutions; for previews that change nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from nicegui import ui

from studio.ui.components.elements import Icon, Text
from studio.ui.components.split_list import SplitList
from studio.ui.pages.editor_solutions import WORDS, step_words
from trainer.task import Solution, TaskFile


class Part(NamedTuple):
    """One part: its icon, its name and its text."""

    icon: str
    name: str
    text: str


def show_task_parts(task: TaskFile) -> None:
    """Draw the parts of a task as a list, and the one that is picked beside it."""
    show_parts(task_parts(task), label='Parts of the task')


def show_parts(parts: Sequence[Part], *, label: str) -> None:
    """Draw parts as a list, and the one that is picked beside it."""
    SplitList(parts, label=label, draw_row=_row, draw=_part)


def task_parts(task: TaskFile) -> list[Part]:
    """The parts of a task, as a reader goes through it."""
    spec = task.task_spec
    parts = [Part('message-square-text', 'Prompt', spec.prompt)]
    parts += [Part('file-text', path, text) for path, text in spec.setup_files.items()]
    if spec.setup_commands:
        parts.append(Part('terminal', 'Setup commands', '\n'.join(spec.setup_commands)))
    parts.append(Part('scale', f'Checker: {spec.checker.type}', _config(spec.to_json()['checker']['config'])))
    parts += [Part('video', solution.name or WORDS[solution.kind][0], _steps(solution)) for solution in task.solutions]
    return parts


def _config(config: dict[str, Any]) -> str:
    texts = [value for value in config.values() if isinstance(value, str)]
    if len(texts) != 1:
        return json.dumps(config, indent=2, ensure_ascii=False)
    rest = {name: value for name, value in config.items() if not isinstance(value, str)}
    return texts[0] + (f'\n\n{json.dumps(rest, ensure_ascii=False)}' if rest else '')


def _steps(solution: Solution) -> str:
    blocks = [f'write_file {path}\n{text}' for path, text in solution.files.items()]
    for step in solution.steps:
        words = step.args['command'] if step.tool == 'run_command' else step_words(step)[0]
        blocks.append(f'{step.tool} {words}' + (f'\n{step.args["content"]}' if 'content' in step.args else ''))
    return '\n\n'.join(blocks)


def _row(part: Part) -> None:
    Icon(part.icon, 'ic-s t3')
    Text(part.name, classes='ell').props['title'] = part.name


def _part(part: Part) -> None:
    with ui.element('div').classes('hs path'):
        Text(part.name, 'h3', 'ell')
    Text(part.text or '(empty)', 'pre', 'code whole').props('tabindex=0')
