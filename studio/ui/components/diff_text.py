"""A unified diff, coloured by line; lines of one kind are one text node, so that long diffs stay quick."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from nicegui import ui

from studio.ui.components.elements import Text

MAX_LINE_CHARS: Final = 2_000
_KINDS: Final = {'+': 'a', '-': 'd', '@': 'h'}


def diff_text(diff: str, *, label: str = '') -> None:
    """Draw a diff without its two lines of file names; ``label`` names it where it scrolls by itself."""
    with ui.element('div').classes('diff lines') as box:
        if label:
            box.props('role=region tabindex=0')
            box.props['aria-label'] = label
        lines = diff.split('\n') if diff else []
        for kind, group in groupby(lines, key=lambda line: _KINDS.get(line[:1], '')):
            Text('\n'.join(line[:MAX_LINE_CHARS] for line in group), 'div', kind)
