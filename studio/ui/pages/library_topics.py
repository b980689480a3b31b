"""The topics of the picked tasks: which ones they have, what to add, what to take away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from nicegui import ui

from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Icon, Text, field
from studio.ui.components.wording import plural

SHOWN: Final = 40


def open_topics(
    before: Mapping[str, Sequence[str]],
    every: Sequence[str],
    change: Callable[[Sequence[str], Sequence[str]], Awaitable[Any]],
) -> None:
    """Ask what to add and what to remove; ``change(add, remove)`` is called on confirmation."""
    have = Counter(topic for topics in before.values() for topic in topics)
    removed: set[str] = set()
    with opened_dialog(f'Topics of {plural(len(before), "task")}', size='mid') as dialog:
        with ui.element('div').classes('vs vs-3 w-full mt-3'):
            with field('Add', hint='Separate topics by commas'):
                box = ui.input(placeholder='python, files', autocomplete=list(every)).props('outlined dense autofocus')
                box.props['aria-label'] = 'Topics to add'
            if have:
                with ui.element('div').classes('field').props('role=group aria-label="Topics to remove"'):
                    Text('Remove', classes='lbl')
                    with ui.element('div').classes('titles'):
                        for topic, count in have.most_common(SHOWN):
                            _toggle(topic, count, len(before), removed)

        async def confirm() -> None:
            added = [topic.strip() for topic in (box.value or '').split(',') if topic.strip()]
            dialog.close()
            if added or removed:
                await change(added, sorted(removed))

        box.on('keydown.enter', confirm, args=[])
        with ui.element('div').classes('act'):
            Button('Cancel', on_click=dialog.close)
            Button(f'Change {plural(len(before), "task")}', icon='tag', kind='pri', on_click=confirm)


def _toggle(topic: str, count: int, total: int, removed: set[str]) -> None:
    with ui.element('button').props('type=button aria-pressed=false').classes('chip topic') as chip:
        Text(topic)
        Text('all' if count == total else str(count), classes='t3 num')
        Icon('x', 'ic-xs')
    chip.props['aria-label'] = f'Remove {topic}, which {count} of {total} have'

    def turn() -> None:
        removed.symmetric_difference_update({topic})
        chip.classes(add='gone') if topic in removed else chip.classes(remove='gone')
        chip.props(f'aria-pressed={"true" if topic in removed else "false"}')

    chip.on('click', turn, args=[])
