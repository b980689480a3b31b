"""Replaying a solution in the playground: one step at a time, or all that is left, with a way to stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from studio.ui.components.elements import Button, Icon, Text, kbd, spacer
from studio.ui.pages.editor_solutions import WORDS, step_words
from trainer.task import Solution, Step


class ReplayBar:
    """Draws what comes next; ``play`` carries out a step and says whether it was, ``grade`` runs the checker."""

    def __init__(self, *, play: Callable[[Step], Awaitable[bool]], grade: Callable[[], Awaitable[Any]]) -> None:
        self._play, self._grade = play, grade
        self._steps: list[Step] = []
        self._done = 0
        self._name = ''
        self._running = False
        with ui.element('div').classes('replay').props('role=group aria-label="Replay of a solution"') as self._bar:
            Icon('play', 'ic-s lead')
            with ui.element('div').classes('what').props('role=status'):
                self._title = Text(classes='w5')
                self._next = Text(classes='mono ell t2')
            spacer()
            with Button('Next step', kind='sm', key=']', on_click=self.step) as self._step_button:
                kbd(']').classes('hide-s')
            self._all_button = Button('Run all', kind='sm', on_click=self.run_all)
            Button('Stop', kind='sm gho', on_click=self.stop)
        self._show()

    def begin(self, solution: Solution) -> None:
        """Get ready to replay a solution from its first step."""
        writes = [Step(tool='write_file', args={'path': path, 'content': t}) for path, t in solution.files.items()]
        self._steps, self._done = [*writes, *solution.steps], 0
        self._name = solution.name or WORDS[solution.kind][0]
        self._running = False
        self._show()

    async def step(self) -> bool:
        """Carry out the next step, or grade after the last one; say whether there is more to do."""
        if self._done < len(self._steps):
            replayed = self._steps
            if not await self._play(replayed[self._done]) or self._steps is not replayed:
                self._show()
                return False
            self._done += 1
        elif self._name:
            self.stop()
            await self._grade()
        self._show()
        return bool(self._name)

    async def run_all(self) -> None:
        """Carry out what is left, then grade."""
        self._running = True
        self._show()
        while self._running and await self.step():
            continue
        self._running = False
        self._show()

    def stop(self) -> None:
        """Leave the workspace as it is after the steps so far."""
        self._steps, self._done, self._name, self._running = [], 0, '', False
        self._show()

    def busy(self, why: str) -> None:
        """Switch the buttons that start something off while a call runs."""
        for button in (self._step_button, self._all_button):
            button.disable(why) if why or self._running else button.enable()

    def _show(self) -> None:
        self._bar.set_visibility(bool(self._name))
        left = len(self._steps) - self._done
        self._title.set_text(f'{self._name}: {self._done} of {len(self._steps)} steps done')
        if left:
            step = self._steps[self._done]
            words = f'{step.tool} {step_words(step)[0]}'
        else:
            words = 'Run checker'
        self._next.set_text(f'Next: {words}')
        self._next.props['title'] = words
        self._step_button.set_text('Next step' if left else 'Grade it')
        self.busy('')
