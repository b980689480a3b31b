"""The RL Checker block: the type, its typed form, the reward in one sentence, and what a model could exploit."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from nicegui import ui

from studio.ui import theme
from studio.ui.components.block import block
from studio.ui.components.code_editor import CodeEditor
from studio.ui.components.config_form import SHARED, ConfigForm
from studio.ui.components.elements import CHECKER_ICONS, Button, Text, note, spacer
from studio.ui.components.fields import Field, name_fields
from studio.ui.components.lines import Lines
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.pages.editor_draft import Draft
from trainer.checkers import (
    CHECKER_KINDS,
    CheckerConfig,
    ExitCodeConfig,
    FileExistsConfig,
    Pytest,
    PytestConfig,
    Script,
    ScriptConfig,
)
from trainer.errors import CheckerError

KINDS: Final = {kind.model_fields['type'].default: kind for kind in CHECKER_KINDS}
CONFIGS: Final[dict[str, type[CheckerConfig]]] = {
    'exit_code': ExitCodeConfig,
    'file_exists': FileExistsConfig,
    'pytest': PytestConfig,
    'script': ScriptConfig,
}
BLANK_CHECKER: Final[Mapping[str, Any]] = {'type': 'exit_code', 'config': {'command': ''}}
_UNFILLED: Final[Mapping[str, Mapping[str, Any]]] = {
    'exit_code': {'command': ''},
    'file_exists': {'paths': []},
    'pytest': {'test_paths': []},
    'script': {'script': ''},
}
"""What each type needs, still empty: its problem then says what to write."""
_NAMED: Final = 4


class CheckerBlock:
    """Draws the block over ``draft.raw['checker']``; ``on_set`` is called with the path of a setting that changed.

    ``on_swap`` gets a whole checker to put in place, because this block may be drawn anew when an undo is pressed.
    """

    def __init__(
        self,
        draft: Draft,
        *,
        dark: bool,
        on_set: Callable[[str], Any],
        on_swap: Callable[[dict[str, Any]], Any],
        on_remove: Callable[[], Any],
    ) -> None:
        self._draft, self._dark, self._on_set, self._on_swap = draft, dark, on_set, on_swap
        self._hinted: object = None
        self.boxes: dict[str, Field] = {}
        with block('RL Checker', 'scale', on_remove=on_remove):
            choices = [Choice(kind, kind, CHECKER_ICONS[kind]) for kind in KINDS]
            self._types = Segmented(
                choices, self._checker['type'], label='Checker type', on_change=self._switch, classes='mono'
            )
            self._config = ui.element('div').classes('vs vs-3')
            with ui.element('div').classes('rew').props('role=status'):
                Text('Reward', classes='lbl')
                self._reward = Text('', classes='t-small t2')
            self._hints = ui.element('div').classes('vs')
        self.redraw()

    @property
    def lines(self) -> dict[str, Lines]:
        """The lists of the form by their paths."""
        return {f'checker.config.{name}': lines for name, lines in self._form.lines.items()}

    @property
    def editors(self) -> list[CodeEditor]:
        """The code editors of the form."""
        return self._form.editors

    def redraw(self) -> None:
        """Draw the form of the checker that the draft has now."""
        checker = self._checker
        self._types.show(checker['type'])
        self._config.clear()
        with self._config:
            self._form = ConfigForm(
                CONFIGS[checker['type']], checker['config'], on_change=self._set_config, dark=self._dark
            )
        self.boxes = {f'checker.config.{name}': field for name, field in self._form.fields.items()}
        name_fields(self.boxes)
        self.show_reward()

    def set_dark(self, dark: bool) -> None:
        """Remember the theme for forms that are drawn later."""
        self._dark = dark

    def show_reward(self) -> None:
        """Say what the reward will be, and what a model could exploit."""
        checker = self._checker
        raw = self._draft.raw
        state = (copy.deepcopy(checker), raw.get('prompt'), tuple(raw.get('setup_files') or {}))
        if state == self._hinted:
            return
        self._hinted = state
        self._hints.clear()
        try:
            made = KINDS[checker['type']].model_validate(checker)
        except ValueError:
            self._reward.set_text('Said here once the fields above are filled in and valid.')
            return
        self._reward.set_text(f'{made.reward_sentence()} If the checker cannot run, the rollout is not scored.')
        with self._hints:
            self._draw_hints(made)

    @property
    def _checker(self) -> dict[str, Any]:
        return self._draft.raw['checker']  # type: ignore[no-any-return]

    def _draw_hints(self, made: Any) -> None:
        weakness = made.weakness()
        if weakness:
            note(weakness, 'warn', icon='triangle-alert', lead='Easy to game.')
        files = self._draft.raw.get('setup_files') or {}
        if why := why_not_run(made, files):
            note(why, 'warn', icon='triangle-alert', lead='It cannot run yet.')
        if made.config.protect == () and files:
            self._warn_of_nothing_protected()
        kept = protected_files(made, files)
        asked = asked_to_change(made, str(self._draft.raw.get('prompt') or ''), files)
        if asked:
            self._warn_of_restored(asked, kept)
        rest = [path for path in kept if path not in asked]
        if rest:
            text = f'{_listed(rest)} will be put back as you wrote {"it" if len(rest) == 1 else "them"} before grading.'
            note(text, 'info', icon='shield-check', lead='Protected.')

    def _warn_of_restored(self, asked: list[str], kept: list[str]) -> None:
        """The candidate's work would be thrown away: say so, with the way out."""
        it = 'it' if len(asked) == 1 else 'them'
        text = (
            f'The prompt and the checker both name {_listed(asked)}, so what the model writes there is put back as you '
            f'wrote it before grading. If the model should change {it}, leave {it} out of the protected files.'
        )
        with note(text, 'warn', icon='shield-alert', lead='Restored before grading.'):
            spacer()
            rest = [path for path in kept if path not in asked]
            Button(f'Let the model change {it}', kind='xs', on_click=lambda: self._protect(rest))

    def _warn_of_nothing_protected(self) -> None:
        """An empty list looks like none in the form, and means the opposite."""
        text = 'Nothing is put back before grading: the model may change every file the checker reads.'
        with note(text, 'info', icon='lock-open', lead='No file is protected.'):
            spacer()
            Button('Protect what the checker names', kind='xs', on_click=self._protect_named)

    def _protect_named(self) -> None:
        config = {name: value for name, value in self._checker['config'].items() if name != 'protect'}
        self._on_swap({**self._checker, 'config': config})

    def _protect(self, paths: list[str]) -> None:
        before = copy.deepcopy(self._checker)
        config = {**before['config'], 'protect': paths}
        self._on_swap({**before, 'config': config})
        words = f'Protected now: {_listed(paths)}' if paths else 'No file is protected now'
        with self._config:
            theme.toast(words, undo=lambda: self._on_swap(before))

    def _set_config(self, name: str, value: Any) -> None:
        config = dict(self._checker['config'])
        if value is None:
            config.pop(name, None)
        else:
            config[name] = value
        self._draft.raw['checker'] = {**self._checker, 'config': config}
        self._on_set(f'checker.config.{name}')

    def _switch(self, kind: str) -> None:
        """Change the type; shared settings go along, and each type's own settings are there when one comes back."""
        before, kept = copy.deepcopy(self._checker), self._draft.kept
        kept[before['type']] = before['config']
        shared = {name: value for name, value in before['config'].items() if name in SHARED}
        own = {name: value for name, value in kept.get(kind, {}).items() if name not in SHARED}
        files = self._draft.raw.get('setup_files') or {}
        if kind == 'pytest' and not own and (tests := [path for path in files if _is_test(path)]):
            own = {'test_paths': tests}
        self._on_swap({'type': kind, 'config': {**_UNFILLED[kind], **own, **shared}})
        lost = [name for name, value in before['config'].items() if name not in SHARED and value not in ('', [])]
        if lost:
            words = f'The checker is {kind} now; the settings of {before["type"]} are kept aside'
            theme.toast(words, undo=lambda: self._on_swap(before))


