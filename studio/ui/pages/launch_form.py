"""The settings of a run as a form: every key of ``config.rl`` and what is around it, drawn from the pydantic models.

Inputs are text and checked when they are left, all together; a value out of bounds is replaced by what it was lowered
or raised to, and the line below says so. Packages are checked one by one: good ones become chips, bad ones stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args, get_origin

from nicegui import ui
from pydantic.fields import FieldInfo

from studio.runs.views import PlanView
from studio.ui.components.elements import Icon, Text
from studio.ui.components.fields import Field
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.pages.launch_values import (
    CHOICES,
    CLAMP,
    COLD,
    COLD_KEYS,
    GROUPS,
    KNOWN,
    PLANNED,
    RL_KEYS,
    changed_settings,
    field_of,
    hint,
    is_whole,
    nested,
    placeholder,
    plain,
    read_packages,
    wording,
)
from trainer.models import ModelInfo

__all__ = ['SettingsForm', 'changed_settings', 'read_packages']

SWITCHES: Final = {'true': 'on', 'false': 'off'}


@dataclass
class _Box:
    key: str
    field: Field
    input: ui.input
    problem: str = ''


class SettingsForm:
    """The form in one tab. ``values`` holds what was typed, as text, where it is not the default.

    ``on_change`` is called when a field was left, ``on_typing`` at every key.
    """

    def __init__(
        self, values: Mapping[str, Any], on_change: Callable[[], Any], on_typing: Callable[[], Any] = lambda: None
    ) -> None:
        self.values: dict[str, str] = {key: _text(value) for key, value in values.items() if key != 'pipPackages'}
        self.packages: list[str] = list(values.get('pipPackages', ()))
        self.cold_start = self.values.pop(COLD, '') == 'true'
        self._on_change = on_change
        self._on_typing = on_typing
        self._boxes: dict[str, _Box] = {}
        self._choices: dict[str, Segmented] = {}
        self._several: dict[str, tuple[Field, ui.select]] = {}

    def draw_rl(self) -> None:
        """Draw every key of ``config.rl``."""
        with ui.element('div').classes('cfg'):
            for key in RL_KEYS:
                self._text(key)
            for key in CHOICES:
                self._choice(key)
            self._text('entropyCoef')
            self._engine()
            self._package_box()

    def draw_more(self) -> None:
        """Draw the settings around ``config.rl``, folded by what they are about; one that was changed is open."""
        for title, keys in GROUPS.items():
            with ui.element('details').classes('fold') as fold:
                if any(key in self.values for key in keys):
                    fold.props('open')
                Text(title, 'summary')
                with ui.element('div').classes('cfg'):
                    for key in keys:
                        self._draw_one(key)

    def _draw_one(self, key: str) -> None:
        annotation = KNOWN[key][1].annotation
        if get_origin(annotation) is tuple:
            self._any_of(key)
        elif annotation is bool:
            self._switch(key)
        else:
            self._text(key)

    def draw_cold_start(self) -> None:
        """Draw the settings of the cold start."""
        with ui.element('div').classes('cfg cold') as self._cold_fields:
            for key in COLD_KEYS:
                self._text(key)
        self._cold_fields.set_visibility(self.cold_start)

    def switch_cold_start(self, on: bool) -> Any:
        """Learn from demonstrations first, or not."""
        self.cold_start = on
        self._cold_fields.set_visibility(on)
        return self._on_change()

    # ------------------------------------------------------------------ values

    def settings(self) -> dict[str, Any]:
        """The settings as the API takes them: only what differs from the defaults, numbers as numbers.

        What is no number stays text, so that the model refuses it with the name of its field.
        """
        return nested(self.values, self.packages, cold_start=self.cold_start)

    def typed(self, key: str) -> str:
        """The text that stands in a field now, while it is being typed."""
        return str(self._boxes[key].input.value or '').strip()

    def put(self, key: str, value: str) -> Any:
        """Set a field as if it had been typed and left."""
        self._boxes[key].input.value = value
        return self._left(key)

    def draft(self) -> dict[str, Any]:
        """Everything in the form, as it is kept for a reload: what is being typed too."""
        values: dict[str, Any] = dict(self.values)
        for key, box in self._boxes.items():
            text = str(box.input.value or '').strip()
            values.pop(key, None)
            if text:
                values[key] = text
        if self.packages:
            values['pipPackages'] = list(self.packages)
        if self.cold_start:
            values[COLD] = 'true'
        return values

    @property
    def changed(self) -> int:
        """How many settings differ from the defaults."""
        cold = sum(key in COLD_KEYS for key in self.values)
        return len(self.values) - (0 if self.cold_start else cold) + bool(self.packages)

    @property
    def refused_packages(self) -> bool:
        """Whether lines stand in the package box that were not added."""
        return bool(self._package_input.value)

    def reset(self) -> Any:
        """Bring every setting back to its default."""
        for key in [key for key in self.values if key not in COLD_KEYS]:
            del self.values[key]
        self.packages.clear()
        self._package_input.value = ''
        for box in self._boxes.values():
            if box.key in COLD_KEYS:
                continue
            box.input.value = ''
            box.field.show_remark('')
            box.input.classes(remove='clamped')
        for key, choice in self._choices.items():
            choice.show(_text(KNOWN[key][1].default))
        for _, picked in self._several.values():
            picked.value = []
        self._engine_select.value = 'auto'
        self._draw_packages()
        return self._on_change()

    def show(self, plan: PlanView, model: ModelInfo) -> None:
        """Show what a plan says of the settings: errors beside their fields, corrected values in place, presets."""
        errors = {field_of(error.loc): error.msg for error in plan.errors}
        for key, box in self._boxes.items():
            message = wording(key, errors.get(key, ''))
            box.problem = message
            box.field.show_error(message)
            box.input.classes(add='refused') if message else box.input.classes(remove='refused')
            box.input.props['aria-invalid'] = 'true' if message else 'false'
            box.input.props['placeholder'] = placeholder(key, plan, model)
        self._engine_field.show_error(errors.get('generationEngine', ''))
        for key, (field, _) in self._several.items():
            field.show_error(errors.get(key, ''))
        picked = self._engine_select.value == 'auto' and plan.plan is not None
        self._engine_field.end.set_text(f'uses {plan.plan.engine}' if picked and plan.plan else '')
        for note in plan.notes:
            self._correct(note.loc.removeprefix('rl.'), note.msg, plan)

    def _correct(self, key: str, message: str, plan: PlanView) -> None:
        box = self._boxes.get(key)
        if box is None or key not in self.values:
            return
        if found := CLAMP.fullmatch(message):
            word, given, kept, bounds = found.groups()
            text, kept = f'{word} from {plain(given)} · {plain(bounds)}', plain(kept)
        elif key in PLANNED and plan.plan is not None:
            text, kept = message, f'{getattr(plan.plan, PLANNED[key]):g}'
        else:
            return
        self.values[key] = kept
        box.input.value = kept
        box.input.classes(add='clamped')
        box.field.show_remark(text)

    # ------------------------------------------------------------------ fields

    def _text(self, key: str) -> None:
        name, info = KNOWN[key]
        with Field(key.removeprefix(f'{COLD}.'), hint=hint(name, info), classes='setting') as field:
            box = ui.input(value=self.values.get(key, '')).props('outlined dense hide-bottom-space')
            box.props['aria-label'] = f'Cold start: {name.replace("_", " ")}' if key in COLD_KEYS else key
            box.props['title'] = info.description or key
            box.props['inputmode'] = 'numeric' if is_whole(key) else 'decimal'
        self._boxes[key] = _Box(key, field, box)
        box.on_value_change(self._on_typing)
        for event in ('blur', 'keydown.enter'):
            box.on(event, lambda: self._left(key), args=[])
        box.on('paste', lambda: self._left(key), args=[], js_handler='(e) => setTimeout(() => emit(), 50)')

    def _left(self, key: str) -> Any:
        """Take a field's text over when it is left: empty means the default."""
        box = self._boxes[key]
        text = str(box.input.value or '').strip()
        if text == self.values.get(key, ''):
            return None
        box.field.show_remark('')
        box.input.classes(remove='clamped')
        if text:
            self.values[key] = text
        else:
            self.values.pop(key, None)
        return self._on_change()

    def _choice(self, key: str) -> None:
        _, info = KNOWN[key]
        self._segments(key, info, {value: value for value in get_args(info.annotation)}, 'w2')

    def _any_of(self, key: str) -> None:
        """A setting that holds any of a few words; the form keeps them as one text."""
        name, info = KNOWN[key]
        words = list(get_args(get_args(info.annotation)[0]))
        with Field(key, hint=hint(name, info), classes='setting') as field:
            picked = [word for word in self.values.get(key, '').split(', ') if word in words]
            box = ui.select(words, value=picked, multiple=True)
            box.props('outlined dense options-dense hide-bottom-space use-chips')
            box.props['aria-label'] = key
        self._several[key] = (field, box)
        box.on_value_change(lambda event: self._pick(key, ', '.join(event.value or ())))

    def _switch(self, key: str) -> None:
        self._segments(key, KNOWN[key][1], SWITCHES, '')

    def _segments(self, key: str, info: FieldInfo, words: Mapping[str, str], classes: str) -> None:
        default = _text(info.default)
        with Field(key, hint=f'default {words[default]}', classes=classes) as field:
            field.element.props['title'] = info.description or key
            choices = [Choice(value, word) for value, word in words.items()]
            self._choices[key] = Segmented(
                choices,
                self.values.get(key, default),
                label=key,
                classes='mono',
                on_change=lambda value: self._pick(key, value),
            )

    def _pick(self, key: str, value: str) -> Any:
        if value == _text(KNOWN[key][1].default):
            self.values.pop(key, None)
        else:
            self.values[key] = value
        return self._on_change()

    def _engine(self) -> None:
        _, info = KNOWN['generationEngine']
        with Field('generationEngine', hint='auto picks what this machine can run') as self._engine_field:
            select = ui.select(list(get_args(info.annotation)), value=self.values.get('generationEngine', 'auto'))
            select.props('outlined dense options-dense hide-bottom-space aria-label=generationEngine')
            select.on_value_change(lambda event: self._pick('generationEngine', event.value))
        self._engine_select = select

    def _package_box(self) -> None:
        with Field('pipPackages', hint='One a line, by name: pandas==2.2.3', classes='w2') as self._package_field:
            self._package_chips = ui.element('div').classes('titles')
            self._package_input = ui.textarea().props(
                'outlined dense autogrow rows=1 hide-bottom-space spellcheck=false'
            )
            self._package_input.classes('pkgs mono').props['aria-label'] = 'Add packages, one a line'
        self._package_input.on('blur', self._add_packages, args=[])
        self._package_input.on('keydown.enter', self._add_packages, args=[])
        paste = '(e) => setTimeout(() => emit(), 50)'
        self._package_input.on('paste', self._add_packages, args=[], js_handler=paste)
        self._draw_packages()

    def _add_packages(self) -> Any:
        lines = str(self._package_input.value or '').splitlines()
        good, bad, reasons = read_packages(lines)
        fresh = [package for package in good if package not in self.packages]
        self.packages += fresh
        self._package_input.value = '\n'.join(bad)
        self._package_field.show_error('Not added. ' + ' · '.join(reasons) if reasons else '')
        self._draw_packages()
        return self._on_change()

    def _remove_package(self, package: str) -> Any:
        self.packages.remove(package)
        self._draw_packages()
        return self._on_change()

    def _draw_packages(self) -> None:
        self._package_chips.clear()
        self._package_chips.set_visibility(bool(self.packages))
        with self._package_chips:
            for package in self.packages:
                with ui.element('span').classes('chip z-lg mono'):
                    Text(package)
                    with ui.element('button').props('type=button') as cross:
                        cross.props['aria-label'] = f'Remove {package}'
                        Icon('x', 'ic-xs')
                    cross.on('click', lambda package=package: self._remove_package(package), args=[])


def _text(value: Any) -> str:
    """A value as the form holds it."""
    if isinstance(value, list | tuple):
        return ', '.join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
