"""Adapters with weights of their own, made on the spot: nothing is trained."""

from __future__ import annotations

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model

from trainer.hardware import Hardware
from trainer.models import STARTER
from trainer.policy import load_model, load_tokenizer, save_weights, without_warnings


def changed_adapter(folder: Path) -> Path:
    """Write an adapter of the starter model that changes what it says, with its tokenizer."""
    config = LoraConfig(r=4, lora_alpha=8, target_modules='all-linear', task_type='CAUSAL_LM')
    with without_warnings():
        policy = get_peft_model(load_model(STARTER, Hardware('cpu', 'float32', 'CPU')), config)
    torch.manual_seed(3)
    for name, weight in policy.named_parameters():
        if 'lora_B' in name:
            torch.nn.init.normal_(weight, std=0.4)
    save_weights(policy, folder)
    load_tokenizer(STARTER).save_pretrained(folder)
    return folder
