"""Loading what a run trains: base weights, tokenizer, and a LoRA adapter on every linear layer."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from accelerate.utils import extract_model_from_parallel
from huggingface_hub import constants, get_session
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils.logging import disable_progress_bar

from trainer.chat_format import prepare
from trainer.config import Plan
from trainer.errors import ConfigError, FieldError
from trainer.hardware import Hardware
from trainer.models import ModelInfo

HUB_S: Final = 5.0


def load_tokenizer(model: ModelInfo, *, report: Callable[[str], None] | None = None) -> Any:
    """The tokenizer of a model, padding ready, with the chat template that training uses.

    ``report`` is told what was done with the template, where anything was. Raises ``ConfigError`` where the tokenizer
    cannot be had, ``GenerationError`` where it cannot carry tool calls.
    """
    tokenizer = read_tokenizer(model)
    found = prepare(tokenizer)
    if report is not None and found.note:
        report(found.note)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def read_tokenizer(model: ModelInfo) -> Any:
    """The tokenizer as it is published. Raises ``ConfigError`` where it cannot be had."""
    return _load(AutoTokenizer, model)


def load_model(model: ModelInfo, hardware: Hardware, *, adapter: Path | None = None) -> Any:
    """The base model on its device, with a trained adapter over it where one is given. Raises ``ConfigError``."""
    disable_progress_bar()  # a log is no terminal
    options: dict[str, Any] = {'dtype': hardware.dtype}
    if model.gguf:
        options['quantization_config'] = GgufConfig(dequantize=True)  # adapters train on dense weights
    loaded = _load(AutoModelForCausalLM, model, **options).to(hardware.device)
    if adapter is not None:
        if not (adapter / 'adapter_config.json').is_file():
            message = f'{adapter} holds no adapter_config.json'
            raise ConfigError(message, [FieldError(loc='adapter', msg=message)])
        loaded = _with_trained(loaded, adapter)
    return loaded.eval()


def _with_trained(base: Any, adapter: Path) -> Any:
    try:
        with without_warnings():
            return PeftModel.from_pretrained(base, adapter)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        # Files of others, once more: damage, another base, a newer kind of adapter.
        said = str(error).strip().splitlines() or [type(error).__name__]
        message = f'The adapter in {adapter} could not be loaded: {said[0][:300]}'
        hint = 'It is damaged, or was trained on another base model.'
        raise ConfigError(message, [FieldError(loc='adapter', msg=message)], hint=hint) from error


def with_adapter(base: Any, plan: Plan, adapter: Path | None = None) -> Any:
    """The base model with a LoRA adapter to be trained: a new one, which changes nothing yet, or a trained one."""
    with without_warnings():
        if adapter is None:
            return get_peft_model(base, lora(plan))
        return PeftModel.from_pretrained(base, adapter, is_trainable=True)


def save_weights(policy: Any, folder: Path) -> None:
    """Write the adapter of a policy in PEFT layout."""
    with without_warnings():
        policy.save_pretrained(folder, save_embedding_layers=False)


def load_weights(policy: Any, folder: Path) -> None:
    """Give a policy the weights of an adapter of its own shape."""
    set_peft_model_state_dict(policy, load_file(folder / 'adapter_model.safetensors'))


def adapter_checksum(policy: Any) -> str:
    """sha256 over names, types, shapes and bytes of a policy's adapter, wherever it is."""
    with without_warnings():
        return checksum(get_peft_model_state_dict(policy, save_embedding_layers=False).items())


def checksum(tensors: Iterable[tuple[str, torch.Tensor]]) -> str:
    """sha256 over names, types, shapes and bytes of tensors, in the order of their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors):
        digest.update(f'{name} {tensor.dtype} {tuple(tensor.shape)}\n'.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def without_autocast(policy: Any) -> None:
    """Give a policy back the forward pass that training wrapped: what is measured from here on is what PEFT loads."""
    extract_model_from_parallel(policy, keep_fp32_wrapper=False)


@contextmanager
def paused_autocast(policy: Any) -> Iterator[None]:
    """Likewise for what is measured between two steps of training, which then goes on with its own forward pass."""
    kept = {name: policy.__dict__[name] for name in ('forward', '_original_forward') if name in policy.__dict__}
    without_autocast(policy)
    try:
        yield
    finally:
        policy.__dict__.update(kept)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Leave out what libraries warn of at every run: names of each other's that are deprecated, and experiments."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)
        warnings.simplefilter('ignore', FutureWarning)
        yield


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


@cache
def hub_answers() -> bool:
    """Whether the model hub answers: asked once, for seconds; its client alone would try for a minute."""
    try:
        get_session().head(constants.ENDPOINT, timeout=HUB_S)
    except Exception:  # of whichever client is below: no answer is no answer
        return False
    return True


def _load(kind: Any, model: ModelInfo, **options: Any) -> Any:
    if model.gguf:
        options['gguf_file'] = model.gguf
    alone = model.kind in ('eligible', 'hub') and not hub_answers()
    if alone:
        options['local_files_only'] = True
    try:
        return kind.from_pretrained(model.source, **options)
    except Exception as error:
        # A folder of others: what is wrong with it shows in as many kinds of errors as there are libraries below.
        said = str(error).strip().splitlines() or [type(error).__name__]
        message = f'{model.title} could not be loaded: {said[0][:300]}'
        if alone and isinstance(error, OSError):
            message = f'{model.title} is not on this machine, and the model hub does not answer'
        hint = 'Download the model first, or choose a local folder or the starter model.'
        if isinstance(error, ImportError):
            hint = 'Install what is missing beside the studio, then start again.'
        raise ConfigError(message, [FieldError(loc='model', msg=message)], hint=hint) from error
