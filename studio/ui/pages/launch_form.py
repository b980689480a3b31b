"""The settings of a run as a form: every key of ``config.rl`` and what is around it, drawn from the pydantic models.

Inputs are text and checked when they are left, all together; a value out of bounds is replaced by what it was lowered
or raised to, and the line below says so. Packages are checked one by one: good ones become chips, bad ones stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from annotated_types import Ge, Gt, Le, Lt
from nicegui import ui
from pydantic.fields import FieldInfo

from studio.run_views import PlanView
from studio.ui.components.elements import Icon, Text
from studio.ui.components.fields import Field
from studio.ui.components.segmented import Choice, Segmented
from trainer.config import BOUNDS, RlConfig, Settings
from trainer.models import ModelInfo
from trainer.requirements import parse_requirements

RL_KEYS: Final = ('numGenerations', 'maxCompletionLength', 'maxToolCallingIterations', 'maxSteps')
MORE_KEYS: Final = (
    'learningRate',
    'epochs',
    'temperature',
    'batchSize',
    'gradientAccumulationSteps',
    'loraRank',
    'loraAlpha',
    'seed',
    'heldOutAttempts',
    'maxErrorShare',
)
CHOICES: Final = ('lossType', 'scaleRewards')
PLANNED: Final = {'learningRate': 'learning_rate', 'gradientAccumulationSteps': 'accumulation'}
"""Settings a plan may correct, and where the plan has them."""

_RL: Final = {field.alias or name: (name, field) for name, field in RlConfig.model_fields.items()}
_AROUND: Final = {field.alias or name: (name, field) for name, field in Settings.model_fields.items()}
_CLAMP: Final = re.compile(r'(lowered|raised) from (\S+) to (\S+): (.+)')


@dataclass
class _Box:
    key: str
    field: Field
    input: ui.input
    integer: bool
    problem: str = ''


class SettingsForm:
    """The form in one tab. ``values`` holds what was typed, as text, where it is not the default."""

    def __init__(self, values: Mapping[str, Any], on_change: Callable[[], Any]) -> None:
        self.values: dict[str, str] = {key: str(text) for key, text in values.items() if key != 'pipPackages'}
        self.packages: list[str] = list(values.get('pipPackages', ()))
        self._on_change = on_change
        self._boxes: dict[str, _Box] = {}
        self._choices: dict[str, Segmented] = {}
        with ui.element('div').classes('cfg'):
            for key in RL_KEYS:
                self._text(key, *_RL[key])
            for key in CHOICES:
                self._choice(key)
            self._text('entropyCoef', *_RL['entropyCoef'])
            self._engine()
            self._package_box()

    def draw_more(self) -> None:
        """Draw the settings around ``config.rl``."""
        with ui.element('div').classes('cfg'):
            for key in MORE_KEYS:
                self._text(key, *_AROUND[key])

    # ------------------------------------------------------------------ values

    def settings(self) -> dict[str, Any]:
        """The settings as the API takes them: only what differs from the defaults, numbers as numbers.

        What is no number stays text, so that the model refuses it with the name of its field.
        """
        rl: dict[str, Any] = {}
        around: dict[str, Any] = {}
        for key, text in self.values.items():
            box = self._boxes.get(key)
            value = text if box is None else _number(text, integer=box.integer)
            (rl if key in _RL else around)[key] = value
        if self.packages:
            rl['pipPackages'] = list(self.packages)
        return {**around, 'rl': rl}

    @property
    def changed(self) -> int:
        """How many settings differ from the defaults."""
        return len(self.values) + bool(self.packages)

    @property
    def refused_packages(self) -> bool:
        """Whether lines stand in the package box that were not added."""
        return bool(self._package_input.value)

    def reset(self) -> Any:
        """Bring every setting back to its default."""
        self.values.clear()
        self.packages.clear()
        self._package_input.value = ''
        for box in self._boxes.values():
            box.input.value = ''
            box.field.show_remark('')
            box.input.classes(remove='clamped')
        for key, choice in self._choices.items():
            choice.show(str(_RL[key][1].default))
        self._engine_select.value = 'auto'
        self._draw_packages()
        return self._on_change()

    def show(self, plan: PlanView, model: ModelInfo) -> None:
        """Show what a plan says of the settings: errors beside their fields, corrected values in place, presets."""
        errors = {error.loc.removeprefix('rl.').split('.')[0]: error.msg for error in plan.errors}
        for key, box in self._boxes.items():
            message = _wording(errors.get(key, ''), integer=box.integer)
            box.problem = message
            box.field.show_error(message)
            box.input.classes(add='refused') if message else box.input.classes(remove='refused')
            box.input.props['aria-invalid'] = 'true' if message else 'false'
            box.input.props['placeholder'] = _placeholder(key, plan, model)
        self._engine_field.show_error(errors.get('generationEngine', ''))
        for note in plan.notes:
            self._correct(note.loc.removeprefix('rl.'), note.msg, plan)

    def _correct(self, key: str, message: str, plan: PlanView) -> None:
        box = self._boxes.get(key)
        if box is None or key not in self.values:
            return
        if found := _CLAMP.fullmatch(message):
            word, given, kept, bounds = found.groups()
            text, kept = f'{word} from {_plain(given)} · {_plain(bounds)}', _plain(kept)
        elif key in PLANNED and plan.plan is not None:
            text, kept = message, f'{getattr(plan.plan, PLANNED[key]):g}'
        else:
            return
        self.values[key] = kept
        box.input.value = kept
        box.input.classes(add='clamped')
        box.field.show_remark(text)

    # ------------------------------------------------------------------ fields

    def _text(self, key: str, name: str, info: FieldInfo) -> None:
        integer = int in (info.annotation, *get_args(info.annotation))
        with Field(key, hint=_hint(name, info), classes='setting') as field:
            box = ui.input(value=self.values.get(key, '')).props('outlined dense hide-bottom-space')
            box.props['aria-label'] = key
            box.props['title'] = info.description or key
            box.props['inputmode'] = 'numeric' if integer else 'decimal'
        self._boxes[key] = _Box(key, field, box, integer)
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
        _, info = _RL[key]
        with Field(key, hint=f'default {info.default}', classes='w2'):
            choices = [Choice(value, value) for value in get_args(info.annotation)]
            picked = self.values.get(key, str(info.default))
            self._choices[key] = Segmented(
                choices, picked, label=key, classes='mono', on_change=lambda value: self._pick(key, value)
            )

    def _pick(self, key: str, value: str) -> Any:
        if value == str(_RL[key][1].default):
            self.values.pop(key, None)
        else:
            self.values[key] = value
        return self._on_change()

    def _engine(self) -> None:
        _, info = _RL['generationEngine']
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


def read_packages(lines: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Read requirement lines one by one: ``(good in normal form, bad as typed, why each bad one is refused)``."""
    good: list[str] = []
    bad: list[str] = []
    reasons: list[str] = []
    for line in lines:
        try:
            good += parse_requirements([line])
        except ValueError as error:
            bad.append(line)
            reason = str(error).partition('): ')[2] or str(error)
            reasons.append(f'{line.strip()[:60]}: {reason}')
    return good, bad, reasons


