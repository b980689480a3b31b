"""How a model behaves, in numbers that another process can compare: checksums of weights, logits on token sequences."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final

import torch

from trainer.engines.policy import causal_lm, evaluating
from trainer.policy import checksum
from trainer.proof import Probe
from trainer.rollout.chat import Chat
from trainer.task import TaskFile

PROBES: Final = 4
"""Tasks whose prompts are looked at."""
SAID: Final = 16
"""Tokens the model goes on by itself after a prompt, the likeliest each; they are compared, with as many before."""
TOP: Final = 8
"""Tokens kept of each position: the likeliest ones."""


def base_checksum(model: Any) -> str:
    """sha256 over names, types, shapes and bytes of the base model's parameters, with or without an adapter on it."""
    return checksum(_base_parameters(model))


def probes(model: Any, chat: Chat, tasks: Sequence[TaskFile]) -> tuple[Probe, ...]:
    """What a model says of the prompts of some tasks, and of what it would answer itself."""
    found = []
    with evaluating(model):
        for task in tasks[:PROBES]:
            ids = chat.prompt_ids(task.task_spec.prompt)
            for _ in range(SAID):
                ids.append(int(last_logits(model, ids, 1)[0].argmax()))
            values, tokens = last_logits(model, ids, 2 * SAID).topk(TOP)
            found.append(
                Probe(
                    task=task.title or task.id,
                    ids=tuple(ids),
                    top=tuple(map(tuple, tokens.tolist())),
                    logits=tuple(map(tuple, values.tolist())),
                )
            )
    return tuple(found)


def difference(model: Any, probe: Probe) -> float:
    """The largest difference of any logit kept in a probe; infinite where one is not a number."""
    with evaluating(model):
        now = last_logits(model, probe.ids, len(probe.top))
    kept = now.gather(1, torch.tensor(probe.top, dtype=torch.long))
    off = float((kept - torch.tensor(probe.logits)).abs().max())
    return off if off == off else float('inf')


def last_logits(model: Any, ids: Sequence[int], count: int) -> torch.Tensor:
    """Logits after each of the last ``count`` tokens, one forward pass without a cache: float32 [count, words]."""
    options: dict[str, Any] = {'use_cache': False}
    if 'logits_to_keep' in inspect.signature(causal_lm(model).forward).parameters:
        options['logits_to_keep'] = count
    output = model(input_ids=torch.tensor([list(ids)], device=model.device), **options)
    logits: torch.Tensor = output.logits[0, -count:]
    return logits.float().cpu()


def _base_parameters(model: Any) -> list[tuple[str, torch.Tensor]]:
    """Parameters by the names they have without PEFT; the adapter's own are left out."""
    return [
        (name.removeprefix('base_model.model.').replace('.base_layer.', '.'), tensor)
        for name, tensor in model.named_parameters()
        if '.lora_' not in name
    ]
