"""A code editor whose server copy is what the user sees: nothing is ever assigned to it while somebody types.

Each text gets an editor of its own, so undo never brings one text into another. Looks and marks are set by calls
(``run_method``), because a changed property would send the whole text back and could undo the last keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from nicegui import events, ui
from nicegui.elements.codemirror.constants import SUPPORTED_LANGUAGES

from studio.ui.components.line_endings import as_shown, keep_line_endings

Language = SUPPORTED_LANGUAGES

_LANGUAGES: Final[dict[str, Language]] = {
    'py': 'Python',
    'pyi': 'Python',
    'sh': 'Shell',
    'bash': 'Shell',
    'json': 'JSON',
    'jsonl': 'JSON',
    'md': 'Markdown',
    'js': 'JavaScript',
    'mjs': 'JavaScript',
    'ts': 'TypeScript',
    'tsx': 'TSX',
    'jsx': 'JSX',
    'c': 'C',
    'h': 'C',
    'cpp': 'C++',
    'hpp': 'C++',
    'cc': 'C++',
    'java': 'Java',
    'go': 'Go',
    'rs': 'Rust',
    'rb': 'Ruby',
    'pl': 'Perl',
    'php': 'PHP',
    'lua': 'Lua',
    'r': 'R',
    'html': 'HTML',
    'css': 'CSS',
    'xml': 'XML',
    'svg': 'XML',
    'sql': 'SQL',
    'yaml': 'YAML',
    'yml': 'YAML',
    'toml': 'TOML',
    'ini': 'Properties files',
    'cfg': 'Properties files',
    'conf': 'Properties files',
    'env': 'Properties files',
    'diff': 'diff',
    'patch': 'diff',
    'tex': 'LaTeX',
}
_WHOLE_NAMES: Final[dict[str, Language]] = {
    'dockerfile': 'Dockerfile',
    'cmakelists.txt': 'CMake',
    '.bashrc': 'Shell',
    '.profile': 'Shell',
    '.gitconfig': 'Properties files',
    '.editorconfig': 'Properties files',
}


def language_of(path: str) -> Language | None:
    """The language to colour a file in, by its name."""
    name = path.rsplit('/', 1)[-1].lower()
    whole = _WHOLE_NAMES.get(name)
    return whole or (_LANGUAGES.get(name.rsplit('.', 1)[-1]) if '.' in name else None)


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

    def mark_lines(self, problems: Mapping[int, str]) -> None:
        """Underline these lines, counted from 1; each shows its text on hover. An empty mapping takes marks away."""
        marks = [
            {'kind': 'line', 'line': line, 'class': 'cm-problem', 'attributes': {'title': text}}
            for line, text in problems.items()
        ]
        self._editor.run_method('setDecorations', marks)

    def reveal(self, line: int) -> None:
        """Put the cursor at the start of a line and bring it into view."""
        self.box.client.run_javascript(
            f'{{ const e = getElement({self._editor.id}); e?.editorPromise?.then(() => {{ const v = e.editor; '
            f'const at = v.state.doc.line(Math.min({max(1, line)}, v.state.doc.lines)); '
            'v.dispatch({selection: {anchor: at.from}, scrollIntoView: true}); v.focus(); }); }'
        )

    def focus(self) -> None:
        """Put the cursor into the text."""
        self.box.client.run_javascript(
            f'{{ const e = getElement({self._editor.id}); e?.editorPromise?.then(() => e.editor.focus()); }}'
        )

    def _changed(self, event: events.ValueChangeEventArguments[str]) -> Any:
        self.value = keep_line_endings(self.value, event.value or '')
        return self._on_change(self.value)


def _named(id: int, name: str) -> str:
    """Give the editable area its accessible name, which CodeMirror leaves out, and say how the keyboard leaves it."""
    return (
        f'() => {{ const e = getElement({id}); e?.editorPromise?.then(() => '
        f'{{ e.editor.contentDOM.setAttribute("aria-label", {name}); '
        'e.editor.contentDOM.setAttribute("aria-description", "Escape, then Tab leaves the editor"); }); }'
    )
