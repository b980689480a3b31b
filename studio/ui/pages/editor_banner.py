"""What is said above the blocks while the store does not have what is typed, and the ways on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from studio.ui.components.elements import Button, note, spacer
from studio.ui.pages.editor_dialogs import parts_in_words
from studio.ui.pages.editor_draft import Draft


def draw_banner(draft: Draft, *, on_compare: Callable[[], Any], on_take: Callable[[], Any]) -> None:
    """Draw what stands between a draft and the store, or nothing."""
    if draft.state == 'failed':
        with note(draft.message, 'bad', icon='circle-alert', lead='Not saved.'):
            spacer()
            Button('Try again', kind='xs', on_click=draft.save)
    elif draft.state == 'gone':
        text = 'What is typed here is not stored.'
        with note(text, 'warn', icon='triangle-alert', lead='This task was deleted in another tab.'):
            spacer()
            Button('Bring it back', kind='xs', on_click=draft.bring_back)
    elif draft.state == 'conflict':
        here = parts_in_words(draft.changed_here)
        text = f'There: {parts_in_words(draft.changed_there)}. Here: {here or "nothing that is not stored"}.'
        with note(text, 'warn', icon='triangle-alert', lead='This task was changed in another tab.'):
            spacer()
            Button('Compare', icon='git-compare', kind='xs', on_click=on_compare)
            Button('Take theirs', kind='xs', on_click=on_take)
            Button('Keep mine', kind='xs', on_click=draft.keep_mine)
            if here and not draft.clashes:
                Button('Keep both', kind='xs', on_click=draft.keep_both)