def why_not_run(checker: Any, files: Mapping[str, str]) -> str:
    """What a valid checker still lacks: a setup file that it names, or a script that Python can read."""
    try:
        checker.rests_on(files)
        if isinstance(checker, Script):
            ast.parse(checker.config.script)
    except CheckerError as error:
        return f'{error.message[0].upper()}{error.message[1:]}. {error.hint}'
    except SyntaxError as error:
        return f'Line {error.lineno} of the script is not Python: {error.msg}.'
    except (RecursionError, MemoryError):
        return 'The script is nested too deeply for Python to read.'
    return ''


def protected_files(checker: Any, files: Mapping[str, str]) -> list[str]:
    """The setup files that are restored before a check, as far as that can be told now."""
    if checker.config.protect is not None:
        return [path for path in checker.config.protect if path in files]
    try:
        return sorted(checker.rests_on(files))
    except CheckerError:  # It names files that are not there, which a dry run says in full.
        return []


def asked_to_change(checker: Any, prompt: str, files: Mapping[str, str]) -> list[str]:
    """Restored files that the prompt names too and nobody decided about: the model's work on them may be lost."""
    if checker.config.protect is not None:
        return []
    kept = protected_files(checker, files)
    tests = set(checker.test_files(files)) if isinstance(checker, Pytest) and kept else set()
    return [path for path in kept if path not in tests and not _is_test(path) and _is_named(path, prompt)]


def _is_named(path: str, prompt: str) -> bool:
    name = path.rsplit('/', 1)[-1]
    return re.search(rf'(?<![\w-]){re.escape(name)}(?![\w-]|\.\w)', prompt) is not None


def _is_test(path: str) -> bool:
    name = path.rsplit('/', 1)[-1].lower()
    return name == 'conftest.py' or name.startswith(('test', 'check')) or '_test.' in name


def _listed(paths: list[str]) -> str:
    return ', '.join(paths[:_NAMED]) + (f' and {len(paths) - _NAMED} more' if len(paths) > _NAMED else '')
