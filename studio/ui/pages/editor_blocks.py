"""The column of blocks: RL Task, RL Checker, solutions and details, the line that adds one, or the spec as JSON."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from nicegui import events, ui

from studio.ui import theme
from studio.ui.components.block import block
from studio.ui.components.fields import Field, name_fields
from studio.ui.components.lines import Lines
from studio.ui.pages.editor_checker import BLANK_CHECKER, KINDS, CheckerBlock
from studio.ui.pages.editor_draft import Draft
from studio.ui.pages.editor_insert import Entry, InsertMenu
from studio.ui.pages.editor_json import JsonBlock
from studio.ui.pages.editor_solutions import WORDS, SolutionList
from studio.ui.pages.editor_task import TASK_FIELDS, TaskBlock
from trainer.errors import FieldError
from trainer.task import Solution, SolutionKind

SHAPES: Final = {'prompt': str, 'setup_files': dict, 'setup_commands': list, 'checker': dict}
BLANK_TASK: Final[Mapping[str, Any]] = {
    'prompt': '',
    'env': 'tfcode',
    'max_steps': 16,
    'setup_files': {},
    'setup_commands': [],
}
_ONCE: Final = 'Once per task: it is there already'


class Blocks:
    """Draws the whole left column over a draft; every change goes into ``draft.raw`` at once.

    ``current`` gives the column that is shown when an undo is pressed: by then it may be another one than this.
    """

    def __init__(
        self,
        draft: Draft,
        *,
        dark: bool,
        as_json: bool,
        on_replay: Callable[[Solution], Any],
        current: Callable[[], Blocks],
    ) -> None:
        self._draft, self._dark, self._current = draft, dark, current
        self._touched: set[str] = set()
        self._task: TaskBlock | None = None
        self._checker: CheckerBlock | None = None
        self.json: JsonBlock | None = None
        if as_json or not fits_the_form(draft.raw):
            self.json = JsonBlock(
                draft.raw, dark=dark, broken=not as_json, on_change=self._set_json, on_invalid=draft.hold
            )
        self._task_place = ui.element('div').classes('place')
        self._checker_place = ui.element('div').classes('place')
        if self.json is None:
            self._draw_task()
            self._draw_checker()
        self._solutions = SolutionList(draft, on_replay, on_change=lambda: current().solutions_changed())
        self._details = _Details(draft)
        self._insert = InsertMenu(self._entries)

    def set_dark(self, dark: bool) -> None:
        """Follow the theme of the page."""
        self._dark = dark
        if self._checker is not None:
            self._checker.set_dark(dark)
        editors = [*(self._task.files.editors if self._task else []), *(self._checker.editors if self._checker else [])]
        for editor in [*editors, *([self.json.editor] if self.json else [])]:
            editor.set_dark(dark)

    def reveal(self, loc: str) -> None:
        """Bring the field of a problem into view and put the cursor into it."""
        if self.json is not None and loc != 'topics':
            self.json.reveal(loc)
            return
        name = self._nearest(loc)
        if name == 'prompt' and self._task is not None:
            self._task.prompt.show_source()
        lines, row = self._lines.get(name), loc.removeprefix(f'{name}.')
        element = self._boxes[name].element if name else self._insert.line
        if lines is not None and row.isdigit():
            element = lines.row(int(row)) or element
        element.client.run_javascript(f'rlvrReveal({element.id})')

    def solutions_changed(self) -> None:
        """Solutions came or went: keep them, and draw them again."""
        self._draft.edited()
        self._solutions.draw()

    def swap_checker(self, checker: dict[str, Any]) -> None:
        """Have this checker instead of the one there is."""
        self._draft.raw['checker'] = copy.deepcopy(checker)
        self._draft.edited()
        if self._checker is not None:
            self._checker.redraw()
        elif self.json is None:
            self._draw_checker()
        else:
            self._draft.put(self._draft.raw)

    def put_files(self, changes: Mapping[str, str | None]) -> None:
        """Have these setup files as given; ``None`` takes one away."""
        if self._task is not None:
            self._task.files.put(changes)
            return
        files = {path: text for path, text in self._draft.raw.get('setup_files', {}).items() if path not in changes}
        files |= {path: text for path, text in changes.items() if text is not None}
        self._draft.put({**self._draft.raw, 'setup_files': files})

    def show_problems(self, problems: Sequence[FieldError], remarks: Sequence[FieldError]) -> None:
        """Show each problem at the nearest field; a field that nobody filled yet stays quiet."""
        if self.json is not None:
            self.json.show_problems(problems)
            return
        boxes, lists = self._boxes, self._lines
        errors, told = dict.fromkeys(boxes, ''), dict.fromkeys(boxes, '')
        for problem in problems:
            name = self._nearest(problem.loc)
            if name in lists and problem.loc != name:
                continue  # The line says it.
            if name and not errors[name] and (name in self._touched or self._filled(name)):
                errors[name] = problem.msg
        for remark in remarks:
            if name := self._nearest(remark.loc):
                told[name] = remark.msg
        for name, box in boxes.items():
            box.show_error(errors[name])
            box.show_remark(told[name])
        for path, lines in lists.items():
            lines.show_errors(_by_row(path, problems))
        if self._checker is not None:
            self._checker.show_reward()

    # ------------------------------------------------------------------------------------------------- fields

    @property
    def _boxes(self) -> dict[str, Field]:
        boxes = {'topics': self._details.topics}
        for part in (self._task, self._checker):
            boxes |= part.boxes if part else {}
        return boxes

    @property
    def _lines(self) -> dict[str, Lines]:
        lines = {'setup_commands': self._task.commands} if self._task else {}
        return lines | (self._checker.lines if self._checker else {})

    def _nearest(self, loc: str) -> str:
        boxes, parts = self._boxes, loc.split('.')
        while parts:
            name = '.'.join(parts)
            if name in boxes:
                return name
            parts.pop()
        return ''

    def _filled(self, name: str) -> bool:
        value: Any = self._draft.raw
        for part in name.split('.'):
            value = value.get(part) if isinstance(value, dict) else None
        return bool(value)

    def _set(self, name: str, value: Any) -> None:
        self._draft.raw[name] = value
        self._touch(name)

    def _touch(self, name: str) -> None:
        self._touched.add(name)
        self._draft.edited()

    def _set_json(self, value: dict[str, Any]) -> None:
        self._draft.raw = value
        self._draft.edited()

    # ------------------------------------------------------------------------------------------------- blocks

    def _draw_task(self) -> None:
        self._task_place.clear()
        self._task = None
        if has_task(self._draft.raw):
            with self._task_place:
                self._task = TaskBlock(
                    self._draft.raw,
                    dark=self._dark,
                    on_set=self._set,
                    on_undo_files=lambda changes: self._current().put_files(changes),
                    on_remove=lambda: self._remove('RL Task', TASK_FIELDS),
                )

    def _draw_checker(self) -> None:
        self._checker_place.clear()
        self._checker = None
        if 'checker' in self._draft.raw:
            with self._checker_place:
                self._checker = CheckerBlock(
                    self._draft,
                    dark=self._dark,
                    on_set=self._touch,
                    on_swap=lambda checker: self._current().swap_checker(checker),
                    on_remove=lambda: self._remove('RL Checker', ('checker',)),
                )

    def _entries(self) -> list[Entry]:
        raw = self._draft.raw
        kinds = {solution.kind for solution in self._draft.solutions}
        entries = [
            Entry(
                'RL Task',
                'Prompt, files and commands',
                'list-checks',
                lambda: self.add(BLANK_TASK),
                _ONCE if has_task(raw) else '',
            ),
            Entry(
                'RL Checker',
                'The program that decides the reward',
                'scale',
                lambda: self.add({'checker': BLANK_CHECKER}),
                _ONCE if 'checker' in raw else '',
            ),
        ]
        for kind, (title, _, meaning) in WORDS.items():
            why_not = 'One per task: add an alternative' if kind == 'reference' and kind in kinds else ''
            meaning = f'Steps that {meaning}'
            entries.append(Entry(title, meaning, 'video', partial(self._add_solution, kind), why_not))
        return entries

    def add(self, fields: Mapping[str, Any]) -> None:
        """Put a block's fields into the spec and draw it, with the cursor in its first field."""
        self._draft.raw |= copy.deepcopy(dict(fields))
        self._draft.edited()
        if self.json is not None:
            self._draft.put(self._draft.raw)
        elif 'checker' in fields:
            self._draw_checker()
            self._checker_place.client.run_javascript(f'rlvrReveal({self._checker_place.id})')
        else:
            self._draw_task()
            self._task_place.client.run_javascript(f'rlvrReveal({self._task_place.id})')

    def _add_solution(self, kind: SolutionKind) -> None:
        self._solutions.add(kind)

    def _remove(self, title: str, fields: Sequence[str]) -> None:
        raw = self._draft.raw
        gone = {name: raw.pop(name) for name in fields if name in raw}
        self._draft.edited()
        self._draw_checker() if 'checker' in fields else self._draw_task()
        with self._task_place:
            theme.toast(f'{title} removed', undo=lambda: self._current().add(gone))


