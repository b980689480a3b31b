"""How a model's conversations carry tool calls: its chat template recognised, made fit for training, and read back.

Training on tools needs a template that renders tool calls and their answers, that never changes the text of an
earlier message when a later one comes (or policy and loss would see different texts), and a parser that reads calls
back from what the model wrote. TRL knows these for families of models, by the exact text of their templates; here a
template is also known by what it renders, so that a comment, other whitespace or another way of writing the same
conversation makes no stranger of it. Needs a tokenizer, never weights.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from jinja2 import TemplateError
from trl import chat_template_utils as trl_templates

from trainer.errors import GenerationError
from trainer.models import ASSETS
from trainer.tools import TOOL_SCHEMAS

FAMILIES: Final[Mapping[str, str]] = {
    'qwen3': 'Qwen3',
    'qwen3_instruct_2507': 'Qwen3 Instruct 2507',
    'qwen2_5': 'Qwen2.5',
    'qwen3_vl': 'Qwen3-VL',
    'qwen3_5_nothink': 'Qwen3.5',
    'qwen3_5_think': 'Qwen3.5 Thinking',
    'qwen3_6': 'Qwen3.6',
    'qwen3_8': 'Qwen3.8',
    'llama3_2': 'Llama 3.2',
    'llama3_1': 'Llama 3.1',
    'glm4moe': 'GLM-4-MoE',
    'gptoss': 'gpt-oss',
    'lfm2_v2': 'LFM2',
    'lfm2_2_5': 'LFM2.5',
    'lfm2_2_5_v2': 'LFM2.5',
    'nemotron_3_nano': 'Nemotron 3 Nano',
    'nemotron_3_super': 'Nemotron 3 Super',
    'nemotron_3_ultra': 'Nemotron 3 Ultra',
    'nemotron_3_5_lightning': 'Nemotron 3.5 Lightning',
    'gemma4': 'Gemma 4',
    'gemma4_v2': 'Gemma 4',
    'gemma4_v3': 'Gemma 4',
    'gemma4_v4': 'Gemma 4',
    'gemma4_v5': 'Gemma 4',
}
"""Families whose tool calls TRL reads, by their names there."""

Match = Literal['own', 'exact', 'same', 'close', 'parsed']
"""How a template was recognised: it brings its parser; it is a family's, letter by letter; it renders all that the
family's renders; prompts and calls alone are the family's; it is no family's but a known parser reads its calls."""

_CALLS: Final[Sequence[Mapping[str, Any]]] = (
    {'name': 'run_command', 'arguments': {'command': 'printf "a {b}\\n" > x.txt && echo \'ü\' | tee y'}},
    {'name': 'write_file', 'arguments': {'path': 'a.py', 'content': 'x = {"k": [1, 2]}\nprint(x)\n'}},
)

_PLAIN_CALLS: Final[Sequence[Mapping[str, Any]]] = (
    {'name': 'run_command', 'arguments': {'command': 'ls -l'}},
    {'name': 'write_file', 'arguments': {'path': 'a.txt', 'content': 'one'}},
)
"""Calls whose arguments hold nothing that a parser could stumble over."""


@dataclass(frozen=True)
class ChatFormat:
    """What training uses for a tokenizer. ``note`` says what was done with its template, where anything was."""

    family: str
    template: str
    response_template: dict[str, Any]
    match: Match
    note: str = ''


@dataclass(frozen=True)
class _Family:
    """A template as it is published, and what training on it takes."""

    name: str
    published: str
    template: str
    response_template: dict[str, Any]
    tools: bool = True
    """Whether the published template itself carries tools."""


def chat_format(tokenizer: Any) -> ChatFormat:
    """Recognise a tokenizer's chat template. Raises ``GenerationError`` that says what is missing."""
    own = _own_template(tokenizer)
    response = getattr(tokenizer, 'response_template', None)
    if response is not None and _fit(tokenizer, own, response):
        return ChatFormat('', own, response, 'own')
    found = _family_of(tokenizer, own)
    if found is not None:
        family, match = found
        if _fit(tokenizer, family.template, family.response_template):
            return ChatFormat(family.name, family.template, family.response_template, match, _note(family, match, own))
    return _by_parser(tokenizer, own)


def prepare(tokenizer: Any) -> ChatFormat:
    """Give the tokenizer the template and the parser that training uses, and the end of a turn as its end token."""
    found = chat_format(tokenizer)
    tokenizer.chat_template = found.template
    tokenizer.response_template = found.response_template
    end = _turn_end(tokenizer)
    if end is not None and end != tokenizer.eos_token_id:
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)
    return found


