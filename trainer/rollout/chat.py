"""Conversations as tokens: the prompt of a task, the turns a model wrote, and the answers of its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trl.chat_template_utils import parse_response

from trainer.chat_format import prepare
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

    The tokenizer is given the template that training uses (see ``chat_format``). Raises ``GenerationError`` where its
    own cannot carry tool calls.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        prepare(tokenizer)
        self._tools = list(TOOL_SCHEMAS)
        self._opener = _call_opener(tokenizer)
        self._special = {id_ for id_, token in tokenizer.added_tokens_decoder.items() if token.special}

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
        start = len(self._render(before[:1], generation=True))
        prefix = self._render(before, generation=False)
        # The turn ends with its end token; what the template puts behind it belongs to the answer.
        prefix = prefix[: self._end_of_turn(prefix, start)]
        whole = self._render(before + messages, generation=True)
        if whole[: len(prefix)] != prefix:
            raise GenerationError('The chat template changes earlier turns when a tool answers')
        return whole[len(prefix) :]

    def cut(self, text: str, budget: int) -> str:
        """A tool's answer of at most ``budget`` tokens: a longer one keeps head and tail, and says so."""
        ids = self._encode(text)
        half = budget // 2
        shown = text
        while (length := len(self._encode(shown))) > budget and half > 0:
            # The mark takes room too, and what was cut apart may be written in more tokens than before.
            half -= 0 if shown is text else max(1, (length - budget) // 2)
            head, tail = self.tokenizer.decode(ids[:half]), self.tokenizer.decode(ids[len(ids) - half :])
            shown = f'{head}\n[… {len(ids) - 2 * half} tokens cut …]\n{tail}'
        return shown

    def demonstration(self, messages: Sequence[dict[str, Any]]) -> tuple[list[int], list[int]]:
        """Token ids of a whole chat as rollouts have them, and a mask: 1 on what the assistant says, its end included.

        ``messages`` are those of a chat template: they open with a user's (or a system's and a user's), and every
        assistant's is followed by the answers of its calls. Raises ``GenerationError`` where the template cannot
        show a turn on its own.
        """
        first = next(place for place, message in enumerate(messages) if message['role'] == 'assistant')
        ids = self._render(list(messages[:first]), tools=self._tools, generation=True)
        mask = [0] * len(ids)
        answers: list[tuple[str, str]] = []
        for place, message in enumerate(messages[first:], start=first):
            if message['role'] == 'tool':
                answers.append((message['name'], message['content']))
                continue
            if answers:
                between = self.answer_ids(answers)
                ids, mask, answers = ids + between, mask + [0] * len(between), []
            turn = self._turn_ids(messages[:place], message)
            ids, mask = ids + turn, mask + [1] * len(turn)
        return ids, mask

    def _turn_ids(self, before: Sequence[dict[str, Any]], message: dict[str, Any]) -> list[int]:
        """Token ids of an assistant's message as a model generates them, up to its end token."""
        prefix = self._render(list(before), tools=self._tools, generation=True)
        whole = self._render([*before, message], tools=self._tools, generation=False)
        if whole[: len(prefix)] != prefix:
            raise GenerationError('The chat template writes an assistant turn otherwise than it lets a model begin it')
        end = self._end_of_turn(whole, len(prefix))
        if end is None:
            raise GenerationError('The chat template does not end an assistant turn with an end token')
        return whole[len(prefix) : end]

    def _end_of_turn(self, ids: Sequence[int], start: int) -> int | None:
        """Where a turn that begins at ``start`` ends: behind its last end token, or its last special one."""
        for ends in ({self.tokenizer.eos_token_id}, self._special):
            if places := [place for place in range(start, len(ids)) if ids[place] in ends]:
                return places[-1] + 1
        return None

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def parse(self, ids: Sequence[int], prefix: Sequence[int]) -> ParsedTurn:
        """Read a turn back; ``prefix`` is everything before it."""
        if not ids:  # there was no room for a token
            return ParsedTurn(text='')
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        try:
            parsed = parse_response(self.tokenizer, list(ids), prefix=list(prefix), tools=self._tools)
            calls = tuple(_call(item) for item in parsed.get('tool_calls') or ())
        except Exception:
            # Whatever the tokenizer's parser met that it does not foresee: a model's mistake, recorded as such.
            return ParsedTurn(text=text, tokens=len(ids), unreadable=True)
        opened = len(self._opener.findall(text)) if self._opener else 0
        return ParsedTurn(text=text, tokens=len(ids), calls=calls, unreadable=opened > len(calls))

    def _render(
        self, messages: list[dict[str, Any]], *, generation: bool, tools: list[dict[str, Any]] | None = None
    ) -> list[int]:
        ids = self.tokenizer.apply_chat_template(
            messages,
            tools=tools,
            add_generation_prompt=generation,
            tokenize=True,
            return_dict=False,
        )
        return list(ids)


def _call_opener(tokenizer: Any) -> re.Pattern[str] | None:
    """What opens a tool call in this model's turns, where its parser names anything."""
    calls = (tokenizer.response_template or {}).get('fields', {}).get('tool_calls', {})
    opener = calls.get('open_pattern') or re.escape(calls.get('open') or '')
    return re.compile(opener) if opener else None


def _call(item: dict[str, Any]) -> Call:
    function = item.get('function', item)
    name, arguments = function['name'], function.get('arguments')
    if isinstance(arguments, str):
        # Some models write the arguments as text that holds JSON.
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {'': arguments}
    if not isinstance(arguments, dict):
        arguments = {'': arguments}
    return Call(name=_plain(name if isinstance(name, str) else json.dumps(name)), args=_plain(arguments))


def _plain(value: Any) -> Any:
    """The same JSON value, without what no file or tokenizer takes: half characters, NaN and infinities."""
    text = json.dumps(value, ensure_ascii=False).encode('utf-8', errors='replace').decode('utf-8')
    return json.loads(text, parse_constant=str)
