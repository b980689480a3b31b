"""Engines that generate the turns of episodes. A new one is one file and one line in ``open_engine`` or ``Engines``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer.engine_choice import Engine, find_vllm
from trainer.engines.base import Generation, GenerationEngine, TurnStream, generate
from trainer.engines.continuous_batching import ContinuousBatchingEngine
from trainer.engines.plain import PlainEngine, keeps_tokens
from trainer.engines.vllm import VllmEngine
from trainer.engines.vllm_server import VllmServer
from trainer.engines.whole_batches import WholeBatchEngine
from trainer.errors import ConfigError, FieldError

__all__ = ['Engines', 'Generation', 'GenerationEngine', 'TurnStream', 'generate', 'open_engine']


def open_engine(name: Engine, model: Any, tokenizer: Any) -> GenerationEngine:
    """An engine that generates with the model in this process. Raises ``ConfigError`` where it does not know it."""
    match name:
        case 'auto' | 'plain':
            return PlainEngine(model, tokenizer) if keeps_tokens(model) else WholeBatchEngine(model, tokenizer)
        case 'continuous_batching' if keeps_tokens(model):
            return ContinuousBatchingEngine(model, tokenizer)
        case 'continuous_batching':
            raise _refused(
                'continuous_batching cannot run this model: its layers do not keep keys and values per token'
            )
        case _:
            raise ValueError(f'{name} has no engine over a model alone')


class Engines:
    """The engines of one run: what is slow to start is started once, and serves one policy after the other.

    ``folder`` is the run's: a server writes its log there and reads adapters from it. ``rank`` tells the processes of a
    run apart; each has a server of its own. ``report`` tells the user what there is to wait for.
    """

    def __init__(
        self,
        name: Engine,
        tokenizer: Any,
        *,
        folder: Path,
        lora_rank: int,
        rank: int = 0,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._name = name
        self._tokenizer = tokenizer
        self._folder = folder
        self._lora_rank = lora_rank
        self._rank = rank
        self._report = report
        self._server: VllmServer | None = None
        self._colocated: Any = None

    def engine(self, policy: Any) -> GenerationEngine:
        """An engine that generates with a policy as it stands at each batch. Raises ``ConfigError``."""
        if self._name != 'vllm':
            return open_engine(self._name, policy, self._tokenizer)
        found = find_vllm()
        if isinstance(found, str):
            raise _refused(found)
        if found.mode == 'colocated':
            return self._in_this_process(policy)
        self._server = self._server or VllmServer(found, self._folder, rank=self._rank, report=self._report)
        return VllmEngine(self._server, policy, self._tokenizer, lora_rank=self._lora_rank)

    def close(self) -> None:
        """End the server, if there is one."""
        if self._server is not None:
            self._server.close()

    def _in_this_process(self, policy: Any) -> GenerationEngine:
        if self._colocated is None:
            from trainer.engines.vllm_colocated import ColocatedEngine  # imports vLLM itself

            self._colocated = ColocatedEngine(policy, self._tokenizer)
        self._colocated.serve(policy)
        engine: GenerationEngine = self._colocated
        return engine


def _refused(message: str) -> ConfigError:
    return ConfigError(message, [FieldError(loc='rl.generationEngine', msg=message)])
