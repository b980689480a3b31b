"""The ``continuous_batching`` engine: transformers' own paged scheduler, with the model being trained.

It decodes in a thread of its own while tools run; conversations share the pages of what they have in common. It keeps
nothing from one batch to the next, so every batch is computed with the weights as they stand.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, LogitsProcessorList
from transformers.generation.continuous_batching.cb_logits_processors import (
    ContinuousBatchingLogitsProcessor,
    ContinuousBatchingLogitsProcessorList,
)

from trainer.engines.base import Generation, TurnStream
from trainer.engines.policy import causal_lm, end_tokens, evaluating
from trainer.engines.requests import Requests
from trainer.errors import GenerationError

PAGE: Final = 32
"""Tokens of a page: whole pages are what conversations share."""
PREFILL_TOKENS: Final = 2048
"""Tokens of one forward pass; its attention mask is this wide by the whole cache."""


class ContinuousBatchingEngine:
    """Generates with the model being trained, whose layers must all be attention over keys and values per token."""

    name = 'continuous_batching'

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._ends = end_tokens(model, tokenizer)
        self._pad = tokenizer.pad_token_id

    @contextmanager
    def open(self, rows: int, *, temperature: float, seed: int) -> Iterator[TurnStream]:
        """Begin a batch of conversations; see ``GenerationEngine``."""
        devices = [self._model.device] if self._model.device.type == 'cuda' else []
        # The scheduler seeds torch's random numbers, and draws none: what is sampled comes from ``_Draw``.
        with torch.random.fork_rng(devices), evaluating(self._model):
            backend = _Scheduler(causal_lm(self._model), self._ends, self._pad, rows, temperature, seed)
            try:
                yield Requests(rows, backend)
            finally:
                backend.close()


class _Scheduler:
    """One session of transformers' manager. Its cache is sized by the first conversations, when they are all known."""

    def __init__(self, model: Any, ends: frozenset[int], pad: int, rows: int, temperature: float, seed: int) -> None:
        self._model = model
        self._ends = ends
        self._pad = pad
        self._rows = rows
        self._temperature = temperature
        self._points = [random.Random(f'{seed}/{row}') for row in range(rows)]
        self._waiting: list[tuple[int, Sequence[int], int]] = []
        self._running = 0
        self._room = 0
        self._manager: Any = None

    def ask(self, row: int, ids: Sequence[int], limit: int) -> None:
        """See ``Backend``."""
        self._waiting.append((row, ids, limit))

    def answer(self, timeout_s: float) -> tuple[int, Generation] | None:
        """See ``Backend``."""
        self._submit()
        result = self._manager.get_result(timeout=timeout_s or 0.001)
        if result is None:
            self._check_alive()
            return None
        if result.error is not None:
            raise GenerationError(f'continuous batching failed: {result.error}')
        self._running -= 1
        ids = list(result.generated_tokens)
        return int(result.request_id.partition('/')[0]), Generation(ids, finished=ids[-1] in self._ends)

    def close(self) -> None:
        """End the thread and let go of the cache, whatever is still being generated."""
        if self._manager is not None:
            self._manager.stop(block=True, hard_stop=True)
            self._manager.destroy()
            self._manager = None

    def _submit(self) -> None:
        """Hand over what was asked for; a conversation that outgrows the cache waits for a larger one."""
        needed = max((len(ids) + limit for _, ids, limit in self._waiting), default=0)
        if needed > self._room:
            if self._running:
                return
            self.close()
            self._start(needed)
        for row, ids, limit in self._waiting:
            self._manager.add_request(
                list(ids), request_id=f'{row}/{len(ids)}', max_new_tokens=limit, eos_token_id=sorted(self._ends) or -1
            )
        self._running += len(self._waiting)
        self._waiting.clear()

    def _start(self, tokens: int) -> None:
        """Start a manager whose cache holds every conversation at ``tokens`` tokens."""
        self._room = tokens
        config = ContinuousBatchingConfig(
            page_size=PAGE,
            num_blocks=self._rows * (-(-tokens // PAGE) + 1),
            max_batch_tokens=PREFILL_TOKENS,
            max_requests_per_batch=self._rows,
            use_async_batching=False,  # one draw for each token, and none for a turn that has ended
            auto_switch_to_flash=self._model.dtype in (torch.float16, torch.bfloat16),
            seed=0,
        )
        generation = GenerationConfig(do_sample=False, eos_token_id=sorted(self._ends) or -1, pad_token_id=self._pad)
        self._manager = self._model.init_continuous_batching(
            generation_config=generation, continuous_batching_config=config
        )
        if self._temperature > 0:
            processors = ContinuousBatchingLogitsProcessorList(
                LogitsProcessorList([_Draw(self._temperature, self._points)])
            )
            processors.tensors_required = 1
            self._manager.logit_processor = processors
        self._manager.start()

    def _check_alive(self) -> None:
        if not self._manager.is_running():
            error = self._manager.background_thread_status.fatal_error
            raise GenerationError(f'continuous batching ended: {error}') from error


class _Draw(ContinuousBatchingLogitsProcessor):  # type: ignore[misc]
    """Inverse transform sampling of the whole distribution, as the ``plain`` engine draws: leaves the token drawn.

    The scheduler then takes the likeliest token. Its own sampling has one state of random numbers for all requests, so
    that what a conversation says would depend on how long the tools of others take.
    """

    supported_kwargs: dict[str, type] = {}  # noqa: RUF012 (as the base class has it)
    ignored_kwargs: tuple[str, ...] = ()

    def __init__(self, temperature: float, points: Sequence[random.Random]) -> None:
        self._temperature = temperature
        self._points = points

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        """Points for padding, which nobody reads."""
        int32_tensor.zero_()

    def prepare_tensor_args(self, requests_with_new_token: Sequence[Any]) -> torch.Tensor:
        """Draw a point in [0, 1) for each request, from the numbers of its own conversation."""
        rows = [int(one.state.request_id.partition('/')[0]) for one in requests_with_new_token]
        points = [self._points[row].random() for row in rows]
        return torch.tensor(points, dtype=torch.float32).view(torch.int32)

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        """Logits [requests, words] → 0 for the token drawn, minus infinity for all others."""
        points = tensor_arg[: scores.shape[0]].view(torch.float32)[:, None]
        sums = torch.softmax(scores / self._temperature, dim=-1).cumsum(-1)
        tokens = torch.searchsorted(sums, points * sums[:, -1:], right=True).clamp(max=sums.shape[1] - 1)
        return torch.full_like(scores, -torch.inf).scatter(1, tokens, 0.0)
