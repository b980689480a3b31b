"""A log of tool calls: what was asked, what came back, its exit code and time. Everything is text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from nicegui import ui

from studio.ui.components.diff_text import diff_text
from studio.ui.components.elements import Text
from studio.ui.components.wording import MINUS, took

SHOWN_LINES: Final = 14
MAX_ENTRIES: Final = 200


class Terminal:
    """Draws the log; ``call`` opens an entry, which is ended when the answer is there."""

    def __init__(self, welcome: str) -> None:
        self._welcome = welcome
        self._entries: list[ui.element] = []
        with (
            ui.element('div').classes('term log').props('role=log aria-label="Sandbox output" tabindex=0') as self._box
        ):
            self._inside = ui.element('div').classes('entries')
        self.clear()

    def clear(self) -> None:
        """Empty the log."""
        self._inside.clear()
        self._entries.clear()
        with self._inside:
            Text(self._welcome, 'div', 'x')

    def call(self, tool: str, args: Mapping[str, str]) -> Entry:
        """Open the entry of a call."""
        if not self._entries:
            self._inside.clear()
        with self._inside:
            entry = Entry(self, tool, args)
        self._keep(entry.element)
        return entry

    def problem(self, message: str, hint: str) -> None:
        """Say that something could not be done, and what to do."""
        if not self._entries:
            self._inside.clear()
        with self._inside, ui.element('div') as element:
            Text(message, 'div', 'e')
            if hint:
                Text(hint, 'div', 'x')
        self._keep(element)

    def _keep(self, element: ui.element) -> None:
        self._entries.append(element)
        if len(self._entries) > MAX_ENTRIES:
            self._entries.pop(0).delete()
        self.scroll()

    def scroll(self) -> None:
        """Show the newest line."""
        ui.run_javascript(f'{{ const e = getHtmlElement({self._box.id}); if (e) e.scrollTop = e.scrollHeight; }}')


@dataclass(frozen=True)
class Diff:
    """A unified diff of a written file, and how many lines it adds and removes."""

    text: str
    added: int
    removed: int


class Entry:
    """One call and its answer."""

    def __init__(self, terminal: Terminal, tool: str, args: Mapping[str, str]) -> None:
        self._terminal = terminal
        with ui.element('div').classes('entry') as self.element:
            with ui.element('div').classes('ln'):
                with ui.element('span').classes('ask'):
                    Text(f'{tool} ', classes='p')
                    Text(args.get('command') or args.get('path', ''))
                self._time = Text('…', classes='x num')
            self._content = args.get('content', '')
            self._answer = ui.element('div')

    def ended(self, text: str, exit_code: int | None, milliseconds: int, *, bad: bool, diff: Diff | None = None) -> Any:
        """Show the answer; a file that was replaced shows its ``diff`` in place of its whole content."""
        self._time.set_text(took(milliseconds))
        with self._answer:
            if diff is not None:
                self._diff(diff)
            else:
                self._text(self._content, 'c-ok')
            # The model reads the code in the text; here it has a line of its own.
            text = text.removesuffix(f'[exit code {exit_code}]')
            self._text(text, 'e' if bad and exit_code is None else 'o')
            if exit_code is not None:
                Text(f'exit {exit_code}', 'div', 'e' if exit_code else 'x')
        self._terminal.scroll()

    def _diff(self, diff: Diff) -> None:
        with ui.element('details'):
            with ui.element('summary'):
                Text(f'+{diff.added} ', classes='c-ok num')
                Text(f'{MINUS}{diff.removed}', classes='c-bad num')
            diff_text(diff.text)

    def _text(self, text: str, kind: str) -> None:
        lines = text.rstrip('\n').split('\n')
        if lines == ['']:
            return
        Text('\n'.join(lines[:SHOWN_LINES]), 'div', kind)
        if len(lines) > SHOWN_LINES:
            with ui.element('details'):
                Text(f'… {len(lines) - SHOWN_LINES} more lines', 'summary', 'x')
                Text('\n'.join(lines[SHOWN_LINES:]), 'div', kind)
