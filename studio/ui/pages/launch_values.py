"""The settings of a run between form and API: which there are, their bounds in words, text to numbers and back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from studio.runs.views import PlanView
from trainer.config import BOUNDS, ColdStart, RlConfig, Settings
from trainer.models import ModelInfo
from trainer.requirements import parse_requirements

COLD: Final = 'coldStart'
RL_KEYS: Final = ('numGenerations', 'maxCompletionLength', 'maxToolCallingIterations', 'maxSteps')
CHOICES: Final = ('lossType', 'scaleRewards')
COLD_KEYS: Final = tuple(f'{COLD}.{field.alias}' for field in ColdStart.model_fields.values())
GROUPS: Final = {
    'More: learning rate, epochs, batch, LoRA, seed': (
        'learningRate',
        'epochs',
        'temperature',
        'seed',
        'batchSize',
        'gradientAccumulationSteps',
        'loraRank',
        'loraAlpha',
    ),
    'Evaluation and checkpoints': (
        'heldOutAttempts',
        'evalEvery',
        'earlyStop',
        'saveEvery',
        'keepCheckpoints',
        'keepWorkspacesMb',
    ),
    'Trackers that get the numbers too': ('reportTo',),
    'Episodes and processes': ('dynamicSampling', 'toolAnswerTokens', 'maxErrorShare', 'processes', 'shareCalls'),
}
"""The settings around ``config.rl`` by what they are about."""
MORE_KEYS: Final = tuple(key for keys in GROUPS.values() for key in keys)
PLANNED: Final = {'learningRate': 'learning_rate', 'gradientAccumulationSteps': 'accumulation'}
"""Settings a plan may correct, and where the plan has them."""
CLAMP: Final = re.compile(r'(lowered|raised) from (\S+) to (\S+): (.+)')

_RL: Final = {field.alias or name: (name, field) for name, field in RlConfig.model_fields.items()}
_AROUND: Final = {field.alias or name: (name, field) for name, field in Settings.model_fields.items()}
_COLD: Final = {f'{COLD}.{field.alias}': (name, field) for name, field in ColdStart.model_fields.items()}
KNOWN: Final[Mapping[str, tuple[str, FieldInfo]]] = {**_AROUND, **_RL, **_COLD}
"""Key of the form → its name in the model, and its field."""


def nested(values: Mapping[str, str], packages: Sequence[str], *, cold_start: bool) -> dict[str, Any]:
    """Values of a form as the API takes them."""
    rl: dict[str, Any] = {}
    around: dict[str, Any] = {}
    cold: dict[str, Any] = {}
    for key, text in values.items():
        if key in _COLD:
            cold[key.removeprefix(f'{COLD}.')] = _value(key, text)
        else:
            (rl if key in _RL else around)[key] = _value(key, text)
    if packages:
        rl['pipPackages'] = list(packages)
    if cold_start:
        around[COLD] = cold
    return {**around, 'rl': rl}


def changed_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a finished form would hold for these settings: the values that differ from the defaults, flat."""
    standard = Settings().model_dump(mode='json', by_alias=True)
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if key != 'rl' and key in MORE_KEYS and value is not None and value != standard.get(key):
            flat[key] = value
    for key, value in dict(settings.get('rl', {})).items():
        if key not in ('enabled', 'env') and value != standard['rl'].get(key):
            flat[key] = value
    cold = settings.get(COLD)
    if cold is not None:
        usual = ColdStart().model_dump(mode='json', by_alias=True)
        flat |= {f'{COLD}.{key}': value for key, value in dict(cold).items() if value != usual.get(key)}
        flat[COLD] = True
    return flat


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


def _value(key: str, text: str) -> int | float | bool | str | list[str]:
    """What a text stands for; what it cannot stand for stays text, to be refused by name."""
    annotation = KNOWN[key][1].annotation
    types = (annotation, *get_args(annotation))
    if get_origin(annotation) is tuple:
        return text.split(', ')
    if bool in types and text in ('true', 'false'):
        return text == 'true'
    if int not in types and float not in types:
        return text
    try:
        return int(text) if int in types else float(text)
    except ValueError:
        return text


def field_of(loc: str) -> str:
    """The field of the form that an error is about."""
    parts = loc.removeprefix('rl.').split('.')
    return '.'.join(parts[:2]) if parts[0] == COLD else parts[0]


def is_whole(key: str) -> bool:
    """Whether a setting takes whole numbers."""
    annotation = KNOWN[key][1].annotation
    return int in (annotation, *get_args(annotation))


def wording(key: str, message: str) -> str:
    """What is wrong with a field, said for a person: pydantic's words where the type is wrong are not."""
    if key not in KNOWN:
        return message
    integer = is_whole(key)
    if message.startswith('Input should be a valid'):
        return 'A whole number is needed' if integer else 'A number is needed'
    return message.replace('Input should be', 'Must be')


def hint(name: str, info: FieldInfo) -> str:
    """Default and bounds of a setting, for the line below its field."""
    parts = []
    if info.default == ():
        parts.append('default none')
    elif info.default is not None:
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


def placeholder(key: str, plan: PlanView, model: ModelInfo) -> str:
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
        'toolAnswerTokens': planned.answer_tokens if planned else None,
        'processes': planned.processes if planned else None,
    }
    value = known.get(key)
    if value is None:
        value = KNOWN[key][1].default
    return '' if value is None else f'{value:g}' if isinstance(value, int | float) else str(value)


def plain(text: str) -> str:
    """Numbers without a needless ``.0``."""
    return re.sub(r'(\d+)\.0\b', r'\1', text)
