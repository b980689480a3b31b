"""Adapters as peft writes them, made of bytes: for tests that load no training stack."""

from __future__ import annotations

import json
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG: dict[str, Any] = {
    'peft_type': 'LORA',
    'task_type': 'CAUSAL_LM',
    'base_model_name_or_path': 'unsloth/Qwen3-0.6B',
    'r': 2,
    'lora_alpha': 4,
    'target_modules': ['q_proj'],
}
LAYER = 'base_model.model.model.layers.0.self_attn.q_proj'
SHAPES = {f'{LAYER}.lora_A.weight': [2, 8], f'{LAYER}.lora_B.weight': [8, 2]}


def safetensors(shapes: Mapping[str, list[int]] = SHAPES, *, fill: bytes = b'\x01') -> bytes:
    """A whole safetensors file of float32."""
    header: dict[str, Any] = {'__metadata__': {'format': 'pt'}}
    end = 0
    for name, shape in shapes.items():
        size = 4
        for one in shape:
            size *= one
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [end, end + size]}
        end += size
    return with_header(header, fill * end)


def with_header(header: object, data: bytes = b'') -> bytes:
    """Any header before any bytes."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, 'little') + text + data


def files(**changes: bytes | None) -> dict[str, bytes]:
    """The files of a small adapter by name; ``None`` leaves one out."""
    found: dict[str, bytes | None] = {
        'adapter_config.json': json.dumps(CONFIG).encode(),
        'adapter_model.safetensors': safetensors(),
        'README.md': b'# mine\n',
    }
    found |= {name.replace('__', '.'): data for name, data in changes.items()}
    return {name: data for name, data in found.items() if data is not None}


def zipped(path: Path, entries: Mapping[str, bytes], *, links: Mapping[str, str] = {}) -> Path:
    """A zip of entries by name, and of symbolic links."""
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
        for name, target in links.items():
            info = zipfile.ZipInfo(name)
            info.create_system = 3
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, target)
    return path
