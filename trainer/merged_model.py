"""A merged model as it lies on disk: a base model with an adapter written into its weights, and what that changed.

Part of the light half: reads ``merge.json`` and the headers of weight files, never weights.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError

from trainer.errors import ConfigError, FieldError, RunFolderError
from trainer.models import ModelInfo
from trainer.validation import Document

MERGE_FILE: Final = 'merge.json'
Dtype = Literal['float32', 'bfloat16']
BYTES: Final[dict[Dtype, int]] = {'float32': 4, 'bfloat16': 2}
BESIDE: Final = 64 * 1024**2
"""Bytes for everything beside the weights: tokenizer, template, README, and some room."""
MAX_HEADER: Final = 100 * 1024**2


class Drift(Document):
    """How the merged model, read back from disk, differs from base and adapter in float32.

    Greedy answers to ``prompts`` prompts of tasks, ``tokens`` tokens at most; ``equal`` counts the same ones.
    ``max_logit`` is the largest difference of any logit along those answers.
    """

    prompts: int
    tokens: int
    equal: int
    max_logit: float

    @property
    def share(self) -> float:
        """Share of equal answers."""
        return self.equal / self.prompts if self.prompts else 0.0

    @property
    def words(self) -> str:
        """Both in a line."""
        return (
            f'{self.equal} of {self.prompts} greedy answers as base and adapter in float32, '
            f'largest logit difference {self.max_logit:.2g}'
        )


class MergedModel(Document):
    """What ``merge.json`` says: where a merged model comes from, how far it is from it, and its files."""

    base: str = Field(description='Id of the base model.')
    dtype: Dtype
    parameters: int
    adapter_sha256: str
    run: str = Field(default='', description='Name of the run that trained the adapter.')
    step: int | None = None
    drift: Drift
    files: dict[str, str] = Field(description='sha256 of each file by name.')
    libraries: dict[str, str]
    created_at: datetime


def read_merged(folder: Path) -> MergedModel:
    """Read ``merge.json``. Raises ``RunFolderError`` where there is none that can be read."""
    try:
        return MergedModel.model_validate_json((folder / MERGE_FILE).read_bytes())
    except FileNotFoundError:
        raise RunFolderError(f'{folder} holds no merged model') from None
    except ValidationError as error:
        raise RunFolderError(f'{folder / MERGE_FILE} cannot be read: {error.errors()[0]["msg"]}') from None


def bytes_needed(model: ModelInfo, dtype: Dtype) -> int | None:
    """Bytes a merged model takes on disk; ``None`` where the size of the base is not known before it is loaded."""
    parameters = model.parameters or _parameters(Path(model.source))
    return None if parameters is None else parameters * BYTES[dtype] + BESIDE


def check_adapter(folder: Path) -> None:
    """See that a folder holds an adapter in PEFT layout. Raises ``ConfigError``."""
    for name in ('adapter_config.json', 'adapter_model.safetensors'):
        if not (folder / name).is_file():
            message = f'{folder} holds no {name}'
            raise ConfigError(message, [FieldError(loc='adapter', msg=message)], hint='Name the folder of an adapter.')


def adapter_rank(folder: Path) -> int | None:
    """The highest LoRA rank of an adapter; ``None`` where its config does not say."""
    try:
        config = json.loads((folder / 'adapter_config.json').read_text(encoding='utf-8'))
    except (OSError, ValueError):
        return None
    ranks = [config.get('r'), *(config.get('rank_pattern') or {}).values()] if isinstance(config, dict) else []
    return max((rank for rank in ranks if isinstance(rank, int)), default=None)


def _parameters(folder: Path) -> int | None:
    """Numbers in the weight files of a folder, told from their headers."""
    files = sorted(folder.glob('*.safetensors')) if folder.is_dir() else []
    try:
        return sum(_numbers(file) for file in files) or None
    except (OSError, ValueError, struct.error, KeyError, TypeError):  # no weights that we know how to count
        return None


def _numbers(file: Path) -> int:
    with file.open('rb') as opened:
        (length,) = struct.unpack('<Q', opened.read(8))
        if length > MAX_HEADER:
            raise ValueError('no header')
        header = json.loads(opened.read(length))
    shapes: Iterable[list[int]] = (tensor['shape'] for name, tensor in header.items() if name != '__metadata__')
    return sum(math.prod(shape) for shape in shapes)
