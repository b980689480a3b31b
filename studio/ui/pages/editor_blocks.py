"""The blocks of the editor: RL Task, RL Checker, solutions and details, or the same spec as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from nicegui import events, ui

from studio.ui.components.code_editor import CodeEditor
from studio.ui.components.config_form import SHARED, ConfigForm
from studio.ui.components.elements import CHECKER_ICONS, Button, Icon, Text, note, sprite
from studio.ui.components.fields import Field
from studio.ui.components.file_editor import FileEditor
from studio.ui.components.lines import Lines
from studio.ui.components.prompt_box import PromptBox
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.components.wording import plural
from studio.ui.pages.editor_draft import Draft
from studio.ui.pages.editor_solutions import SolutionList
from trainer.checkers import (
    CHECKER_KINDS,
    CheckerConfig,
    ExitCodeConfig,
    FileExistsConfig,
    PytestConfig,
    ScriptConfig,
)
from trainer.errors import CheckerError, FieldError
from trainer.task import MAX_STEPS, Solution

KINDS: Final = {kind.model_fields['type'].default: kind for kind in CHECKER_KINDS}
CONFIGS: Final[dict[str, type[CheckerConfig]]] = {
    'exit_code': ExitCodeConfig,
    'file_exists': FileExistsConfig,
    'pytest': PytestConfig,
    'script': ScriptConfig,
}
FRAME: Final = {'prompt': str, 'setup_files': dict, 'setup_commands': list, 'checker': dict}


class Blocks:
    """Draws the whole left column over a draft; every change goes into ``draft.raw`` at once."""

    def __init__(self, draft: Draft, *, dark: bool, as_json: bool, on_replay: Callable[[Solution], Any]) -> None:
        self._draft, self._dark = draft, dark
        self._boxes: dict[str, Field] = {}
        self._touched: set[str] = set()
        self._kept: dict[str, dict[str, Any]] = {}
        self._form: ConfigForm | None = None
        self._files: FileEditor | None = None
        self._commands: Lines | None = None
        self._json: CodeEditor | None = None
        self.as_json = as_json or not fits_the_form(draft.raw)
        if self.as_json:
            self._draw_json(broken=not as_json)
        else:
            self._draw_task()
            self._draw_checker()
        self._solutions = SolutionList(draft, on_replay)
        self._draw_details()

    def set_dark(self, dark: bool) -> None:
        """Follow the theme of the page."""
        self._dark = dark
        editors = [*(self._files.editors if self._files else []), *(self._form.editors if self._form else [])]
        for editor in [*editors, *([self._json] if self._json else [])]:
            editor.set_dark(dark)

    def reveal(self, loc: str) -> None:
        """Bring the field of a problem into view and put the cursor into it."""
        box = self._boxes.get(self._nearest(loc))
        if box is not None:
            ui.run_javascript(
                f'{{ const e = getHtmlElement({box.element.id}); e?.scrollIntoView({{block: "center"}}); '
                'e?.querySelector("input, textarea, .cm-content")?.focus(); }'
            )

    def show_solutions(self) -> None:
        """Draw the solutions again."""
        self._solutions.draw()

    def show_problems(self, problems: Sequence[FieldError], remarks: Sequence[FieldError]) -> None:
        """Show each problem at the nearest field; a field that nobody filled yet stays quiet."""
        errors = {name: '' for name in self._boxes}
        for problem in problems:
            name = self._nearest(problem.loc)
            if name and not errors[name] and (name in self._touched or self._filled(name)):
                errors[name] = problem.msg
        told = {name: '' for name in self._boxes}
        for remark in remarks:
            name = self._nearest(remark.loc)
            if name:
                told[name] = remark.msg
        for name, box in self._boxes.items():
            box.show_error(errors[name])
            box.show_remark(told[name])
        self._show_line_errors(problems)
        self._show_reward()

    def _nearest(self, loc: str) -> str:
        parts = loc.split('.')
        while parts:
            name = '.'.join(parts)
            if name in self._boxes:
                return name
            parts.pop()
        return ''

    def _filled(self, name: str) -> bool:
        value: Any = self._draft.raw
        for part in name.split('.'):
            value = value.get(part) if isinstance(value, dict) else None
        return bool(value)

    def _show_line_errors(self, problems: Sequence[FieldError]) -> None:
        lists: dict[str, Lines] = {'setup_commands': self._commands} if self._commands else {}
        if self._form:
            lists |= {f'checker.config.{name}': lines for name, lines in self._form.lines.items()}
        for path, lines in lists.items():
            found = {
                int(problem.loc.removeprefix(f'{path}.')): problem.msg
                for problem in problems
                if problem.loc.startswith(f'{path}.') and problem.loc.removeprefix(f'{path}.').isdigit()
            }
            lines.show_errors(found)

    # ------------------------------------------------------------------------------------------ RL Task block

    def _set(self, name: str, value: Any) -> None:
        self._draft.raw[name] = value
        self._touched.add(name)
        self._draft.edited()

    def _draw_task(self) -> None:
        raw = self._draft.raw
        with block('RL Task', 'list-checks'):
            with Field('Prompt', end=_words(raw['prompt'])) as prompt:
                PromptBox(raw['prompt'], on_change=self._set_prompt)
            self._boxes['prompt'] = prompt
            with ui.element('div').classes('g2'):
                with Field('Environment') as self._boxes['env']:
                    box = ui.select({'tfcode': 'tfcode'}, value='tfcode').props('outlined dense options-dense')
                    box.props['dropdown-icon'] = sprite('chevrons-up-down')
                    box.props['aria-label'] = 'Environment'
                    box.classes('mono-input')
                    with box.add_slot('append'):
                        Text('4 tools, no network', classes='t3 t-small')
                self._draw_steps()
            with Field('Setup files') as files:
                self._files = FileEditor(
                    raw['setup_files'],
                    dark=self._dark,
                    on_change=lambda value: self._set('setup_files', value),
                    on_size=files.end.set_text,
                )
            self._boxes['setup_files'] = files
            with Field('Setup commands', end='run once, in order, before the first turn') as commands:
                self._commands = Lines(
                    raw['setup_commands'],
                    name='Command',
                    placeholder='Add a command',
                    on_change=lambda value: self._set('setup_commands', value),
                )
            self._boxes['setup_commands'] = commands

    def _set_prompt(self, text: str) -> None:
        self._boxes['prompt'].end.set_text(_words(text))
        self._set('prompt', text)

    def _draw_steps(self) -> None:
        steps = self._draft.raw.get('max_steps', 16)
        with Field('Max steps', end=f'1 to {MAX_STEPS}') as field, ui.element('div').classes('hs hs-3 steps-row'):
            start = steps if isinstance(steps, int) and 1 <= steps <= MAX_STEPS else MAX_STEPS
            slider = ui.slider(min=1, max=MAX_STEPS, value=start)
            slider.props['aria-label'] = 'Max steps'
            number = ui.input(value=str(steps)).props('outlined dense inputmode=numeric').classes('steps-number num')
            number.props['aria-label'] = 'Max steps, as a number'
        self._boxes['max_steps'] = field

        def slid(event: events.GenericEventArguments) -> None:
            number.value = str(event.args)
            self._set('max_steps', event.args)

        def typed(event: events.GenericEventArguments) -> None:
            text = (number.value or '').strip()
            value = int(text) if text.isdecimal() else text
            self._set('max_steps', value)
            if isinstance(value, int) and 1 <= value <= MAX_STEPS:
                slider.value = value

        slider.on('update:model-value', slid, throttle=0.05)
        number.on('update:model-value', typed)

    # --------------------------------------------------------------------------------------- RL Checker block

    def _draw_checker(self) -> None:
        checker = self._draft.raw['checker']
        with block('RL Checker', 'scale'):
            choices = [Choice(kind, kind, CHECKER_ICONS[kind]) for kind in KINDS]
            Segmented(choices, checker['type'], label='Checker type', on_change=self._switch, classes='mono')
            self._config = ui.element('div').classes('vs vs-3')
            with ui.element('div').classes('rew'):
                Text('Reward', classes='lbl')
                self._reward = Text('', classes='t-small t2')
            self._hint = ui.element('div')
        self._draw_config()

    def _draw_config(self) -> None:
        checker = self._draft.raw['checker']
        for name in [name for name in self._boxes if name.startswith('checker.config')]:
            del self._boxes[name]
        self._config.clear()
        with self._config:
            self._form = ConfigForm(
                CONFIGS[checker['type']], checker['config'], on_change=self._set_config, dark=self._dark
            )
        self._boxes |= {f'checker.config.{name}': field for name, field in self._form.fields.items()}
        self._show_reward()

    def _set_config(self, name: str, value: Any) -> None:
        config = dict(self._draft.raw['checker']['config'])
        if value is None:
            config.pop(name, None)
        else:
            config[name] = value
        self._draft.raw['checker'] = {**self._draft.raw['checker'], 'config': config}
        self._touched.add(f'checker.config.{name}')
        self._draft.edited()

    def _switch(self, kind: str) -> None:
        """Change the type; shared settings go along, and each type's own settings are there when one comes back."""
        checker = self._draft.raw['checker']
        self._kept[checker['type']] = checker['config']
        shared = {name: value for name, value in checker['config'].items() if name in SHARED}
        own = {name: value for name, value in self._kept.get(kind, {}).items() if name not in SHARED}
        self._draft.raw['checker'] = {'type': kind, 'config': own | shared}
        self._draft.edited()
        self._draw_config()

    def _show_reward(self) -> None:
        """Say what the reward will be, and what a model could exploit."""
        if self.as_json:
            return
        checker = self._draft.raw['checker']
        kind = KINDS[checker['type']]
        try:
            made = kind.model_validate(checker)
        except ValueError:
            self._reward.set_text('Fill in the fields above.')
            self._hint.clear()
            return
        self._reward.set_text(f'{made.reward_sentence()} If the checker cannot run, the rollout is not scored.')
        weakness = made.weakness()
        kept = _protected(made, self._draft.raw['setup_files'])
        self._hint.clear()
        with self._hint:
            if weakness:
                note(weakness, 'warn', icon='triangle-alert', lead='Easy to game.')
            elif kept:
                names = ', '.join(kept[:4]) + (f' and {len(kept) - 4} more' if len(kept) > 4 else '')
                note(
                    f'{names} will be put back as you wrote it before grading.',
                    'info',
                    icon='shield-check',
                    lead='Protected.',
                )

    # --------------------------------------------------------------------------------------- details and JSON

    def _draw_details(self) -> None:
        with block('Details', 'tag'):
            with Field('Topics', hint='Press Enter after each; the library filters by them.') as self._boxes['topics']:
                chips = ui.input_chips(value=list(self._draft.topics), new_value_mode='add-unique')
                chips.props('outlined dense').classes('chips')
                chips.props['aria-label'] = 'Topics'
                chips.on_value_change(self._set_topics)
            with Field('Notes', hint='For you and your colleagues; never shown to the model, not part of the version.'):
                notes = ui.textarea(value=self._draft.notes).props('outlined dense autogrow rows=2')
                notes.props['aria-label'] = 'Notes'
                notes.on_value_change(self._set_notes)

    def _set_topics(self, event: events.ValueChangeEventArguments[list[str]]) -> None:
        self._draft.topics = tuple(event.value or ())
        self._draft.edited()

    def _set_notes(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        self._draft.notes = event.value or ''
        self._draft.edited()

    def _draw_json(self, *, broken: bool) -> None:
        with block('task_spec', 'braces'):
            if broken:
                note(
                    'The form cannot show this draft: put its parts in shape here first.', 'warn', icon='triangle-alert'
                )
            with Field('JSON', hint='The same draft as in the form; what is valid JSON is saved as you type.') as field:
                text = json.dumps(self._draft.raw, indent=2, ensure_ascii=False)
                self._json = CodeEditor(
                    text,
                    label='task_spec as JSON',
                    language='JSON',
                    dark=self._dark,
                    classes='json',
                    on_change=self._set_json,
                )
        self._json_field = field

    def _set_json(self, text: str) -> None:
        try:
            value = json.loads(text)
        except ValueError as error:
            self._json_field.show_error(f'Not JSON yet: {error}. The last valid text is kept.')
            return
        if not isinstance(value, dict):
            self._json_field.show_error('An object is needed here: { … }')
            return
        self._json_field.show_error('')
        self._draft.raw = value
        self._draft.edited()


@contextmanager
def block(title: str, icon: str) -> Iterator[ui.element]:
    """Draw a block that folds; yields the row in its header."""
    with ui.element('section').classes('card blk') as section:
        section.props['aria-label'] = title
        with ui.element('div').classes('hd'):
            with ui.element('span').classes('bicon'):
                Icon(icon)
            Text(title, 'h2')
            with ui.element('div').classes('hs sp') as row:
                pass
            fold = Button(icon='chevron-down', kind='gho icn sm fold', label=f'Fold {title}')
        body = ui.element('div').classes('bd vs vs-3')
        fold.on('click', lambda: section.classes(toggle='folded'), args=[])
        with body:
            yield row


def fits_the_form(raw: dict[str, Any]) -> bool:
    """Whether the parts of a draft have the shapes that the form draws; their values may well be wrong."""
    if any(not isinstance(raw.get(name), kind) for name, kind in FRAME.items()):
        return False
    texts = [*raw['setup_files'].values(), *raw['setup_commands']]
    checker = raw['checker']
    return (
        all(isinstance(text, str) for text in texts)
        and checker.get('type') in KINDS
        and isinstance(checker.get('config'), dict)
    )


def _words(text: str) -> str:
    return f'{plural(len(text.split()), "word")} · kept exactly as typed'


def _protected(checker: Any, files: dict[str, str]) -> list[str]:
    """The setup files that are restored before a check, as far as that can be told now."""
    if checker.config.protect is not None:
        return [path for path in checker.config.protect if path in files]
    try:
        return sorted(checker.rests_on(files))
    except CheckerError:  # It names files that are not there, which a dry run says in full.
        return []
