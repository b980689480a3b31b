"""Which GPUs a run gets where several runs work at once: they are dealt out, so that no two share one."""

from __future__ import annotations

import os

from trainer.gpus import gpus

VISIBLE = 'CUDA_VISIBLE_DEVICES'


def gpu_share(place: int, places: int) -> dict[str, str]:
    """Environment of the run at a place (from 0) of ``places``; nothing where there is no GPU for each of them."""
    count = gpus()
    if places < 2 or count < places:
        return {}
    named = [name.strip() for name in os.environ.get(VISIBLE, '').split(',') if name.strip()]
    return {VISIBLE: ','.join((named or [str(number) for number in range(count)])[place::places])}