def _own_template(tokenizer: Any) -> str:
    own = tokenizer.chat_template
    if isinstance(own, dict):  # named variants
        own = own.get('tool_use') or own.get('default')
    if not own:
        raise GenerationError(
            'The tokenizer has no chat template',
            hint='Base models cannot call tools: choose an instruct model, or one that `rlvr models list` shows.',
        )
    return str(own)


def _family_of(tokenizer: Any, own: str) -> tuple[_Family, Match] | None:
    """The family a template belongs to: by its text, by all that it renders, by its prompts and calls."""
    families = _families()
    for family in families:
        if own.strip() == family.published.strip():
            return family, 'exact'
    mine = _rendered(tokenizer, own)
    close: _Family | None = None
    for family in families:
        theirs = _rendered(tokenizer, family.published)
        if mine == theirs:
            return family, 'same'
        if close is None and family.tools and mine[: len(_OPENINGS)] == theirs[: len(_OPENINGS)]:
            close = family
    # A template that has changed with the model is close to its family's training variant, too, which has no parser.
    return (close, 'close') if close is not None and None not in mine[: len(_OPENINGS)] else None


def _by_parser(tokenizer: Any, own: str) -> ChatFormat:
    """A template of no known family is taken as it is where it fits and a known parser reads its calls. Raises."""
    probe = _with(tokenizer, own)
    if not trl_templates.supports_tool_calling(probe):
        raise GenerationError(
            'The chat template cannot show tool calls and their answers',
            hint='Choose a model made for tools; `rlvr models list` shows some.',
        )
    if not trl_templates.is_chat_template_prefix_preserving(probe):
        raise GenerationError(
            'The chat template changes earlier turns when later ones come (it may drop earlier thoughts), '
            'and belongs to no known family',
            hint='Give the tokenizer a template that is prefix-preserving, or choose a model of `rlvr models list`.',
        )
    for family in _families():
        if _reads_back(tokenizer, own, family.response_template):
            note = f'The chat template is of no known family; its tool calls read like those of {family.name}.'
            return ChatFormat('', own, family.response_template, 'parsed', note)
    raise GenerationError(
        'Tool calls of this chat template cannot be read back: it belongs to no known family',
        hint='Set response_template on the tokenizer, or choose a model of `rlvr models list`.',
    )


@cache
def _families() -> tuple[_Family, ...]:
    """Every family: those of TRL, and those whose own templates carry no tools, with ours in their place."""
    found = [family for name, title in FAMILIES.items() if (family := _of_trl(name, title)) is not None]
    folder = ASSETS / 'chat_templates'
    gemma = (folder / 'gemma3.jinja').read_text(encoding='utf-8')
    reads_gemma = json.loads((folder / 'gemma3.json').read_text(encoding='utf-8'))
    for published in (trl_templates.gemma3_chat_template, trl_templates.gemma_chat_template):
        found.append(_Family('Gemma 3', published, gemma, reads_gemma, tools=False))
    chatml = next(family for family in found if family.published == trl_templates.qwen3_instruct_2507_chat_template)
    for name, file in (('SmolLM2', 'smollm2_plain.jinja'), ('ChatML', 'chatml_plain.jinja')):
        published = (folder / file).read_text(encoding='utf-8')
        found.append(_Family(name, published, chatml.template, chatml.response_template, tools=False))
    return tuple(found)


def _of_trl(name: str, title: str) -> _Family | None:
    """TRL's template, training variant and parser of a family, asked for as TRL would be by a tokenizer."""
    published = getattr(trl_templates, f'{name}_chat_template', None)
    if published is None:  # this TRL does not have it
        return None
    training = getattr(trl_templates, f'{name}_training_chat_template', published)
    stand_in = _Templated(published)
    trl_templates.add_response_schema(stand_in)
    return _Family(title, published, training, stand_in.response_template)


class _Templated:
    """As much of a tokenizer as TRL asks for when it looks up a parser."""

    def __init__(self, chat_template: str) -> None:
        self.chat_template = chat_template
        self.response_template: dict[str, Any] = {}


def _turns(*kinds: str, calls: Sequence[Mapping[str, Any]] = _CALLS) -> list[dict[str, Any]]:
    """A conversation of turns of these kinds."""
    call, second = ({'type': 'function', 'function': function} for function in calls)
    made: dict[str, dict[str, Any]] = {
        'system': {'role': 'system', 'content': 'Be brief.'},
        'user': {'role': 'user', 'content': 'Do it.'},
        'text': {'role': 'assistant', 'content': 'Done.'},
        'call': {'role': 'assistant', 'content': '', 'tool_calls': [call]},
        'second': {'role': 'assistant', 'content': '', 'tool_calls': [second]},
        'answer': {'role': 'tool', 'name': 'run_command', 'content': 'ok'},
    }
    return [dict(made[kind]) for kind in kinds]


