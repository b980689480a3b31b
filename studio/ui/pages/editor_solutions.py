"""The solutions kept with a task: what they are for, their steps, a replay, and their removal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nicegui import ui

from studio.ui import theme
from studio.ui.components.elements import Button, Icon, Text, chip, spacer
from studio.ui.components.wording import plural
from studio.ui.pages.editor_draft import Draft
from trainer.task import Solution, Step

WORDS: Final = {
    'reference': ('Reference solution', 'ok', 'must earn 1.00'),
    'alternative': ('Alternative solution', 'info', 'must earn 1.00 too'),
    'wrong': ('Wrong solution', 'bad', 'must not earn 1.00'),
}
_SHOWN: Final = 40


class SolutionList:
    """One card for each solution of a draft."""

    def __init__(self, draft: Draft, on_replay: Callable[[Solution], Any]) -> None:
        self._draft, self._on_replay = draft, on_replay
        self._box = ui.element('div').classes('vs vs-3')
        self.draw()

    def draw(self) -> None:
        """Draw what the draft holds now."""
        self._box.clear()
        with self._box:
            for solution in self._draft.solutions:
                self._draw(solution)
            if not self._draft.solutions:
                with ui.element('section').classes('card none-yet').props('aria-label="Solutions"'):
                    Icon('video', 't3')
                    Text('No solution yet. Solve the task in the playground and keep your steps as the reference.')

    def _draw(self, solution: Solution) -> None:
        title, kind, meaning = WORDS[solution.kind]
        with ui.element('section').classes('card blk') as section:
            section.props['aria-label'] = title
            with ui.element('div').classes('hd'):
                with ui.element('span').classes('bicon'):
                    Icon('video')
                Text(title, 'h2')
                chip(meaning, kind)
                spacer()
                Button('Replay', icon='play', kind='sm', on_click=lambda: self._on_replay(solution))
                delete = Button(icon='trash-2', kind='gho icn sm', label=f'Delete {title.lower()}')
                delete.on('click', lambda: self._delete(solution), args=[])
            with ui.element('ol').classes('steps'):
                for path in solution.files:
                    self._draw_step(0, 'file', path, plural(solution.files[path].count('\n') + 1, 'line'))
                for number, step in enumerate(solution.steps[:_SHOWN], 1):
                    self._draw_step(number, step.tool, *step_words(step))
                if len(solution.steps) > _SHOWN:
                    Text(f'… {len(solution.steps) - _SHOWN} more steps', 'li', 't3')

    def _draw_step(self, number: int, tool: str, what: str, extra: str) -> None:
        with ui.element('li'):
            Text(str(number or ''), classes='i')
            Text(tool, classes='chip mono')
            Text(what, classes='mono ell').props['title'] = what
            Text(extra, classes='t3 num')

    def _delete(self, solution: Solution) -> None:
        before = self._draft.solutions
        self._draft.solutions = tuple(other for other in before if other is not solution)
        self._changed()

        def undo() -> None:
            self._draft.solutions = before
            self._changed()

        theme.toast('Solution deleted', undo=undo)

    def _changed(self) -> None:
        self._draft.edited()
        self.draw()


def step_words(step: Step) -> tuple[str, str]:
    """What a step works on, and how much it writes."""
    if step.tool == 'run_command':
        return ' '.join(step.args['command'].split('\n')), ''
    content = step.args.get('content')
    return step.args['path'], '' if content is None else plural(content.count('\n') + 1, 'line')
