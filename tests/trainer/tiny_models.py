"""Tiny models with random weights that carry a family's special tokens and chat template, made on the spot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True)
class Family:
    """What a tokenizer of a family has: its special tokens, the one that ends, and others it knows whole."""

    special: tuple[str, ...]
    eos: str
    pad: str
    bos: str | None = None
    whole: tuple[str, ...] = ()


QWEN = Family(
    ('<|endoftext|>', '<|im_start|>', '<|im_end|>'),
    '<|im_end|>',
    '<|endoftext|>',
    whole=('<think>', '</think>', '<tool_call>', '</tool_call>', '<tool_response>', '</tool_response>'),
)
LLAMA = Family(
    (
        '<|begin_of_text|>', '<|end_of_text|>', '<|start_header_id|>', '<|end_header_id|>', '<|eom_id|>', '<|eot_id|>',
        '<|finetune_right_pad_id|>',
    ),
    '<|eot_id|>', '<|finetune_right_pad_id|>', '<|begin_of_text|>',
)  # fmt: skip
GEMMA = Family(('<pad>', '<eos>', '<bos>', '<start_of_turn>', '<end_of_turn>'), '<eos>', '<pad>', '<bos>')


def tokenizer(family: Family, chat_template: str | None) -> PreTrainedTokenizerFast:
    """A tokenizer of bytes with a family's special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(text, special=True) for text in family.special])
    made.add_tokens([AddedToken(text, special=False) for text in family.whole])
    names: dict[str, Any] = {'eos_token': family.eos, 'pad_token': family.pad, 'bos_token': family.bos}
    fast = PreTrainedTokenizerFast(tokenizer_object=made, **names)
    fast.chat_template = chat_template
    return fast


def save_model(folder: Path, family: Family, chat_template: str | None, *, kind: str = 'qwen3') -> Path:
    """Write a whole model folder of about 100,000 random weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    tokens = tokenizer(family, chat_template)
    tokens.save_pretrained(folder)
    config = AutoConfig.for_model(
        kind,
        vocab_size=len(tokens),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=tokens.bos_token_id,
        eos_token_id=tokens.eos_token_id,
        pad_token_id=tokens.pad_token_id,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config = GenerationConfig(eos_token_id=tokens.eos_token_id, pad_token_id=tokens.pad_token_id)
    model.save_pretrained(folder)
    return folder