_OPENINGS: Final[Sequence[tuple[tuple[str, ...], bool, bool]]] = (
    (('user',), False, True),
    (('user',), True, True),
    (('user', 'call'), True, False),
    (('user', 'second'), True, False),
)
"""Conversations as (turns, with tools, with the opening of the next turn): those every match must agree on, …"""
_FURTHER: Final[Sequence[tuple[tuple[str, ...], bool, bool]]] = (
    (('system', 'user'), True, True),
    (('user', 'text'), False, False),
    (('user', 'text', 'user'), True, True),
    (('user', 'call', 'answer'), True, True),
    (('user', 'call', 'answer', 'second', 'answer'), True, True),
    (('user', 'call', 'answer', 'answer'), True, True),
)
"""… and those a template must agree on to be the same."""


def _rendered(tokenizer: Any, template: str) -> list[str | None]:
    """What a template makes of the conversations above, without blanks around; ``None`` where it refuses one."""
    texts = [
        _render(tokenizer, template, _turns(*kinds), tools, opening)
        for kinds, tools, opening in (*_OPENINGS, *_FURTHER)
    ]
    return [None if text is None else text.strip() for text in texts]


def _render(tokenizer: Any, template: str, messages: list[dict[str, Any]], tools: bool, opening: bool) -> str | None:
    try:
        text = tokenizer.apply_chat_template(
            messages,
            tools=list(TOOL_SCHEMAS) if tools else None,
            chat_template=template,
            add_generation_prompt=opening,
            tokenize=False,
        )
    except (TemplateError, TypeError, ValueError, KeyError, AttributeError):
        # Templates are programs of others, and each refuses in its own way what it does not foresee.
        return None
    return str(text)


def _with(tokenizer: Any, template: str, response_template: dict[str, Any] | None = None) -> Any:
    copied = copy.copy(tokenizer)
    copied.chat_template = template
    copied.response_template = response_template
    return copied


def _fit(
    tokenizer: Any,
    template: str,
    response_template: dict[str, Any],
    calls: Sequence[Mapping[str, Any]] = _CALLS,
) -> bool:
    """Whether training can use a template with a parser: it carries tools, keeps earlier turns, and is read back."""
    probe = _with(tokenizer, template)
    return bool(
        trl_templates.supports_tool_calling(probe)
        and trl_templates.is_chat_template_prefix_preserving(probe)
        and _reads_back(tokenizer, template, response_template, calls)
    )


def _reads_back(
    tokenizer: Any,
    template: str,
    response_template: dict[str, Any],
    calls: Sequence[Mapping[str, Any]] = _CALLS,
) -> bool:
    """Whether calls that the template renders are read back from their tokens, arguments and all."""
    probe = _with(tokenizer, template, response_template)
    before = _render(tokenizer, template, _turns('user'), True, True)
    for kind, call in zip(('call', 'second'), calls, strict=True):
        whole = _render(tokenizer, template, _turns('user', kind, calls=calls), True, False)
        if before is None or whole is None or not whole.startswith(before):
            return False
        prefix, turn = (probe.encode(text, add_special_tokens=False) for text in (before, whole[len(before) :]))
        try:
            parsed = trl_templates.parse_response(probe, turn, prefix=prefix, tools=list(TOOL_SCHEMAS))
        except (KeyError, IndexError, AttributeError, RecursionError):
            return False  # the parser met a shape it does not foresee
        read = [item.get('function', item) for item in parsed.get('tool_calls') or ()]
        if [(item.get('name'), item.get('arguments')) for item in read] != [(call['name'], call['arguments'])]:
            return False
    return True


def _turn_end(tokenizer: Any) -> int | None:
    """The special token that ends every turn of the model, calls and texts alike; ``None`` where they differ."""
    special = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    ends = set()
    for kind in ('text', 'call'):
        ids = tokenizer.apply_chat_template(_turns('user', kind), tokenize=True, return_dict=False)
        last = next((number for number in reversed(ids) if number in special), None)
        ends.add(last)
    return ends.pop() if len(ends) == 1 else None


def _note(family: _Family, match: Match, own: str) -> str:
    if match == 'close':
        return f'The chat template opens like that of {family.name} and is treated as its template.'
    if match == 'same':
        words = f'The chat template is treated as that of {family.name}: both render the same'
        return words + ('.' if family.tools else "; the studio's variant with tools takes its place.")
    if not family.tools:
        return f"The chat template of {family.name} has no tools: the studio's variant with tools takes its place."
    return '' if own == family.template else f'The training variant of the chat template of {family.name} is used.'