def changed_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a finished form would hold for these settings: the values that differ from the defaults, flat."""
    plain = Settings().model_dump(mode='json', by_alias=True)
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if key != 'rl' and key in MORE_KEYS and value is not None and value != plain.get(key):
            flat[key] = value
    for key, value in dict(settings.get('rl', {})).items():
        if key not in ('enabled', 'env') and value != plain['rl'].get(key):
            flat[key] = value
    return flat


def _number(text: str, *, integer: bool) -> int | float | str:
    try:
        return int(text) if integer else float(text)
    except ValueError:
        return text


def _wording(message: str, *, integer: bool) -> str:
    """Pydantic's words for a wrong type, said for a person."""
    if message.startswith('Input should be a valid'):
        return 'A whole number is needed' if integer else 'A number is needed'
    return message.replace('Input should be', 'Must be')


def _hint(name: str, info: FieldInfo) -> str:
    parts = []
    if info.default is not None:
        parts.append(
            f'default {info.default:g}' if isinstance(info.default, int | float) else f'default {info.default}'
        )
    if name in BOUNDS:
        low, high = BOUNDS[name]
        parts.append(f'{low:g} to {high:g}')
    else:
        parts += _limits(info)
    if name == 'max_completion_length':
        parts = [parts[-1], 'default by model']
    if name == 'max_steps':
        parts = ['default 0: from tasks and epochs']
    return ' · '.join(parts)


def _limits(info: FieldInfo) -> list[str]:
    metadata = [
        *info.metadata,
        *(item for part in get_args(info.annotation) for item in getattr(part, '__metadata__', ())),
    ]
    low = next((item.ge for item in metadata if isinstance(item, Ge)), None)
    above = next((item.gt for item in metadata if isinstance(item, Gt)), None)
    high = next((item.le for item in metadata if isinstance(item, Le)), None)
    below = next((item.lt for item in metadata if isinstance(item, Lt)), None)
    first = f'{low:g}' if low is not None else f'above {above:g}' if above is not None else ''
    last = f'{high:g}' if high is not None else ''
    if below is not None and not last:
        return [f'from {first}'] if first else []
    return [f'{first} to {last}'] if first and last else []


def _placeholder(key: str, plan: PlanView, model: ModelInfo) -> str:
    """What an empty field means, with this model."""
    planned = plan.plan
    preset = model.preset
    known = {
        'learningRate': preset.learning_rate,
        'epochs': preset.epochs,
        'temperature': preset.temperature,
        'loraRank': preset.lora_rank,
        'loraAlpha': preset.lora_alpha,
        'maxCompletionLength': preset.max_completion_length,
        'batchSize': planned.batch_size if planned else None,
        'gradientAccumulationSteps': planned.accumulation if planned else None,
        'maxSteps': planned.steps if planned else None,
    }
    value = known.get(key)
    if value is None:
        source = _RL.get(key) or _AROUND.get(key)
        value = source[1].default if source else None
    return '' if value is None else f'{value:g}' if isinstance(value, int | float) else str(value)


def _plain(text: str) -> str:
    """Numbers without a needless ``.0``."""
    return re.sub(r'(\d+)\.0\b', r'\1', text)