class _Details:
    """What lies beside the spec: topics and notes."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        with block('Details', 'tag'):
            with Field('Topics', hint='Press Enter after each; the library filters by them.') as self.topics:
                chips = ui.input_chips(value=list(draft.topics), new_value_mode='add-unique')
                chips.props('outlined dense').classes('chips')
                chips.props['aria-label'] = 'Topics'
                chips.on_value_change(self._set_topics)
            hint = 'For you and your colleagues; never shown to the model, not part of the version.'
            with Field('Notes', hint=hint) as field:
                notes = ui.textarea(value=draft.notes).props('outlined dense autogrow rows=2')
                notes.props['aria-label'] = 'Notes'
                notes.on_value_change(self._set_notes)
        name_fields({'notes': field})

    def _set_topics(self, event: events.ValueChangeEventArguments[list[str]]) -> None:
        self._draft.topics = tuple(event.value or ())
        self._draft.edited()

    def _set_notes(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        self._draft.notes = event.value or ''
        self._draft.edited()


def has_task(raw: Mapping[str, Any]) -> bool:
    """Whether a spec has anything of an RL Task block."""
    return any(name in raw for name in TASK_FIELDS)


def fits_the_form(raw: Mapping[str, Any]) -> bool:
    """Whether the parts of a draft have the shapes that the form draws; their values may well be wrong or missing."""
    if any(not isinstance(raw.get(name, kind()), kind) for name, kind in SHAPES.items()):
        return False
    texts = [*raw.get('setup_files', {}).values(), *raw.get('setup_commands', [])]
    checker = raw.get('checker', BLANK_CHECKER)
    return (
        all(isinstance(text, str) for text in texts)
        and checker.get('type') in list(KINDS)
        and isinstance(checker.get('config'), dict)
    )


def _by_row(path: str, problems: Sequence[FieldError]) -> dict[int, str]:
    """The problems of the lines of a list, by their position."""
    rows = {problem.loc.removeprefix(f'{path}.'): problem.msg for problem in reversed(problems)
            if problem.loc.startswith(f'{path}.')}  # fmt: skip
    return {int(row): msg for row, msg in rows.items() if row.isdigit()}
