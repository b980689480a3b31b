"""The ``vllm`` engine inside the training process, through TRL's own vLLM generation: for a GPU that computes in bf16.

Before each batch TRL merges the adapter into a copy of the weights and loads it into vLLM. vLLM samples with one state
of random numbers of its own, so a seed does not repeat a batch here; turns are generated in rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from accelerate import Accelerator
from trl.generation.vllm_generation import VLLMGeneration

from trainer.engines.base import Generation, TurnStream
from trainer.engines.policy import end_tokens
from trainer.engines.rounds import Rounds
from trainer.engines.vllm_server import GPU_SHARE


class ColocatedEngine:
    """Generates with vLLM in this process. vLLM is started once, by the first policy, and serves all that follow."""

    name = 'vllm'

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._ends = end_tokens(model, tokenizer)
        self._generation = VLLMGeneration(
            model,
            Accelerator(mixed_precision='bf16'),  # as the training that follows: the first one decides for a process
            tokenizer,
            mode='colocate',
            gpu_memory_utilization=GPU_SHARE,
            top_k=0,
            top_p=1.0,
            logprobs=None,
            generation_kwargs={'stop_token_ids': sorted(self._ends)},
        )

    def serve(self, model: Any) -> None:
        """Generate with another policy over the same base model from now on."""
        self._generation.model = model

    @contextmanager
    def open(self, rows: int, *, temperature: float, seed: int) -> Iterator[TurnStream]:
        """Begin a batch of conversations; see ``GenerationEngine``. ``seed`` does not reach vLLM."""
        self._generation.temperature = temperature
        self._generation.sync_weights()
        yield Rounds(rows, self._generate)

    def _generate(self, conversations: Sequence[Sequence[int]], limits: Sequence[int]) -> list[Generation]:
        # TRL knows one limit for all: what a turn has beyond its own is cut.
        self._generation.max_completion_length = max(limits)
        _, turns, _, _ = self._generation.generate([list(ids) for ids in conversations], None, num_generations=1)
        return [self._turn(list(ids)[:limit]) for ids, limit in zip(turns, limits, strict=True)]

    def _turn(self, ids: list[int]) -> Generation:
        return Generation(ids, finished=bool(ids) and ids[-1] in self._ends)
