"""The ``plain`` engine for models that do not keep keys and values per token: ``generate`` on left-padded batches.

Every turn is computed from the beginning of its conversation, and a round is as long as its longest turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from transformers import GenerationConfig

from trainer.engines.base import Generation, TurnStream
from trainer.engines.policy import end_tokens, evaluating
from trainer.engines.rounds import Rounds


class WholeBatchEngine:
    """Generates with the model being trained, in its own process, for any architecture."""

    name = 'plain'

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._pad = tokenizer.pad_token_id
        self._ends = end_tokens(model, tokenizer)

    @contextmanager
    def open(self, rows: int, *, temperature: float, seed: int) -> Iterator[TurnStream]:
        """Begin a batch of conversations; see ``GenerationEngine``."""
        devices = [self._model.device] if self._model.device.type == 'cuda' else []
        with torch.random.fork_rng(devices), evaluating(self._model):
            torch.manual_seed(seed)
            yield Rounds(rows, partial(self._generate, temperature))

    def _generate(
        self, temperature: float, conversations: Sequence[Sequence[int]], limits: Sequence[int]
    ) -> list[Generation]:
        width = max(map(len, conversations))
        ids = torch.full((len(conversations), width), self._pad, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, conversation in enumerate(conversations):
            ids[row, width - len(conversation) :] = torch.tensor(conversation)
            mask[row, width - len(conversation) :] = 1
        device = self._model.device
        output = self._model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            generation_config=self._config(max(limits), temperature),
        )
        rows = output[:, width:].tolist()
        return [self._turn(row, limit) for row, limit in zip(rows, limits, strict=True)]

    def _config(self, limit: int, temperature: float) -> GenerationConfig:
        sampling: dict[str, Any] = {'do_sample': False}
        if temperature > 0:
            # The whole distribution, untouched: what is sampled must be what the loss is computed on.
            sampling = {'do_sample': True, 'temperature': temperature, 'top_k': 0, 'top_p': 1.0}
        return GenerationConfig(
            max_new_tokens=limit, eos_token_id=sorted(self._ends), pad_token_id=self._pad, **sampling
        )

    def _turn(self, row: list[int], limit: int) -> Generation:
        row = row[:limit]
        for position, token in enumerate(row):
            if token in self._ends:
                return Generation(row[: position + 1], finished=True)
        return Generation(row, finished=False)
