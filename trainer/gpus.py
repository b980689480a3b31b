"""How many GPUs training may use here, told without the training stack: each gets a process of its own."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import Final

NVIDIA: Final = Path('/proc/driver/nvidia/gpus')


def gpus() -> int:
    """Count NVIDIA's GPUs as far as they are lent to this program; none where the training stack is for CPUs."""
    if metadata.version('torch').endswith('+cpu'):
        return 0
    there = len(list(NVIDIA.iterdir())) if NVIDIA.is_dir() else 0
    visible = os.environ.get('CUDA_VISIBLE_DEVICES')
    if visible is None:
        return there
    names = [name.strip() for name in visible.split(',')]
    return len([name for name in names if name and name != '-1'])
