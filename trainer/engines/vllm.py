"""The ``vllm`` engine over a server: every turn is a request of token ids, with the adapter of this very step."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Final

import torch

from trainer.engines.base import Generation, TurnStream
from trainer.engines.policy import causal_lm, end_tokens
from trainer.engines.requests import Requests
from trainer.engines.vllm_server import Served, VllmServer
from trainer.errors import GenerationError

TURN_S: Final = 900.0
"""Seconds after which a turn that has not come is given up, and with it the run."""
CONNECTIONS: Final = 256
ANY_LENGTH: Final = 2**20


class VllmEngine:
    """Generates with a copy of the policy in a vLLM server, which gets the adapter before each batch."""

    name = 'vllm'

    def __init__(
        self, server: VllmServer, model: Any, tokenizer: Any, *, lora_rank: int, turn_s: float = TURN_S
    ) -> None:
        self.server = server
        self.model = model
        self.ends = end_tokens(model, tokenizer)
        self.served = _served(model, lora_rank)
        self.turn_s = turn_s

    @contextmanager
    def open(self, rows: int, *, temperature: float, seed: int) -> Iterator[TurnStream]:
        """Begin a batch of conversations; see ``GenerationEngine``."""
        backend = _Completions(self, rows, temperature, seed)
        try:
            yield Requests(rows, backend)
        finally:
            backend.close()


class _Completions:
    """Asks for turns in threads. The server is made ready when the first conversations are all known."""

    def __init__(self, engine: VllmEngine, rows: int, temperature: float, seed: int) -> None:
        self._engine = engine
        self._temperature = temperature
        self._seeds = [random.Random(f'{seed}/{row}') for row in range(rows)]
        self._waiting: list[tuple[int, Sequence[int], int]] = []
        self._running = 0
        self._begun: set[int] = set()
        self._answers: SimpleQueue[tuple[int, Generation | GenerationError]] = SimpleQueue()
        self._pool = ThreadPoolExecutor(min(rows, CONNECTIONS), thread_name_prefix='vllm')
        self._client = engine.server.client()
        self._name = ''

    def ask(self, row: int, ids: Sequence[int], limit: int) -> None:
        """See ``Backend``."""
        self._waiting.append((row, ids, limit))

    def answer(self, timeout_s: float) -> tuple[int, Generation] | None:
        """See ``Backend``."""
        self._submit()
        try:
            row, found = self._answers.get(timeout=timeout_s) if timeout_s else self._answers.get_nowait()
        except Empty:
            return None
        self._running -= 1
        if isinstance(found, GenerationError):
            raise self._engine.server.explained(found) from found
        return row, found

    def close(self) -> None:
        """Give up what is still asked for."""
        self._client.abort()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self) -> None:
        """Send what was asked for; conversations that outgrow the server wait for one that takes them."""
        server = self._engine.server
        needed = min(max((len(ids) + limit for _, ids, limit in self._waiting), default=0), self._engine.served.context)
        if not self._name or not server.takes(needed):
            if self._running or not server.ready(needed, self._engine.served):
                return
            self._client = server.client()
            self._name = server.publish(self._engine.model)
        for row, ids, limit in self._waiting:
            room = server.max_length - len(ids)
            if room > 0:
                self._pool.submit(self._ask, row, self._body(row, ids, min(limit, room)))
            elif row in self._begun:
                # It grew to what the server takes: a turn of no tokens that its limit ended.
                self._answers.put((row, Generation([], finished=False)))
            else:
                raise GenerationError(
                    f'A prompt of {len(ids)} tokens does not fit into vLLM, which takes {server.max_length}'
                )
            self._begun.add(row)
        self._running += len(self._waiting)
        self._waiting.clear()

    def _body(self, row: int, ids: Sequence[int], limit: int) -> dict[str, Any]:
        return {
            'model': self._name,
            'prompt': list(ids),
            'max_tokens': limit,
            'temperature': self._temperature,
            'seed': self._seeds[row].getrandbits(62),
            'stop_token_ids': sorted(self._engine.ends),
            # The whole distribution, untouched: what is sampled must be what the loss is computed on.
            'top_p': 1.0,
            'top_k': 0,
            'min_p': 0.0,
            'repetition_penalty': 1.0,
            'return_token_ids': True,
        }

    def _ask(self, row: int, body: dict[str, Any]) -> None:
        """Ask for one turn. In a worker thread."""
        try:
            choice = self._client.complete(body, timeout_s=self._engine.turn_s)
            self._answers.put((row, _turn(choice, body['max_tokens'], self._engine.ends)))
        except GenerationError as error:
            self._answers.put((row, error))


def _turn(choice: dict[str, Any], limit: int, ends: frozenset[int]) -> Generation:
    """Read a turn as tokens, never as text: text would be tokenized otherwise than it was said."""
    ids = choice.get('token_ids')
    if not isinstance(ids, list) or not ids or not all(type(one) is int and one >= 0 for one in ids):
        raise GenerationError('vLLM answered without the token ids: version 0.10.2 or newer is needed')
    if len(ids) > limit or any(one in ends for one in ids[:-1]):
        raise GenerationError('vLLM answered with more tokens than were asked for')
    finished = ids[-1] in ends
    if choice.get('finish_reason') == 'stop' and not finished:
        raise GenerationError('vLLM ended a turn without a token that ends turns')
    return Generation(ids, finished)


def _served(model: Any, lora_rank: int) -> Served:
    lm = causal_lm(model)
    dtype = {torch.bfloat16: 'bfloat16', torch.float16: 'float16'}.get(lm.dtype, 'float32')
    if lm.device.type == 'cuda' and dtype == 'float32':
        dtype = 'float16'  # weights that are trained in half precision by autocast
    context = getattr(lm.config.get_text_config(), 'max_position_embeddings', None) or ANY_LENGTH
    return Served(
        model=lm.name_or_path,
        dtype=dtype,
        device=lm.device.type,
        device_index=lm.device.index,
        context=int(context),
        lora_rank=lora_rank,
    )
