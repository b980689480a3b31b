"""What a layer holds for its backward pass, reckoned for the launch page, against layers that really run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from studio.runs.footprint import Shape, layer_values
from trainer.policy import without_warnings

FAMILIES = {'Qwen3': (Qwen3Config, Qwen3ForCausalLM), 'Llama': (LlamaConfig, LlamaForCausalLM)}
FAMILIES['Gemma 3'] = (Gemma3TextConfig, Gemma3ForCausalLM)
SHAPE = Shape(layers=1, hidden=256, heads=8, kv_heads=4, head_dim=64, ffn=768, vocab=64)
TOKENS = 64


@pytest.mark.parametrize('family', FAMILIES)
def test_what_a_layer_holds_is_reckoned_right(family: str) -> None:
    """One layer more holds so many values more, within a seventh: Llama has no norms of its queries and keys."""
    more, less = (held(family, layers) for layers in (2, 1))
    assert (more - less) / (2 * TOKENS) == pytest.approx(layer_values(SHAPE, TOKENS), rel=0.15)


def held(family: str, layers: int) -> int:
    """Values that the backward pass of a padded batch of two needs, parameters left out."""
    kind, build = FAMILIES[family]
    config: Any = kind(
        num_hidden_layers=layers,
        hidden_size=SHAPE.hidden,
        num_attention_heads=SHAPE.heads,
        num_key_value_heads=SHAPE.kv_heads,
        head_dim=SHAPE.head_dim,
        intermediate_size=SHAPE.ffn,
        vocab_size=SHAPE.vocab,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    lora = LoraConfig(r=2, target_modules='all-linear', task_type='CAUSAL_LM')
    with without_warnings():
        model = get_peft_model(build(config), lora).train()
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in parameters:
            kept[place] = tensor
        return tensor

    ids = torch.randint(3, SHAPE.vocab, (2, TOKENS))
    mask = torch.ones_like(ids)
    mask[0, -5:] = 0
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=1)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) // 4
