"""Loading what a run trains: base weights, tokenizer, and a LoRA adapter on every linear layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from trainer.config import Plan
from trainer.errors import ConfigError, FieldError
from trainer.hardware import Hardware
from trainer.models import ModelInfo


def load_tokenizer(model: ModelInfo) -> Any:
    """The tokenizer of a model, padding ready. Raises ``ConfigError`` where it cannot be had."""
    tokenizer = _load(AutoTokenizer, model)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_model(model: ModelInfo, hardware: Hardware, *, adapter: Path | None = None) -> Any:
    """The base model on its device, with a trained adapter over it where one is given. Raises ``ConfigError``."""
    disable_progress_bar()  # a log is no terminal
    loaded = _load(AutoModelForCausalLM, model, dtype=hardware.dtype).to(hardware.device)
    if adapter is not None:
        if not (adapter / 'adapter_config.json').is_file():
            message = f'{adapter} holds no adapter_config.json'
            raise ConfigError(message, [FieldError(loc='adapter', msg=message)])
        loaded = PeftModel.from_pretrained(loaded, adapter)
    return loaded.eval()


def lora(plan: Plan) -> LoraConfig:
    """A LoRA configuration on all linear layers but the head (arXiv 2106.09685)."""
    return LoraConfig(
        r=plan.lora_rank,
        lora_alpha=plan.lora_alpha,
        lora_dropout=0.0,
        bias='none',
        target_modules='all-linear',
        task_type='CAUSAL_LM',
    )


def _load(kind: Any, model: ModelInfo, **options: Any) -> Any:
    try:
        return kind.from_pretrained(model.source, **options)
    except (OSError, ValueError) as error:
        message = f'{model.title} could not be loaded: {str(error).splitlines()[0]}'
        hint = 'Download the model first, or choose a local folder or the starter model.'
        raise ConfigError(message, [FieldError(loc='model', msg=message)], hint=hint) from None
