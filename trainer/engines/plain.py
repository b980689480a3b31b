"""The ``plain`` engine: transformers ``generate`` on left-padded batches. Works everywhere, caches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from transformers import GenerationConfig

from trainer.engines.base import Generation

SMALL: Final = 50_000_000
"""Parameters below which more threads do not speed up decoding."""


class PlainEngine:
    """Generates with the model being trained, in its own process."""

    name = 'plain'

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._pad = tokenizer.pad_token_id
        self._ends = end_tokens(model, tokenizer)

    def generate(
        self, prompts: Sequence[Sequence[int]], limits: Sequence[int], *, temperature: float
    ) -> list[Generation]:
        """Generate one turn for each prompt; see ``GenerationEngine``."""
        width = max(len(prompt) for prompt in prompts)
        ids = torch.full((len(prompts), width), self._pad, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        device = self._model.device
        config = self._config(max(limits), temperature)
        training = self._model.training
        self._model.eval()
        try:
            with torch.no_grad(), few_threads(self._model):
                output = self._model.generate(
                    input_ids=ids.to(device), attention_mask=mask.to(device), generation_config=config
                )
        finally:
            self._model.train(training)
        rows = output[:, width:].tolist()
        return [self._turn(row, limit) for row, limit in zip(rows, limits, strict=True)]

    def _config(self, limit: int, temperature: float) -> GenerationConfig:
        sampling: dict[str, Any] = {'do_sample': False}
        if temperature > 0:
            # The whole distribution, untouched: what is sampled must be what the loss is computed on.
            sampling = {'do_sample': True, 'temperature': temperature, 'top_k': 0, 'top_p': 1.0}
        return GenerationConfig(max_new_tokens=limit, eos_token_id=self._ends, pad_token_id=self._pad, **sampling)

    def _turn(self, row: list[int], limit: int) -> Generation:
        row = row[:limit]
        for position, token in enumerate(row):
            if token in self._ends:
                return Generation(row[: position + 1], finished=True)
        return Generation(row, finished=False)


@contextmanager
def few_threads(model: Any) -> Iterator[None]:
    """One thread while a small model decodes on the CPU.

    A decoding step is hundreds of tiny operations, each ended by a barrier of all threads. Beside sandboxes and a
    browser one of them is always descheduled: measured on two busy cores, two threads were 7 to 16 times slower.
    """
    threads = torch.get_num_threads()
    if model.device.type == 'cpu' and model.num_parameters() < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Ids that end a turn: the tokenizer's end token and those of the model's generation config."""
    configured = model.generation_config.eos_token_id
    listed = configured if isinstance(configured, list) else [configured]
    return sorted({token for token in [tokenizer.eos_token_id, *listed] if token is not None})
