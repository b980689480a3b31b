"""The ``plain`` engine: decodes with the model being trained, in its own process; works on every device.

Conversations join and leave the batch at every token: one whose turn ended makes room at once, one whose tools have
answered comes back, and what was computed of it is still in its slot. Prompts that are the same are computed once.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from trainer.engine_choice import PER_TOKEN
from trainer.engines.base import Generation, TurnStream
from trainer.engines.folded import Folded
from trainer.engines.policy import causal_lm, end_tokens, evaluating
from trainer.engines.slots import SlotCache

PREFILL_TOKENS: Final = 16_384
"""Tokens of one forward pass over prompts and answers."""
PATIENCE: Final = 8
"""Tokens for which a conversation that comes back waits for others, so that they are computed together."""


class PlainEngine:
    """Generates with the model being trained, which must be one that ``keeps_tokens``."""

    name = 'plain'

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._ends = end_tokens(model, tokenizer)
        self._cache_name = _cache_parameter(model)
        self._masks = _mask_kinds(model)

    @contextmanager
    def open(self, rows: int, *, temperature: float, seed: int) -> Iterator[TurnStream]:
        """Begin a batch of conversations; see ``GenerationEngine``."""
        with evaluating(self._model):
            yield _Stream(self, rows, temperature, seed)

    def folded(self) -> Folded:
        """The model with its adapter of now folded in."""
        return Folded(self._model)

    def logits(self, ids: torch.Tensor, positions: torch.Tensor, cache: SlotCache) -> torch.Tensor:
        """Run the model over tokens [rows, new] at ``positions`` [rows, new]; logits of the last ones [rows, words]."""
        seen = torch.arange(cache.get_seq_length(), device=ids.device)
        far = positions[:, None, :, None] - seen
        masks = {kind: (far >= 0) & (far < window) if window else far >= 0 for kind, window in self._masks.items()}
        output = self._model(
            input_ids=ids,
            attention_mask=masks if len(masks) > 1 else next(iter(masks.values())),
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: cache},
        )
        return output.logits[:, -1].float()  # type: ignore[no-any-return]

    @property
    def ends(self) -> frozenset[int]:
        """Ids that end a turn."""
        return self._ends

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = self._model.device
        return device


@dataclass
class _Conversation:
    """One conversation: how much of it is cached, what is not yet, and the turn being generated."""

    row: int
    random: random.Random
    cached: int = 0
    fresh: list[int] = field(default_factory=list)
    turn: list[int] = field(default_factory=list)
    limit: int = 0


class _Stream:
    """Decodes one batch. Conversations are kept in the order of their slots: decoding, coming back, waiting."""

    def __init__(self, engine: PlainEngine, rows: int, temperature: float, seed: int) -> None:
        self._engine = engine
        self._temperature = temperature
        self._slots = [_Conversation(row, random.Random(f'{seed}/{row}')) for row in range(rows)]
        self._slot_of = list(range(rows))
        self._cache = SlotCache(rows)
        self._folded: Folded | None = None
        self._decoding = 0
        self._back: list[_Conversation] = []
        self._waited = 0

    @property
    def asked(self) -> int:
        """How many turns are being generated."""
        return self._decoding + len(self._back)

    def extend(self, row: int, ids: Sequence[int], limit: int) -> None:
        """See ``TurnStream``."""
        conversation = self._slots[self._slot_of[row]]
        conversation.fresh += ids
        conversation.turn, conversation.limit = [], limit
        self._back.append(conversation)

    def so_far(self, row: int) -> Sequence[int]:
        """What there is of the turn that a conversation is at."""
        return self._slots[self._slot_of[row]].turn

    def advance(self) -> list[tuple[int, Generation]]:
        """Decode one token of every turn; compute what came back, when enough did."""
        ended: list[_Conversation] = []
        self._waited += 1
        if self._folded is None:
            # Not before: others may have the same model in another state meanwhile.
            self._folded = self._engine.folded()
        with self._folded.applied():
            if self._back and (len(self._back) * 4 >= self._decoding or self._waited >= PATIENCE):
                ended += self._join()
            elif self._decoding:
                ended += self._decode(0, self._decoding)
        return [(one.row, self._handed(one)) for one in sorted(ended, key=lambda one: one.row)]

    def _handed(self, one: _Conversation) -> Generation:
        return Generation(list(one.turn), finished=one.turn[-1] in self._engine.ends)

    def _join(self) -> list[_Conversation]:
        """Compute the new tokens of conversations that came back; same beginnings once, in passes of like lengths."""
        back = sorted(self._back, key=lambda one: (one.cached > 0, len(one.fresh), one.row))
        self._back, self._waited = [], 0
        ended = []
        for first, copies in _passes(back):
            start = self._decoding
            for one in first:
                self._enter(one)
            logits = self._forward(start, self._decoding)
            sources: list[int] = []
            for place, twins in enumerate(copies):
                for twin in twins:
                    self._enter(twin)
                    sources.append(place)
                    twin.cached, twin.fresh = first[place].cached, []
            if sources:
                length = max(one.cached for one in first)
                slots = list(range(start + len(first), self._decoding))
                self._cache.copy([start + place for place in sources], slots, length)
                logits = torch.cat([logits, logits[sources]])
            ended += self._sample(start, logits)
        return ended

    def _decode(self, start: int, end: int) -> list[_Conversation]:
        return self._sample(start, self._forward(start, end))

    def _forward(self, start: int, end: int) -> torch.Tensor:
        """One pass over the fresh tokens of slots; padded on the left, so that the last column is the last token."""
        rows = self._slots[start:end]
        width = max(len(one.fresh) for one in rows)
        ids = [[0] * (width - len(one.fresh)) + one.fresh for one in rows]
        places = [
            [-1] * (width - len(one.fresh)) + list(range(one.cached, one.cached + len(one.fresh))) for one in rows
        ]
        for one in rows:
            one.cached += len(one.fresh)
            one.fresh = []
        device = self._engine.device
        where = torch.tensor(places, device=device)
        self._cache.enter(start, where, max(one.cached for one in rows))
        return self._engine.logits(torch.tensor(ids, device=device), where.clamp(min=0), self._cache)

    def _sample(self, start: int, logits: torch.Tensor) -> list[_Conversation]:
        """Append a token to every turn from slot ``start`` on; take out and return those that end with it."""
        rows = self._slots[start : start + len(logits)]
        if self._temperature > 0:
            # Inverse transform sampling of the whole distribution: what is sampled is what the loss is computed on.
            sums = torch.softmax(logits / self._temperature, dim=-1).cumsum(-1)
            points = torch.tensor([[one.random.random()] for one in rows], dtype=sums.dtype, device=sums.device)
            tokens = torch.searchsorted(sums, points * sums[:, -1:], right=True).clamp(max=sums.shape[1] - 1)[:, 0]
        else:
            tokens = logits.argmax(-1)
        ended = []
        for one, token in zip(rows, tokens.tolist(), strict=True):
            one.turn.append(token)
            one.fresh.append(token)
            if token in self._engine.ends or len(one.turn) >= one.limit:
                ended.append(one)
        for one in ended:
            self._leave(one)
        return ended

    def _enter(self, one: _Conversation) -> None:
        self._move(one, self._decoding)
        self._decoding += 1

    def _leave(self, one: _Conversation) -> None:
        self._decoding -= 1
        self._move(one, self._decoding)

    def _move(self, one: _Conversation, slot: int) -> None:
        """Exchange a conversation's slot with another's."""
        old = self._slot_of[one.row]
        other = self._slots[slot]
        self._cache.swap(old, slot, max(one.cached, other.cached))
        self._slots[old], self._slots[slot] = other, one
        self._slot_of[other.row], self._slot_of[one.row] = old, slot


def _passes(
    back: Sequence[_Conversation],
) -> Iterator[tuple[list[_Conversation], list[list[_Conversation]]]]:
    """Groups for one forward pass each, with the conversations that begin exactly like one of them."""
    twins: dict[tuple[int, ...], list[_Conversation]] = {}
    firsts = []
    for one in back:
        key = tuple(one.fresh) if not one.cached else (-1 - one.row,)
        if key not in twins:
            firsts.append(one)
            twins[key] = []
        else:
            twins[key].append(one)
    copies = list(twins.values())
    start = width = 0
    for end, one in enumerate(firsts):
        width = max(width, len(one.fresh))
        if end > start and width * (end + 1 - start) > PREFILL_TOKENS:
            yield firsts[start:end], copies[start:end]
            start, width = end, len(one.fresh)
    yield firsts[start:], copies[start:]


def keeps_tokens(model: Any) -> bool:
    """Whether every layer of a model is attention over keys and values per token, which a ``SlotCache`` can hold."""
    return set(_mask_kinds(model)) <= PER_TOKEN


def _cache_parameter(model: Any) -> str:
    """What this release of transformers calls the cache in ``forward``."""
    parameters = inspect.signature(causal_lm(model).forward).parameters
    return 'cache' if 'cache' in parameters else 'past_key_values'


def _mask_kinds(model: Any) -> dict[str, int]:
    """Kinds of attention in the model's layers, with their window (0: everything before)."""
    config = causal_lm(model).config.get_text_config()
    kinds = dict.fromkeys(getattr(config, 'layer_types', None) or ('full_attention',), 0)
    if 'sliding_attention' in kinds:
        kinds['sliding_attention'] = config.sliding_window
    return kinds
