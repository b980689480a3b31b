"""The models a run may start from: the eligible list, the bundled starter, and any folder or hub id (spec section 6).

Nothing here loads weights or imports the training stack.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from trainer.errors import ConfigError, FieldError
from trainer.validation import Document

ASSETS: Final = Path(__file__).resolve().parent.parent / 'assets'
STARTER_FOLDER: Final = ASSETS / 'starter'

ELIGIBLE_RATE: Final = 2e-6
"""Highest learning rate of an RLVR run for the models of the eligible list (spec section 6)."""
STARTER_RATE: Final = 2e-3
"""Highest learning rate for the starter model, which is 1,000 times smaller than the others."""


class Preset(Document):
    """Run settings that suit a model, used where the user gives none."""

    learning_rate: float
    lora_rank: int
    lora_alpha: int
    tasks_per_step: int = Field(description='Groups of one optimizer step.')
    epochs: float
    groups_per_batch: int = Field(default=1, description='Groups of one forward and backward pass.')
    max_completion_length: int | None = Field(default=None, description='Tokens of an episode; none: the default.')
    temperature: float = 1.0


class ModelInfo(Document):
    """One model the studio can offer. ``source`` is what ``from_pretrained`` gets: a folder or a hub id."""

    id: str
    title: str
    source: str
    parameters: int | None = Field(default=None, description='Number of parameters.')
    kind: Literal['bundled', 'eligible', 'local', 'hub']
    supports_rl: bool = Field(serialization_alias='supportsRl')
    rate_cap: float = Field(description='Highest learning rate of an RLVR run.')
    preset: Preset
    about: str = ''


_ELIGIBLE_PRESET: Final = Preset(learning_rate=ELIGIBLE_RATE, lora_rank=16, lora_alpha=32, tasks_per_step=4, epochs=1)

STARTER: Final = ModelInfo(
    id='starter',
    title='Starter',
    source=str(STARTER_FOLDER),
    parameters=2_066_368,
    kind='bundled',
    supports_rl=True,
    rate_cap=STARTER_RATE,
    preset=Preset(
        learning_rate=1.5e-3,
        lora_rank=16,
        lora_alpha=32,
        tasks_per_step=8,
        epochs=7.5,
        groups_per_batch=8,
        max_completion_length=384,
    ),
    about='Ships with the studio and trains on a laptop CPU in minutes. For learning the tool, not for real tasks.',
)


def _eligible(name: str, parameters: int) -> ModelInfo:
    return ModelInfo(
        id=f'unsloth/{name}',
        title=name,
        source=f'unsloth/{name}',
        parameters=parameters,
        kind='eligible',
        supports_rl=True,
        rate_cap=ELIGIBLE_RATE,
        preset=_ELIGIBLE_PRESET,
    )


MODELS: Final[tuple[ModelInfo, ...]] = (
    STARTER,
    _eligible('Qwen3-0.6B', 600_000_000),
    _eligible('Qwen3-1.7B', 1_700_000_000),
    _eligible('Qwen3-4B-Instruct-2507', 4_000_000_000),
    _eligible('Qwen3-8B', 8_200_000_000),
    _eligible('Llama-3.2-1B-Instruct', 1_240_000_000),
    _eligible('Llama-3.2-3B-Instruct', 3_210_000_000),
    _eligible('gemma-3-1b-it', 1_000_000_000),
)
"""The bundled model and the eligible list, in the order they are offered."""


def find_model(reference: str) -> ModelInfo:
    """The model behind an id, a folder or a hub id. Raises ``ConfigError`` at ``model``."""
    for model in MODELS:
        if reference in (model.id, model.title, model.source):
            return model
    folder = Path(reference).expanduser()
    if folder.is_dir():
        if not (folder / 'config.json').is_file():
            raise _unknown(f'{reference} holds no config.json: name the folder of a saved transformers model')
        return _custom(str(folder.resolve()), folder.name, 'local')
    if reference.count('/') == 1 and not reference.startswith(('.', '/', '~')):
        return _custom(reference, reference.split('/')[1], 'hub')
    raise _unknown(f'{reference!r} is no known model, no folder and no hub id (owner/name)')


def _custom(source: str, title: str, kind: Literal['local', 'hub']) -> ModelInfo:
    return ModelInfo(
        id=source,
        title=title,
        source=source,
        kind=kind,
        supports_rl=True,
        rate_cap=ELIGIBLE_RATE,
        preset=_ELIGIBLE_PRESET,
    )


def _unknown(message: str) -> ConfigError:
    return ConfigError(message, [FieldError(loc='model', msg=message)], hint='`rlvr models list` shows what there is.')
