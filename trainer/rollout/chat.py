"""Conversations as tokens: the prompt of a task, the turns a model wrote, and the answers of its tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trl.chat_template_utils import (
    add_response_schema,
    get_training_chat_template,
    is_chat_template_prefix_preserving,
    parse_response,
    supports_tool_calling,
)

from trainer.errors import GenerationError
from trainer.tools import TOOL_SCHEMAS


@dataclass(frozen=True)
class Call:
    """A tool call as the model wrote it; the arguments are unchecked."""

    name: str
    args: dict[str, Any]


@dataclass(frozen=True)
class ParsedTurn:
    """A turn read back from its tokens. ``unreadable``: it opens a tool call that cannot be read."""

    text: str
    tokens: int = 0
    calls: tuple[Call, ...] = ()
    unreadable: bool = False


class Chat:
    """Renders prompts and tool answers with a tokenizer's chat template and reads turns back.

    The template must be prefix-preserving (a later message never changes the tokens of an earlier one), or policy
    and loss would see different texts; where it is not, TRL's training variant of the template takes its place.
    Raises ``GenerationError`` where the template cannot carry tool calls.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._template = _training_template(tokenizer)
        self._tools = list(TOOL_SCHEMAS)
        self._opener = _call_opener(tokenizer)

    def prompt_ids(self, prompt: str) -> list[int]:
        """Token ids of a task's prompt with the tools, up to where the model's turn begins."""
        return self._render([{'role': 'user', 'content': prompt}], tools=self._tools, generation=True)

    def answer_ids(self, answers: Sequence[tuple[str, str]]) -> list[int]:
        """Token ids that follow a finished turn: the answers ``(tool, text)`` and the opening of the next turn."""
        call = {'type': 'function', 'function': {'name': answers[0][0], 'arguments': {}}}
        before: list[dict[str, Any]] = [
            {'role': 'user', 'content': 'x'},
            {'role': 'assistant', 'content': '', 'tool_calls': [call]},
        ]
        messages = [{'role': 'tool', 'name': name, 'content': text} for name, text in answers]
        prefix = self._render(before, generation=False)
        # The turn ends with its end token; what the template puts behind it belongs to the answer.
        ends = [place for place, token in enumerate(prefix) if token == self.tokenizer.eos_token_id]
        if ends:
            prefix = prefix[: ends[-1] + 1]
        whole = self._render(before + messages, generation=True)
        if whole[: len(prefix)] != prefix:
            raise GenerationError('The chat template changes earlier turns when a tool answers')
        return whole[len(prefix) :]

    def parse(self, ids: Sequence[int], prefix: Sequence[int]) -> ParsedTurn:
        """Read a turn back; ``prefix`` is everything before it."""
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        try:
            parsed = parse_response(self.tokenizer, list(ids), prefix=list(prefix), tools=self._tools)
            calls = tuple(_call(item) for item in parsed.get('tool_calls') or ())
        except (KeyError, IndexError, AttributeError, RecursionError):
            # The tokenizer's parser met a shape it does not foresee: a model's mistake, recorded as such.
            return ParsedTurn(text=text, tokens=len(ids), unreadable=True)
        opened = text.count(self._opener) if self._opener else 0
        return ParsedTurn(text=text, tokens=len(ids), calls=calls, unreadable=opened > len(calls))

    def _render(
        self, messages: list[dict[str, Any]], *, generation: bool, tools: list[dict[str, Any]] | None = None
    ) -> list[int]:
        ids = self.tokenizer.apply_chat_template(
            messages,
            tools=tools,
            chat_template=self._template,
            add_generation_prompt=generation,
            tokenize=True,
            return_dict=False,
        )
        return list(ids)


def _training_template(tokenizer: Any) -> str | None:
    if not tokenizer.chat_template:
        raise GenerationError(
            'The tokenizer has no chat template', hint='Base models cannot call tools: choose an instruct model.'
        )
    if not supports_tool_calling(tokenizer):
        raise GenerationError(
            'The chat template cannot show tool calls', hint='`rlvr models list` shows models that can.'
        )
    if getattr(tokenizer, 'response_template', None) is None:
        try:
            add_response_schema(tokenizer)
        except ValueError:
            raise GenerationError(
                'Tool calls of this chat template cannot be read back: it belongs to no known family',
                hint='Set response_template on the tokenizer, or choose a model of the eligible list.',
            ) from None
    if is_chat_template_prefix_preserving(tokenizer):
        return None
    try:
        return str(get_training_chat_template(tokenizer))
    except ValueError as error:
        raise GenerationError(f'The chat template is not prefix-preserving: {error}') from None


def _call_opener(tokenizer: Any) -> str:
    """The text that opens a tool call in this model's turns, or empty where the template names none."""
    fields = (tokenizer.response_template or {}).get('fields', {})
    opener = fields.get('tool_calls', {}).get('open', '')
    return opener if isinstance(opener, str) else ''


def _call(item: dict[str, Any]) -> Call:
    function = item.get('function', item)
    arguments = function.get('arguments')
    if isinstance(arguments, str):
        # Some models write the arguments as text that holds JSON.
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {'': arguments}
    return Call(name=function['name'], args=arguments if isinstance(arguments, dict) else {'': arguments})
