"""A key-value cache of many conversations of different lengths, each in a slot of its own.

Slots at the front are those that take part in a forward pass; a conversation that waits for its tools keeps its slot
behind them, so that nothing that was computed once is computed again.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from transformers.cache_utils import Cache

GROWTH: Final = 128
"""Tokens by which slots grow."""

Layer = tuple[torch.Tensor, torch.Tensor]
"""Keys and values of a layer: [slots, heads, tokens + 1, head size]; the last token is where padding is written."""


class SlotCache(Cache):  # type: ignore[misc]
    """Cache of ``slots`` conversations. ``enter`` says where the tokens of the next forward pass belong."""

    def __init__(self, slots: int) -> None:
        super().__init__(layers=[])
        self.slots = slots
        self._tensors: list[Layer] = []
        self._capacity = 0
        self._rows = slice(0, 0)
        self._index = torch.zeros(0, dtype=torch.long)
        self._places = torch.zeros(0, dtype=torch.long)
        self._seen = 0

    def enter(self, start: int, places: torch.Tensor, seen: int) -> None:
        """Before a forward pass over slots from ``start`` on.

        ``places`` [rows, tokens] is where each new token is written, -1 for padding; the pass sees ``seen`` places.
        """
        if seen > self._capacity:
            self._grow(-(-seen // GROWTH) * GROWTH)
        rows = places.shape[0]
        self._rows = slice(start, start + rows)
        self._index = torch.arange(start, start + rows, device=places.device)[:, None]
        self._places = torch.where(places < 0, self._capacity, places)
        self._seen = seen

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new keys and values [rows, heads, tokens, size]; return all that the pass sees."""
        if layer_idx == len(self._tensors):
            self._tensors.append(self._new(key_states, value_states))
        found = []
        for stored, new in zip(self._tensors[layer_idx], (key_states, value_states), strict=True):
            stored[self._index, :, self._places] = new.transpose(1, 2)
            found.append(stored[self._rows, :, : self._seen])
        return found[0], found[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens that the pass sees."""
        return self._seen

    def swap(self, one: int, other: int, length: int) -> None:
        """Exchange two slots, of which no more than ``length`` tokens are used."""
        if one == other:
            return
        for stored in self._each():
            kept = stored[one, :, :length].clone()
            stored[one, :, :length] = stored[other, :, :length]
            stored[other, :, :length] = kept

    def copy(self, sources: list[int], targets: list[int], length: int) -> None:
        """Copy the first ``length`` tokens of slots into others."""
        for stored in self._each():
            stored[targets, :, :length] = stored[sources, :, :length]

    def _each(self) -> list[torch.Tensor]:
        return [stored for layer in self._tensors for stored in layer]

    def _new(self, keys: torch.Tensor, values: torch.Tensor) -> Layer:
        def empty(like: torch.Tensor) -> torch.Tensor:
            return like.new_zeros(self.slots, like.shape[1], self._capacity + 1, like.shape[3])

        return empty(keys), empty(values)

    def _grow(self, capacity: int) -> None:
        def larger(stored: torch.Tensor) -> torch.Tensor:
            grown = stored.new_zeros(self.slots, stored.shape[1], capacity + 1, stored.shape[3])
            grown[:, :, : self._capacity] = stored[:, :, : self._capacity]
            return grown

        self._tensors = [(larger(keys), larger(values)) for keys, values in self._tensors]
        self._capacity = capacity
