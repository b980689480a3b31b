"""A code editor whose server copy is what the user sees: nothing is ever assigned to it while somebody types.

Each text gets an editor of its own, so undo never brings one text into another. Looks and marks are set by calls
(``run_method``), because a changed property would send the whole text back and could undo the last keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, Literal

from nicegui import events, ui

from studio.ui.components.line_endings import as_shown, keep_line_endings

Language = Literal[
    'Python', 'Shell', 'JSON', 'Markdown', 'JavaScript', 'C', 'C++', 'HTML', 'CSS', 'SQL', 'YAML', 'TOML'
]

_LANGUAGES: Final[dict[str, Language]] = {
    'py': 'Python',
    'sh': 'Shell',
    'bash': 'Shell',
    'json': 'JSON',
    'jsonl': 'JSON',
    'md': 'Markdown',
    'js': 'JavaScript',
    'c': 'C',
    'h': 'C',
    'cpp': 'C++',
    'html': 'HTML',
    'css': 'CSS',
    'sql': 'SQL',
    'yaml': 'YAML',
    'yml': 'YAML',
    'toml': 'TOML',
}


def language_of(path: str) -> Language | None:
    """The language to colour a file in, by its name."""
    name = path.rsplit('/', 1)[-1]
    return _LANGUAGES.get(name.rsplit('.', 1)[-1].lower()) if '.' in name else None


class CodeEditor:
    """An editor over one text; ``on_change`` gets the whole text after every change, its own line endings kept."""

    def __init__(
        self,
        value: str,
        *,
        label: str,
        on_change: Callable[[str], Any],
        language: Language | None = None,
        dark: bool = False,
        classes: str = '',
    ) -> None:
        self.value = value
        self._on_change = on_change
        with ui.element('div').classes(f'code-editor {classes}') as self.box:
            self._editor = ui.codemirror(
                as_shown(value),
                language=language,
                theme='vscodeDark' if dark else 'vscodeLight',
                line_wrapping=False,
                on_change=self._changed,
            )
        name = json.dumps(label)
        self._editor.on('vue:mounted', js_handler=_named(self._editor.id, name))
        ui.timer(0, lambda: ui.run_javascript(f'({_named(self._editor.id, name)})()'), once=True)

    def set_dark(self, dark: bool) -> None:
        """Follow the theme of the page."""
        self._editor.run_method('setTheme', 'vscodeDark' if dark else 'vscodeLight')

    def _changed(self, event: events.ValueChangeEventArguments[str]) -> Any:
        self.value = keep_line_endings(self.value, event.value or '')
        return self._on_change(self.value)


def _named(id: int, name: str) -> str:
    """Give the editable area its accessible name, which CodeMirror leaves out."""
    return (
        f'() => {{ const e = getElement({id}); e?.editorPromise?.then(() => '
        f'e.editor.contentDOM.setAttribute("aria-label", {name})); }}'
    )
