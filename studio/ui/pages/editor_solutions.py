"""The solution blocks: reference, alternative, wrong. Their steps are recorded in the playground or written by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from nicegui import ui

from studio.ui import theme
from studio.ui.components.elements import Button, Icon, Text, chip
from studio.ui.components.file_tree import focus
from studio.ui.components.wording import plural
from studio.ui.pages.editor_draft import Draft
from studio.ui.pages.editor_steps import StepForm, step_words
from trainer.task import MAX_TITLE_CHARS, Solution, SolutionKind, Step

__all__ = ['WORDS', 'SolutionList', 'step_words']

WORDS: Final[dict[SolutionKind, tuple[str, str, str]]] = {
    'reference': ('Reference solution', 'ok', 'must earn 1.00'),
    'alternative': ('Alternative solution', 'info', 'must earn 1.00 too'),
    'wrong': ('Wrong solution', 'bad', 'must not earn 1.00'),
}
_SHOWN: Final = 60


class SolutionList:
    """One block for each solution of a draft. ``on_change`` is called when blocks came or went, to draw this anew."""

    def __init__(self, draft: Draft, on_replay: Callable[[Solution], Any], on_change: Callable[[], Any]) -> None:
        self._draft, self._on_replay, self._on_change = draft, on_replay, on_change
        self._open: tuple[int, int] | None = None
        self._whole: set[int] = set()
        self._box = ui.element('div').classes('vs vs-3')
        self.draw()

    def draw(self) -> None:
        """Draw what the draft holds now."""
        self._box.clear()
        self._blocks: list[ui.element] = []
        with self._box:
            for index in range(len(self._draft.solutions)):
                self._draw(index)
            if not self._draft.solutions:
                with ui.element('section').classes('card none-yet').props('aria-label="Solutions"'):
                    Icon('video', 't3')
                    Text('No solution yet. Solve the task in the playground and keep your steps, or write them below.')

    def add(self, kind: SolutionKind) -> None:
        """Put an empty solution at the end, open for its first step."""
        self._draft.solutions = (*self._draft.solutions, Solution(kind=kind))
        self._draft.edited()
        self._add_step(len(self._draft.solutions) - 1)

    # -------------------------------------------------------------------------------------------------- draw

    def _draw(self, index: int) -> None:
        solution = self._draft.solutions[index]
        title, kind, meaning = WORDS[solution.kind]
        with ui.element('section').classes('card blk') as section:
            section.props['aria-label'] = title
            with ui.element('div').classes('hd'):
                with ui.element('span').classes('bicon'):
                    Icon('video')
                Text(title, 'h2')
                chip(meaning, kind)
                self._draw_name(index, title)
                if solution.steps or solution.files:
                    replay = Button('Replay', icon='play', kind='sm')
                    replay.on('click', lambda: self._on_replay(self._draft.solutions[index]), args=[])
                self._draw_menu(index, title)
            with ui.element('ol').classes('steps') as steps:
                steps.props['aria-label'] = f'Steps of the {title.lower()}'
                for path in solution.files:
                    self._draw_file(path, solution.files[path])
                shown = len(solution.steps) if index in self._whole else _SHOWN
                for number in range(min(shown, len(solution.steps))):
                    self._draw_step(index, number)
            with ui.element('div').classes('add-step hs'):
                add = Button('Add a step', icon='plus', kind='gho sm')
                add.on('click', lambda: self._add_step(index), args=[])
                if len(solution.steps) > shown:
                    more = Button(f'Show all {len(solution.steps)} steps', kind='gho sm')
                    more.on('click', lambda: self._show_whole(index), args=[])
            if not solution.steps and not solution.files:
                Text('No step yet: this leaves the workspace as it starts.', 'p', 'pad t3 t-small')
        self._blocks.append(section)

    def _draw_name(self, index: int, title: str) -> None:
        box = ui.input(value=self._draft.solutions[index].name, placeholder='Name it').props('borderless dense')
        box.props['aria-label'] = f'Name of the {title.lower()}'
        box.classes('block-name').props['maxlength'] = MAX_TITLE_CHARS
        box.on_value_change(lambda event: self._change(index, name=(event.value or '')[:MAX_TITLE_CHARS]))

    def _draw_menu(self, index: int, title: str) -> None:
        kinds = {solution.kind for solution in self._draft.solutions}
        now = self._draft.solutions[index].kind
        with Button(icon='ellipsis', kind='gho icn sm', label=f'More for the {title.lower()}'), ui.menu() as menu:
            menu.classes('menu')
            for kind, (name, _, _) in WORDS.items():
                if kind != now and not (kind == 'reference' and kind in kinds):
                    self._item('repeat', f'Make it the {name.lower()}', partial(self._turn_into, index, kind))
            if index:
                self._item('arrow-up', 'Move up', lambda: self._swap(index, index - 1))
            if index + 1 < len(self._draft.solutions):
                self._item('arrow-down', 'Move down', lambda: self._swap(index, index + 1))
            self._item('trash-2', 'Delete', lambda: self._delete(index), 'c-bad')

    def _item(self, icon: str, text: str, act: Callable[[], Any], classes: str = '') -> None:
        with ui.menu_item(on_click=act).classes(f'mi {classes}'):
            Icon(icon)
            Text(text)

    def _draw_file(self, path: str, text: str) -> None:
        with ui.element('li'):
            Text('', classes='i')
            Text('file', classes='chip mono')
            Text(path, classes='mono ell').props['title'] = path
            Text(plural(text.count('\n') + 1, 'line'), classes='t3 num')

    def _draw_step(self, index: int, number: int) -> None:
        solution = self._draft.solutions[index]
        step = solution.steps[number]
        opened = self._open == (index, number)
        with ui.element('li').classes('open' if opened else ''):
            Text(str(number + 1), classes='i')
            if opened:
                StepForm(step, number=number + 1, on_change=lambda changed: self._put_step(index, number, changed))
            else:
                what, extra = step_words(step)
                with ui.element('button').classes('what').props('type=button') as button:
                    button.props['aria-label'] = f'Edit step {number + 1}: {step.tool} {what[:200]}'
                    Text(step.tool, classes='chip mono')
                    Text(what or 'nothing yet', classes='mono ell' if what else 'c-warn').props['title'] = what[:2000]
                    Text(extra, classes='t3 num')
                button.on('click', lambda: self._edit(index, number), args=[])
            with ui.element('span').classes('acts'):
                for icon, word, to in (('arrow-up', 'up', number - 1), ('arrow-down', 'down', number + 1)):
                    if 0 <= to < len(solution.steps):
                        label = f'Move step {number + 1} {word}'
                        self._act(icon, label, partial(self._move, index, number, to))
                self._act('trash-2', f'Delete step {number + 1}', lambda: self._delete_step(index, number))
                if opened:
                    self._act('check', f'Close step {number + 1}', self._close)

    def _act(self, icon: str, label: str, act: Callable[[], Any]) -> None:
        Button(icon=icon, kind='gho icn xs', label=label).on('click', act, args=[])

    # ------------------------------------------------------------------------------------------------- steps

    def _edit(self, index: int, number: int) -> None:
        self._open = index, number
        self.draw()
        focus(self._blocks[index], '.step-form .code-box textarea, .step-form .code-box input')

    def _close(self) -> None:
        if self._open is None:
            return
        index, number = self._open
        self._open = None
        self.draw()
        self._focus_step(index, number)

    def _add_step(self, index: int) -> None:
        steps = self._draft.solutions[index].steps
        self._whole.add(index)
        self._change(index, steps=(*steps, Step(tool='run_command', args={'command': ''})))
        self._edit(index, len(steps))

    def _put_step(self, index: int, number: int, step: Step) -> None:
        steps = self._draft.solutions[index].steps
        self._change(index, steps=(*steps[:number], step, *steps[number + 1 :]))

    def _move(self, index: int, number: int, to: int) -> None:
        steps = list(self._draft.solutions[index].steps)
        steps.insert(to, steps.pop(number))
        self._open = None
        self._change(index, steps=tuple(steps))
        self.draw()
        self._focus_step(index, to)

    def _delete_step(self, index: int, number: int) -> None:
        solution = self._draft.solutions[index]
        gone = solution.steps[number]
        self._open = None
        self._change(index, steps=(*solution.steps[:number], *solution.steps[number + 1 :]))
        self.draw()
        self._focus_step(index, min(number, len(solution.steps) - 2))

        def undo() -> None:
            if index < len(self._draft.solutions):
                steps = self._draft.solutions[index].steps
                self._change(index, steps=(*steps[:number], gone, *steps[number:]))
                self._on_change()

        with self._box:
            theme.toast(f'Step {number + 1} deleted', undo=undo)

    def _focus_step(self, index: int, number: int) -> None:
        skipped = len(self._draft.solutions[index].files)
        inside = f'.steps li:nth-child({skipped + number + 1}) button' if number >= 0 else '.add-step button'
        focus(self._blocks[index], inside)

    def _show_whole(self, index: int) -> None:
        self._whole.add(index)
        self.draw()

    # --------------------------------------------------------------------------------------------- solutions

    def _change(self, index: int, **changes: Any) -> None:
        solutions = list(self._draft.solutions)
        solutions[index] = solutions[index].model_copy(update=changes)
        self._draft.solutions = tuple(solutions)
        self._draft.edited()

    def _turn_into(self, index: int, kind: SolutionKind) -> None:
        self._change(index, kind=kind)
        self.draw()

    def _swap(self, index: int, other: int) -> None:
        solutions = list(self._draft.solutions)
        solutions[index], solutions[other] = solutions[other], solutions[index]
        self._draft.solutions = tuple(solutions)
        self._open = None
        self._whole.clear()
        self._draft.edited()
        self.draw()

    def _delete(self, index: int) -> None:
        solutions = self._draft.solutions
        gone = solutions[index]
        self._draft.solutions = (*solutions[:index], *solutions[index + 1 :])
        self._open = None
        self._draft.edited()
        self.draw()

        def undo() -> None:
            there = self._draft.solutions
            self._draft.solutions = (*there[:index], gone, *there[index:])
            self._on_change()

        with self._box:
            theme.toast(f'{WORDS[gone.kind][0]} deleted', undo=undo)
