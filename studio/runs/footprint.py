"""How much memory training a model needs, reckoned from its layers; an estimate, and said to be one.

Leaves out what depends on libraries and drivers: a CUDA context, fragmentation, what an inference server reserves.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import Field

from trainer.config import Plan
from trainer.models import ModelInfo
from trainer.validation import Document

PROMPT_TOKENS: Final = 400
"""Instructions, tool descriptions and the task before the first completion token."""
MARGIN: Final = 0.35
"""Even at a known length, real runs lie within this share of the reckoning."""
LORA_BYTES: Final = 16
"""Weight, gradient and two moments of an adapter's parameter, in float32."""
TILE: Final = (4096, 32_768)
"""Tokens and words of the logits that are worked out at once: the loss goes over such tiles, never over all of them."""
TILES: Final = {False: 9, True: 1}
"""How many of them the backward pass of the loss holds, on a CPU, and on a GPU, which works in place."""


class Shape(NamedTuple):
    """The layers of a decoder."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int


SHAPES: Final = {
    'unsloth/Qwen3-0.6B': Shape(28, 1024, 16, 8, 128, 3072, 151_936),
    'unsloth/Qwen3-1.7B': Shape(28, 2048, 16, 8, 128, 6144, 151_936),
    'unsloth/Qwen3-4B-Instruct-2507': Shape(36, 2560, 32, 8, 128, 9728, 151_936),
    'unsloth/Qwen3-8B': Shape(36, 4096, 32, 8, 128, 12_288, 151_936),
    'unsloth/Llama-3.2-1B-Instruct': Shape(16, 2048, 32, 8, 64, 8192, 128_256),
    'unsloth/Llama-3.2-3B-Instruct': Shape(28, 3072, 24, 8, 128, 8192, 128_256),
    'unsloth/gemma-3-1b-it': Shape(26, 1152, 4, 1, 256, 6912, 262_144),
    'smollm2': Shape(30, 576, 9, 3, 64, 1536, 49_152),
}
"""Shapes of models that may not be on this machine yet."""


class Footprint(Document):
    """Bytes of memory while training, by what holds them, with episodes that use half of their tokens.

    ``longest``: how much longer episodes are that use all of them.
    """

    weights: int = Field(description='The base model.')
    optimiser: int = Field(description='The adapter with its gradients and moments.')
    activations: int = Field(description='What the backward pass of one batch holds.')
    cache: int = Field(description='Keys and values of the episodes that are generated side by side.')
    batch: int = Field(description='Rollouts of one pass.')
    longest: float

    @property
    def total(self) -> int:
        """All of it; update and generation take turns, so the larger of the two counts."""
        return self.weights + self.optimiser + max(self.activations, self.cache)

    @property
    def range(self) -> tuple[int, int]:
        """Between what the need should lie, from short episodes to full ones."""
        fixed, moving = self.weights + self.optimiser, max(self.activations, self.cache)
        return round(fixed + moving * (1 - MARGIN) / self.longest), round(fixed + moving * (1 + MARGIN) * self.longest)


def weight_bytes(model: ModelInfo, *, gpu: bool) -> int | None:
    """Bytes of the weights in memory: two a parameter on a GPU, four on a CPU."""
    parameters = _parameters(model)
    return None if parameters is None else parameters * (2 if gpu else 4)


def footprint(model: ModelInfo, plan: Plan, *, gpu: bool) -> Footprint | None:
    """What a run of this plan needs on each device; ``None`` where the model's layers are not known."""
    shape, weights = shape_of(model), weight_bytes(model, gpu=gpu)
    if shape is None or weights is None:
        return None
    width = 2 if gpu else 4
    tokens = PROMPT_TOKENS + plan.max_completion_length // 2
    batch = plan.batch_size * tokens
    layer = layer_values(shape, tokens)
    kept = shape.layers * layer
    if model.checkpoints_layers(gpu=gpu):  # one layer at a time is worked out again
        kept = shape.layers * shape.hidden + layer
    logits = min(batch, TILE[0]) * min(shape.vocab, TILE[1]) * TILES[gpu]
    together = plan.rollouts_per_step // plan.processes
    return Footprint(
        weights=weights,
        optimiser=_adapter_parameters(shape, plan.lora_rank) * LORA_BYTES,
        activations=(batch * kept + logits) * width,
        cache=together * tokens * 2 * shape.layers * shape.kv_heads * shape.head_dim * width,
        batch=plan.batch_size,
        longest=(PROMPT_TOKENS + plan.max_completion_length) / tokens,
    )


def layer_values(shape: Shape, tokens: int) -> int:
    """Values that one layer with adapters holds for its backward pass, for each token of episodes of so many.

    Four each as wide as the model (both norms: input and output), as its queries (queries, repeated keys and values,
    the answer of attention) and as its inner layer (gate, its activation, up, their product); queries and keys once
    more before their own norms; and a row of the mask, as long as the episode.
    """
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return 4 * (shape.hidden + queries + shape.ffn) + queries + keys + tokens


def shape_of(model: ModelInfo) -> Shape | None:
    """The layers of a model: known by name, or read from its folder."""
    if (known := SHAPES.get(model.id)) is not None:
        return known
    path = Path(model.source) / 'config.json'
    if not path.is_absolute() or not path.is_file():
        return None
    try:
        config = json.loads(path.read_text(encoding='utf-8'))
        config = config.get('text_config', config)
        hidden, heads = int(config['hidden_size']), int(config['num_attention_heads'])
        return Shape(
            layers=int(config['num_hidden_layers']),
            hidden=hidden,
            heads=heads,
            kv_heads=int(config.get('num_key_value_heads') or heads),
            head_dim=int(config.get('head_dim') or hidden // heads),
            ffn=int(config['intermediate_size']),
            vocab=int(config['vocab_size']),
        )
    except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return None  # another kind of model: nothing is claimed of it


def _parameters(model: ModelInfo) -> int | None:
    shape = shape_of(model)
    if model.parameters is not None or shape is None:
        return model.parameters
    attention = 2 * shape.hidden * (shape.heads + shape.kv_heads) * shape.head_dim
    return shape.layers * (attention + 3 * shape.hidden * shape.ffn) + shape.vocab * shape.hidden


def _adapter_parameters(shape: Shape, rank: int) -> int:
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = 2 * (shape.hidden + queries) + 2 * (shape.hidden + keys)
    return shape.layers * rank * (attention + 3 * (shape.hidden + shape.ffn))
