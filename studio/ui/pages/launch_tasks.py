"""The tasks of a run: which are trained on and which are held out, picked in a dialog with search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nicegui import ui

from studio.documents.held_out import HELD_OUT, split
from studio.documents.pass_rates import Tier
from studio.documents.views import DocumentRow
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Icon, Text, checker_chip, chip, spacer
from studio.ui.components.panel import search_box
from studio.ui.components.tiers import tier_badge
from studio.ui.components.wording import plural

SHOWN: Final = 150
"""Rows drawn at once; a search finds the others."""
TITLES: Final = 6


class TaskChoice:
    """What is picked: ids of the training tasks and of the held-out tasks, never both."""

    def __init__(
        self, rows: Sequence[DocumentRow], train: Sequence[str] | None, held_out: Sequence[str] | None
    ) -> None:
        """Without a choice, every published task is trained on but those with the topic ``held-out``."""
        self.rows = tuple(rows)
        known = {row.id for row in rows}
        trained, apart = split((row.id, row.topics) for row in rows)
        self.train = {id for id in (trained if train is None else train) if id in known}
        kept = apart if held_out is None else held_out
        self.held_out = {id for id in kept if id in known and id not in self.train}

    @property
    def train_ids(self) -> list[str]:
        """The training tasks in the order of the library."""
        return [row.id for row in self.rows if row.id in self.train]

    @property
    def held_out_ids(self) -> list[str]:
        """The held-out tasks in the order of the library."""
        return [row.id for row in self.rows if row.id in self.held_out]

    def put(self, id: str, where: str) -> None:
        """Move a task: ``train``, ``held_out`` or ``out``."""
        self.train.discard(id)
        self.held_out.discard(id)
        if where == 'train':
            self.train.add(id)
        elif where == 'held_out':
            self.held_out.add(id)


def summary(choice: TaskChoice) -> None:
    """Draw what is picked: some titles of each, and what kinds of checkers."""
    chosen = [row for row in choice.rows if row.id in choice.train]
    apart = [row for row in choice.rows if row.id in choice.held_out]
    with ui.element('div').classes('hs mt-2'):
        for kind in sorted({row.checker for row in chosen if row.checker}):
            count = sum(row.checker == kind for row in chosen)
            checker_chip(kind)
            Text(str(count), classes='t3 t-small num')
    _titles('Trained on', chosen)
    _titles('Held out', apart)


def open_picker(choice: TaskChoice, on_done: Callable[[], Any], tiers: Mapping[str, Tier]) -> None:
    """Pick in a dialog; what is picked counts at once, ``on_done`` is called when the dialog closes."""
    Picker(choice, on_done, tiers)


class Picker:
    """The dialog of the task choice. ``tiers``: how hard tasks are for the model, by their ids, where it is known."""

    def __init__(self, choice: TaskChoice, on_done: Callable[[], Any], tiers: Mapping[str, Tier]) -> None:
        self.choice = choice
        self.tiers = tiers
        self.search = ''
        with opened_dialog('Choose tasks', text='A held-out task is never trained on.', size='mid') as dialog:
            with ui.element('div').classes('hs mt-3 w-full'):
                search_box('Search title, topic or prompt', '', self._find)
                spacer()
                if 'band' in tiers.values():
                    Button('Only those in band', kind='sm', on_click=self._put_band)
                Button('Train all shown', kind='sm', on_click=lambda: self._put_all('train'))
                Button('None', kind='sm', on_click=lambda: self._put_all('out'))
            self.body = ui.element('div').classes('pick')
            with ui.element('div').classes('act'):
                self.count = Text(classes='t3 t-small num')
                spacer()
                Button('Done', kind='pri', on_click=dialog.close)
        dialog.on('hide', on_done, args=[])
        self._draw()

    def _shown(self) -> list[DocumentRow]:
        words = self.search.casefold().split()
        fits = [
            row
            for row in self.choice.rows
            if all(word in f'{row.title} {" ".join(row.topics)} {row.prompt}'.casefold() for word in words)
        ]
        return fits

    def _find(self, text: str) -> None:
        self.search = text
        self._draw()

    def _put_all(self, where: str) -> None:
        for row in self._shown():
            if where == 'out' or HELD_OUT not in row.topics:
                self.choice.put(row.id, where)
        self._draw()

    def _put_band(self) -> None:
        """Of the tasks shown that are trained on or in band, train on those in band."""
        for row in self._shown():
            if self.tiers.get(row.id) == 'band' and HELD_OUT not in row.topics:
                self.choice.put(row.id, 'train')
            elif row.id in self.choice.train:
                self.choice.put(row.id, 'out')
        self._draw()

    def _draw(self) -> None:
        found = self._shown()
        self.body.clear()
        with self.body:
            for row in found[:SHOWN]:
                self._row(row)
            if len(found) > SHOWN:
                Text(f'{len(found) - SHOWN:,} more: search to see them.', 'div', 't3 t-small pad')
            if not found:
                Text('No published task fits.', 'div', 't3 t-small pad')
        self._count()

    def _row(self, row: DocumentRow) -> None:
        with ui.element('div').classes('row2'):
            with ui.element('span').classes('vs vs-0'):
                Text(row.title, classes='w5 ell').props['title'] = row.title
                Text(row.prompt, classes='t3 t-micro ell')
            with ui.element('span').classes('hs'):  # one cell, however many of them there are
                if HELD_OUT in row.topics:
                    chip(HELD_OUT, 'out')
                if row.id in self.tiers:
                    tier_badge(self.tiers[row.id])
            boxes: dict[str, tuple[ui.element, ui.element]] = {}

            def toggle(where: str) -> None:
                now = (
                    'train' if row.id in self.choice.train else 'held_out' if row.id in self.choice.held_out else 'out'
                )
                self.choice.put(row.id, 'out' if now == where else where)
                mark()
                self._count()

            def mark() -> None:
                for where, (button, box) in boxes.items():
                    on = row.id in (self.choice.train if where == 'train' else self.choice.held_out)
                    box.classes(add='on') if on else box.classes(remove='on')
                    button.props['aria-checked'] = 'true' if on else 'false'

            for where, label in (('train', 'Train'), ('held_out', 'Held out')):
                with ui.element('button').props('type=button role=checkbox').classes('tick') as button:
                    button.props['aria-label'] = f'{label}: {row.title}'
                    with ui.element('span').classes('cb') as box:
                        Icon('check')
                    Text(label)
                boxes[where] = (button, box)
                button.on('click', lambda where=where: toggle(where), args=[])
            mark()

    def _count(self) -> None:
        held_out = plural(len(self.choice.held_out), 'task')
        self.count.set_text(f'{plural(len(self.choice.train), "task")} to train on, {held_out} held out')


def _titles(label: str, rows: Sequence[DocumentRow]) -> None:
    if not rows:
        return
    with ui.element('div').classes('named-titles'):
        Text(label, classes='t3 t-small')
        with ui.element('div').classes('titles'):
            for row in rows[:TITLES]:
                chip(row.title).props['title'] = row.title
            if len(rows) > TITLES:
                chip(f'and {len(rows) - TITLES} more', 'out')
