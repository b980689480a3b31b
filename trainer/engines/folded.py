"""Adapters folded into the weights while a small model decodes: one product a layer where the adapter makes three.

Nothing of the model is changed: each layer gets another way through for the time of a forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from peft.tuners.lora import Linear
from torch.nn.functional import linear

from trainer.engines.policy import SMALL


class Folded:
    """A model's LoRA layers as plain ones, with the weights and the active adapters of the moment it is made.

    Only for small models in single precision, where folding rounds no more than the product itself; for others it does
    nothing.
    """

    def __init__(self, model: Any) -> None:
        small = model.num_parameters() < SMALL
        layers = [layer for layer in model.modules() if isinstance(layer, Linear)] if small else []
        with torch.no_grad():
            self._ways = [(vars(layer), _way(layer)) for layer in layers if _is_plain(layer)]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Compute with the folded weights."""
        for attributes, way in self._ways:
            attributes['forward'] = way
        try:
            yield
        finally:
            for attributes, _ in self._ways:
                del attributes['forward']


def _is_plain(layer: Linear) -> bool:
    """Whether a layer is a linear one with nothing but low-rank products beside it."""
    weights = [*layer.get_base_layer().parameters(), *layer.lora_A.parameters(), *layer.lora_B.parameters()]
    return (
        type(layer.get_base_layer()) is torch.nn.Linear
        and not layer.merged
        and not layer.lora_variant
        and not any(layer.lora_bias.values())
        and all(weight.dtype == torch.float32 for weight in weights)
    )


def _way(layer: Linear) -> Callable[[torch.Tensor], torch.Tensor]:
    base = layer.get_base_layer()
    weight = base.weight
    if not layer.disable_adapters:
        for name in layer.active_adapters:
            if name in layer.lora_A:
                weight = weight + layer.get_delta_weight(name)
    return partial(linear, weight=weight, bias=base.bias)
