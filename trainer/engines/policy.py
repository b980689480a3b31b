"""What engines that decode in the training process share: how the model is held while it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

SMALL: Final = 50_000_000
"""Parameters below which more threads do not speed up decoding."""


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Hold a model as decoding needs it: no dropout, no gradients, one thread where it is small."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), few_threads(model):
            yield
    finally:
        model.train(training)


@contextmanager
def few_threads(model: Any) -> Iterator[None]:
    """One thread while a small model decodes on the CPU.

    A decoding step is hundreds of tiny operations, each ended by a barrier of all threads. Beside sandboxes and a
    browser one of them is always descheduled: measured on two busy cores, two threads were 7 to 16 times slower.
    """
    threads = torch.get_num_threads()
    if model.device.type == 'cpu' and model.num_parameters() < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def causal_lm(model: Any) -> Any:
    """The transformers model below a PEFT wrapper."""
    return model.get_base_model() if hasattr(model, 'get_base_model') else model


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Ids that end a turn: the tokenizer's end token and those of the model's generation config."""
    configured = model.generation_config.eos_token_id
    listed = configured if isinstance(configured, list) else [configured]
    return frozenset(token for token in [tokenizer.eos_token_id, *listed] if token is not None)
