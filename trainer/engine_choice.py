"""Which engine a run gets: what ``auto`` means on this machine, and why an engine that was asked for cannot run here.

Part of the light half: it looks at files and asks the driver of the GPU, and imports nothing of the training stack.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from trainer.models import ModelInfo

Engine = Literal['auto', 'plain', 'continuous_batching', 'vllm']

PROGRAM: Final = 'RLVR_VLLM'
"""Environment variable: the ``vllm`` program of another Python environment."""
ADDRESS: Final = 'RLVR_VLLM_URL'
"""Environment variable: a vLLM server that runs already and sees the same run folders."""
BF16_CAPABILITY: Final = 8.0
"""CUDA compute capability from which a GPU computes in bf16."""
PER_TOKEN: Final = frozenset({'full_attention', 'sliding_attention'})
"""Kinds of layers that keep keys and values per token."""
DRIVER_S: Final = 10.0


@dataclass(frozen=True)
class Vllm:
    """How vLLM is used here: inside the training process, as a server we start, or as one that runs already."""

    mode: Literal['colocated', 'server', 'attached']
    program: str = ''
    address: str = ''


def choose(engine: Engine, model: ModelInfo) -> Engine:
    """The engine that a run gets; ``auto`` becomes what suits this machine and model."""
    if engine != 'auto':
        return engine
    return 'vllm' if has_bf16() and not obstacle('vllm', model) else 'plain'


def obstacle(engine: Engine, model: ModelInfo) -> str:
    """Why an engine cannot run a model on this machine and what to do, or empty."""
    if engine == 'continuous_batching' and (others := sorted(_layers(model) - PER_TOKEN)):
        return (
            f'continuous_batching cannot run {model.title}: its layers of the kind {others[0]} do not keep keys and '
            'values per token. Choose auto'
        )
    if engine != 'vllm':
        return ''
    if model.gguf:
        return f'vllm cannot run {model.title}: its weights come as a GGUF file. Choose auto'
    found = find_vllm()
    return found if isinstance(found, str) else ''


def _layers(model: ModelInfo) -> frozenset[str]:
    """Kinds of layers that the configuration in a model's folder names; none where it does not, or is on a hub."""
    try:
        config = json.loads((Path(model.source) / 'config.json').read_bytes())
        return frozenset(map(str, config.get('text_config', config).get('layer_types') or ()))
    except (OSError, ValueError, AttributeError, TypeError):
        return frozenset()  # what is wrong with the folder is said when the model is loaded


def find_vllm() -> Vllm | str:
    """The vLLM of this machine, or why there is none. What the environment variables name comes first."""
    if address := os.environ.get(ADDRESS, ''):
        if urlsplit(address).scheme in ('http', 'https') and urlsplit(address).hostname:
            return Vllm('attached', address=address.rstrip('/'))
        return f'vllm cannot run here: {ADDRESS} must be like http://host:8000, not {address}'
    if named := os.environ.get(PROGRAM, ''):
        if program := shutil.which(Path(named).expanduser()):
            return Vllm('server', program=program)
        return f'vllm cannot run here: {PROGRAM} names {named}, which is no program'
    if has_bf16() and importlib.util.find_spec('vllm') is not None:
        return Vllm('colocated')
    beside = Path(sys.executable).with_name('vllm')
    if program := shutil.which(beside) or shutil.which('vllm'):
        return Vllm('server', program=program)
    return (
        'vllm cannot run here: it was not found. Install it in an environment of its own and let '
        f'{PROGRAM} name its program `vllm`, or choose auto'
    )


def has_bf16() -> bool:
    """Whether every GPU of the machine is one of NVIDIA's that computes in bf16, and one may be used."""
    hidden = os.environ.get('CUDA_VISIBLE_DEVICES', '0') in ('', '-1')
    return not hidden and min(_capabilities(), default=0.0) >= BF16_CAPABILITY


@cache
def _capabilities() -> tuple[float, ...]:
    """Compute capability of each GPU that the driver knows."""
    program = shutil.which('nvidia-smi')
    if program is None:
        return ()
    try:
        said = subprocess.run(
            [program, '--query-gpu=compute_cap', '--format=csv,noheader'],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DRIVER_S,
            check=True,
        )
        return tuple(float(line) for line in said.stdout.split())
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()  # a driver that does not answer is no GPU to train on
