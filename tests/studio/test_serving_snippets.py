"""What is given to copy: every name and path in one piece, whatever it holds, and options that fit the adapter."""

from __future__ import annotations

import ast
import json
import shlex
from pathlib import Path

import pytest

from studio.adapters import snippets

NASTY = 'it\'s $(rm -rf ~) "v2"; `x` задача'


def adapter(folder: Path, *, rank: int = 16, template: str = '<tool_call>\n{"name"') -> Path:
    folder.mkdir(parents=True)
    (folder / 'adapter_config.json').write_text(json.dumps({'r': rank}))
    (folder / 'chat_template.jinja').write_text(template)
    return folder


def test_names_and_paths_are_quoted(tmp_path: Path) -> None:
    folder = adapter(tmp_path / NASTY)
    words = shlex.split(snippets.vllm_lora('starter', folder, NASTY).text)
    assert words[:2] == ['vllm', 'serve']
    assert words[words.index('--lora-modules') + 1] == f'it-s-rm-rf-v2-x={folder}'
    assert words[words.index('--chat-template') + 1] == str(folder / 'chat_template.jinja')
    assert words[words.index('--tool-call-parser') + 1] == 'hermes'
    assert shlex.split(snippets.vllm_merged(folder, NASTY).text)[2] == str(folder)
    for snippet in snippets.gguf(folder, NASTY)[:2]:
        words = shlex.split(snippet.text)
        assert str(folder) in words
        assert 'it-s-rm-rf-v2-x-f16.gguf' in words
    assert str(folder) in shlex.split(snippets.gguf_lora('unsloth/Qwen3-0.6B', folder, NASTY).text)
    code = snippets.python_peft('unsloth/Qwen3-0.6B', folder).text
    values = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    assert {str(folder), 'unsloth/Qwen3-0.6B'} <= set(values)


@pytest.mark.parametrize(('rank', 'expected'), [(4, '8'), (16, '16'), (24, '32'), (600, '600')])
def test_the_rank_is_one_that_vllm_takes(tmp_path: Path, rank: int, expected: str) -> None:
    words = shlex.split(snippets.vllm_lora('starter', adapter(tmp_path / 'a', rank=rank), 'a').text)
    assert words[words.index('--max-lora-rank') + 1] == expected


@pytest.mark.parametrize(
    ('template', 'parser'),
    [
        ('<tool_call>\n<function=ls>', 'qwen3_coder'),
        ('<tool_call>\n{"name"', 'hermes'),
        ('{"name": "x", "parameters": {}}', 'llama3_json'),
        ('```tool_call\n', ''),
    ],
)
def test_the_parser_fits_the_template(tmp_path: Path, template: str, parser: str) -> None:
    folder = adapter(tmp_path / 'a', template=template)
    assert snippets.tool_parser(folder) == parser
    snippet = snippets.vllm_lora('starter', folder, 'a')
    assert ('--enable-auto-tool-choice' in snippet.text) == bool(parser)
    assert bool(snippet.note) != bool(parser)
