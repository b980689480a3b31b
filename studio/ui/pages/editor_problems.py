"""The list of what must be solved before a task can be published; each line jumps to its field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nicegui import ui

from studio.ui.components.elements import Icon, Text
from studio.ui.components.wording import plural
from trainer.errors import FieldError

SHOWN_PROBLEMS: Final = 12
MISSING: Final = 'This field is required'
BLOCK_NEEDED: Final = 'Add the RL Checker block'


class ProblemList:
    """Draws the list; ``on_pick`` gets the path of the problem that was picked."""

    def __init__(self, on_pick: Callable[[str], Any]) -> None:
        self._on_pick = on_pick
        self.shown: tuple[FieldError, ...] = ()
        self._offered: int | None = None
        self._box = ui.element('div').classes('vs').props('role=status')

    def show(self, problems: Sequence[FieldError], *, offered: int | None = None) -> None:
        """Show these; drawn only when they differ, so that the focus stays on a line while others are solved.

        ``offered`` is the version that a published task offers to runs meanwhile.
        """
        if (tuple(problems), offered) == (self.shown, self._offered):
            return
        self.shown, self._offered = tuple(problems), offered
        self._box.clear()
        if not problems:
            return
        with self._box, ui.element('div').classes('note problems'):
            Icon('info', 'ic-s')
            with ui.element('div'):
                rest = f'; until then runs are given v{offered}' if offered else ' before this can be published'
                Text(f'{plural(len(problems), "problem")} to solve{rest}', 'b')
                with ui.element('ul'):
                    for problem in problems[:SHOWN_PROBLEMS]:
                        self._draw(problem)
                    if len(problems) > SHOWN_PROBLEMS:
                        Text(f'… and {len(problems) - SHOWN_PROBLEMS} more', 'li', 't3')

    def _draw(self, problem: FieldError) -> None:
        with ui.element('li'), ui.element('button').props('type=button') as button:
            Text(problem.loc or 'task_spec', classes='mono')
            Text(words(problem))
        button.on('click', lambda: self._on_pick(problem.loc), args=[])


def words(problem: FieldError) -> str:
    """What to do about a problem: a checker that is missing is a block to add, not a field to fill."""
    return BLOCK_NEEDED if (problem.loc, problem.msg) == ('checker', MISSING) else problem.msg
