"""What this machine can compute on: device and precision are chosen here and nowhere else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import torch


@dataclass(frozen=True)
class Hardware:
    """The device a run uses and the precision it trains in."""

    device: Literal['cpu', 'cuda', 'mps']
    precision: Literal['float32', 'float16', 'bfloat16']
    name: str

    @property
    def dtype(self) -> torch.dtype:
        """The type the base weights are loaded in; float16 is for autocast only, its weights stay float32."""
        return torch.bfloat16 if self.precision == 'bfloat16' else torch.float32


def detect() -> Hardware:
    """Look at what is there: a CUDA GPU with bf16, one with fp16 only, Apple's, or the CPU.

    Of several GPUs each process of a run gets its own.
    """
    if torch.cuda.is_available():
        place = int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()
        torch.cuda.set_device(place)
        bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        return Hardware('cuda', 'bfloat16' if bf16 else 'float16', torch.cuda.get_device_name(place))
    if torch.backends.mps.is_available():
        return Hardware('mps', 'float32', 'Apple GPU')
    return Hardware('cpu', 'float32', f'CPU, {os.cpu_count()} cores')
