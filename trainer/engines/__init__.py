"""Engines that generate the turns of episodes. A new one is one file and one line in ``open_engine``."""

from __future__ import annotations

from typing import Any

from trainer.config import Engine
from trainer.engines.base import Generation, GenerationEngine, TurnStream, generate
from trainer.engines.plain import PlainEngine, keeps_tokens
from trainer.engines.whole_batches import WholeBatchEngine

__all__ = ['Generation', 'GenerationEngine', 'TurnStream', 'generate', 'open_engine']


def open_engine(name: Engine, model: Any, tokenizer: Any) -> GenerationEngine:
    """The engine of a run; ``auto`` has been resolved by the plan before."""
    match name:
        case 'auto' | 'plain':
            return PlainEngine(model, tokenizer) if keeps_tokens(model) else WholeBatchEngine(model, tokenizer)
        case _:
            raise ValueError(f'no engine {name}')
