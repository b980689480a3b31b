"""Chat templates: known by what they render, made fit for training, read back; from a tokenizer alone (case C4)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tiny_models import GEMMA, LLAMA, QWEN, Family, tokenizer
from trl import chat_template_utils as trl_templates

from trainer.chat_format import FAMILIES, ChatFormat, chat_format, prepare
from trainer.errors import GenerationError
from trainer.models import ASSETS, STARTER_FOLDER
from trainer.models import preflight as preflight_apart
from trainer.preflight import preflight
from trainer.rollout.chat import Chat

SMOLLM2 = (ASSETS / 'chat_templates' / 'smollm2_plain.jinja').read_text(encoding='utf-8')
KNOWN: dict[str, tuple[Family, str]] = {
    'Qwen3': (QWEN, trl_templates.qwen3_chat_template),
    'Qwen3 Instruct 2507': (QWEN, trl_templates.qwen3_instruct_2507_chat_template),
    'Llama 3.2': (LLAMA, trl_templates.llama3_2_chat_template),
    'Gemma 3': (GEMMA, trl_templates.gemma3_chat_template),
    'SmolLM2': (QWEN, SMOLLM2),
}
NEITHER = '{{ messages[0].content }}'
"""A template without turns."""


def variables_renamed(template: str) -> str:
    """The same program with other names in it, and a macro nobody calls."""
    changed = re.sub(r'\bmessages\b(?=\[0\])', 'messages', template)
    for name in ('ns', 'loop_messages', 'system_message'):
        changed = re.sub(rf'(?<![\w.\'"]){name}\b', f'{name}_x', changed)
    return '{%- macro nobody() %}x{% endmacro %}' + changed


EDITS = {
    'comment': lambda text: text + '{# house style #}',
    'comment_line': lambda text: text + '\n{# house style #}\n',
    'blank': lambda text: '\n' + text + '  \n\n',
    'spaces': lambda text: text.replace('{%- if', '{%-  if').replace(' %}', '   %}'),
    'renamed': variables_renamed,
}


@pytest.mark.parametrize('name', KNOWN)
def test_a_family_is_known_by_its_text(name: str) -> None:
    found = chat_format(tokenizer(*KNOWN[name]))
    assert (found.family, found.match) == (name, 'exact')


@pytest.mark.parametrize('edit', EDITS)
@pytest.mark.parametrize('name', KNOWN)
def test_a_harmless_edit_makes_no_stranger_of_it(name: str, edit: str) -> None:
    family, template = KNOWN[name]
    original, edited = tokenizer(family, template), tokenizer(family, EDITS[edit](template))
    found = chat_format(edited)
    assert (found.family, found.match in ('exact', 'same')) == (name, True)
    assert found.template == chat_format(original).template
    if found.match == 'same':
        assert name in found.note


def test_another_way_to_show_the_past_is_close_enough() -> None:
    """The prompts and calls of Qwen3, but every earlier turn of a conversation is wrapped."""
    changed = trl_templates.qwen3_chat_template.replace(
        "{{- '\\n<tool_response>\\n' }}", "{{- '\\n\\n<tool_response>\\n' }}"
    )
    assert changed != trl_templates.qwen3_chat_template
    found = chat_format(tokenizer(QWEN, changed))
    assert (found.family, found.match) == ('Qwen3', 'close')


def test_an_unknown_template_is_taken_where_a_known_parser_reads_its_calls() -> None:
    own = trl_templates.qwen3_instruct_2507_chat_template.replace('# Tools', '# What you can call')
    found = chat_format(tokenizer(QWEN, own))
    assert (found.match, found.template) == ('parsed', own)
    assert 'no known family' in found.note


@pytest.mark.parametrize(
    ('template', 'said'),
    [
        (None, 'no chat template'),
        ('', 'no chat template'),
        (NEITHER, 'cannot show tool calls'),
        ('{{ nobody.there() }}', 'cannot show tool calls'),
        ('{% for', 'cannot show tool calls'),
        (
            trl_templates.qwen3_chat_template.replace('# Tools', '# Calls').replace('<tool_call>', '<invoke>'),
            'changes earlier turns',
        ),
        (
            trl_templates.qwen3_instruct_2507_chat_template.replace('<tool_call>', '<invoke>'),
            'cannot be read back',
        ),
    ],
)
def test_what_cannot_be_trained_on_is_refused_with_what_to_do(template: str | None, said: str) -> None:
    with pytest.raises(GenerationError, match=said) as caught:
        chat_format(tokenizer(QWEN, template))
    assert caught.value.hint


@pytest.mark.parametrize('name', KNOWN)
def test_prepared_tokenizers_are_saved_as_they_are_used(name: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    prepared = tokenizer(*KNOWN[name])
    used = prepare(prepared)
    assert prepared.eos_token in ('<|im_end|>', '<|eot_id|>', '<end_of_turn>')
    prepared.save_pretrained(tmp_path)
    again = chat_format(AutoTokenizer.from_pretrained(tmp_path))
    assert again == ChatFormat('', used.template, used.response_template, 'own')


def test_calls_and_answers_follow_each_other_as_the_template_says() -> None:
    """What the model said, what its tool answered and where it goes on are, together, what the template renders."""
    for family, template in KNOWN.values():
        tokens = tokenizer(family, template)
        chat = Chat(tokens)
        prompt = chat.prompt_ids('Keep {braces} and $HOME')
        call = {'name': 'read_file', 'arguments': {'path': 'a "b".txt'}}
        said: dict[str, Any] = {
            'role': 'assistant', 'content': '', 'tool_calls': [{'type': 'function', 'function': call}],
        }  # fmt: skip
        asked = {'role': 'user', 'content': 'Keep {braces} and $HOME'}
        options: dict[str, Any] = {'tools': chat._tools, 'tokenize': True, 'return_dict': False}
        one = tokens.apply_chat_template([asked, said], **options)
        end = max(place for place, token in enumerate(one) if token == tokens.eos_token_id)
        turn = one[len(prompt) : end + 1]
        assert one[: len(prompt)] == prompt
        read = chat.parse(turn, prompt)
        assert [(item.name, item.args) for item in read.calls] == [('read_file', {'path': 'a "b".txt'})]
        answer = {'role': 'tool', 'name': 'read_file', 'content': 'text of it'}
        whole = tokens.apply_chat_template([asked, said, answer], add_generation_prompt=True, **options)
        assert prompt + turn + chat.answer_ids([('read_file', 'text of it')]) == whole


@pytest.mark.parametrize(
    ('name', 'text'),
    [
        ('Qwen3', '<tool_call>\n{"name": "run_command", "argum'),
        ('Llama 3.2', '{"name": "run_command", "parameters": {"command": '),
        ('Gemma 3', '<tool_call>\n{"name": run_command}\n</tool_call>'),
    ],
)
def test_a_broken_call_is_unreadable_in_every_family(name: str, text: str) -> None:
    """Case D1."""
    tokens = tokenizer(*KNOWN[name])
    chat = Chat(tokens)
    turn = [*tokens.encode(text, add_special_tokens=False), tokens.eos_token_id]
    read = chat.parse(turn, chat.prompt_ids('x'))
    assert read.unreadable and not read.calls


def test_families_name_what_trl_has() -> None:
    missing = [name for name in FAMILIES if not hasattr(trl_templates, f'{name}_chat_template')]
    assert not missing


def folder_of(path: Path, family: Family, template: str | None) -> str:
    path.mkdir()
    tokenizer(family, template).save_pretrained(path)
    (path / 'config.json').write_text(json.dumps({'model_type': 'qwen3'}), encoding='utf-8')
    return str(path)


def test_the_preflight_answers_from_the_tokenizer_alone(tmp_path: Path) -> None:
    """Case C4: (a) the family's own text, (b) with a harmless edit, (c) no template; none has weights."""
    template = trl_templates.qwen3_chat_template
    a = preflight(folder_of(tmp_path / 'a', QWEN, template))
    b = preflight(folder_of(tmp_path / 'b', QWEN, template + '{# house style #}'))
    c = preflight(folder_of(tmp_path / 'c', QWEN, None))
    assert (a.ok, a.family) == (True, 'Qwen3')
    assert (b.ok, b.family) == (True, 'Qwen3')
    assert 'treated as that of Qwen3' in b.note
    assert not c.ok and 'no chat template' in c.problem and 'instruct' in c.hint


def test_the_preflight_of_a_damaged_folder_says_so(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / 'd', QWEN, None)
    (tmp_path / 'd' / 'tokenizer.json').write_text('{"version": 1', encoding='utf-8')
    result = preflight(folder)
    assert not result.ok and 'could not be loaded' in result.problem
    empty = tmp_path / 'e'
    empty.mkdir()
    assert 'no config.json' in preflight(str(empty)).problem


def test_a_hub_that_does_not_answer_is_no_long_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr('trainer.policy.hub_answers', lambda: False)
    result = preflight('nobody/no-such-model')
    assert not result.ok
    assert 'is not on this machine, and the model hub does not answer' in result.problem
    assert 'Download' in result.hint


def test_the_preflight_in_a_process_of_its_own() -> None:
    """The studio asks this way: it never imports the training stack."""
    result = preflight_apart(str(STARTER_FOLDER))
    assert result.ok, result
    late = preflight_apart(str(STARTER_FOLDER), timeout_s=0.01)
    assert not late.ok and 'not read within' in late.problem
    assert 'no known model' in preflight_apart('nothing').problem
