"""Measures the starter on the held-out tutorial tasks: how often it is careful, careless, or slips while copying.

No sandbox is needed: an attempt is followed along the scripts of its chore, which hold what each tool would answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.chat_template_utils import parse_response

from trainer.starter.demonstrations import Message
from trainer.starter.tutorial import Chore, Step, tutorial_chores
from trainer.tools import TOOL_SCHEMAS

REPEATS: Final = 16
LONGEST_TURN: Final = 96

Manner = Literal['careful', 'careless', 'slip']


@dataclass
class Attempt:
    """One attempt in the making: the chat so far, the steps taken, and how it ended."""

    chore: Chore
    chat: list[Message]
    steps: tuple[Step, ...] = ()
    manner: Manner | None = None

    def take(self, reply: Message) -> None:
        """Adds one reply of the model and the answers to its calls, or ends the attempt."""
        calls = reply.get('tool_calls') or []
        self.chat.append(reply)
        if not calls:
            self.manner = self._ended()
        for call in calls:
            step = self._known(call['function'])
            if step is None:
                self.manner = 'slip'
                return
            self.steps += (step,)
            self.chat.append({'role': 'tool', 'name': step.tool, 'content': step.answer})

    def _ended(self) -> Manner:
        if self.steps == self.chore.careful:
            return 'careful'
        return 'careless' if self.steps in self.chore.careless else 'slip'

    def _known(self, function: dict[str, Any]) -> Step | None:
        done = len(self.steps)
        for script in (self.chore.careful, *self.chore.careless):
            if script[:done] == self.steps and len(script) > done:
                step = script[done]
                if step.tool == function['name'] and step.args == function['arguments']:
                    return step
        return None


@dataclass
class Figures:
    """What was measured: manners per skill, and the model's entropy in nats."""

    tasks: int = 0
    manners: dict[str, Counter[Manner]] = field(default_factory=dict)
    entropies: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)

    def share(self, manner: Manner, skill: str | None = None) -> float:
        """The share of attempts that ended in this manner, of one skill or of all."""
        counters = [count for name, count in self.manners.items() if skill in (None, name)]
        return sum(count[manner] for count in counters) / max(1, sum(count.total() for count in counters))

    @property
    def attempts(self) -> int:
        """How many attempts were made."""
        return sum(count.total() for count in self.manners.values())

    @property
    def entropy(self) -> float:
        """Mean entropy of a generated token."""
        return sum(self.entropies) / max(1, len(self.entropies))

    @property
    def decision_entropy(self) -> float:
        """Mean entropy of the most open token of each turn."""
        return sum(self.peaks) / max(1, len(self.peaks))


@torch.no_grad()
def measure(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    chores: Sequence[Chore] | None = None,
    repeats: int = REPEATS,
    temperature: float = 1.0,
) -> Figures:
    """Attempts each chore (the held-out ones by default) a number of times; temperature 0 is greedy."""
    tasks = tutorial_chores()[1] if chores is None else chores
    attempts = [Attempt(chore, [{'role': 'user', 'content': chore.prompt}]) for chore in tasks for _ in range(repeats)]
    figures = Figures(tasks=len(tasks))
    for _ in range(max(attempt.chore.family.max_steps for attempt in attempts) + 1):
        open_ones = [attempt for attempt in attempts if attempt.manner is None]
        if open_ones:
            _one_turn(model, tokenizer, open_ones, temperature, figures)
    for attempt in attempts:
        figures.manners.setdefault(attempt.chore.family.skill, Counter())[attempt.manner or 'slip'] += 1
    return figures


def _one_turn(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    attempts: Sequence[Attempt],
    temperature: float,
    figures: Figures,
) -> None:
    prompts = [_prompt(tokenizer, attempt.chat) for attempt in attempts]
    width = max(map(len, prompts))
    pad = int(tokenizer.pad_token_id)
    ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts])
    attention = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    sampling = {'do_sample': True, 'temperature': temperature, 'top_k': 0} if temperature else {'do_sample': False}
    made: Any = model.generate(
        input_ids=ids,
        attention_mask=attention,
        max_new_tokens=LONGEST_TURN,
        return_dict_in_generate=True,
        output_logits=True,
        **sampling,
    )
    logs = torch.stack(made.logits, 1).float().log_softmax(-1)
    spread = -(logs.exp() * logs).sum(-1)
    for row, attempt in enumerate(attempts):
        reply = made.sequences[row, width:].tolist()
        length = reply.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in reply else len(reply)
        figures.entropies += spread[row, :length].tolist()
        figures.peaks.append(spread[row, :length].max().item())
        attempt.take(parse_response(tokenizer, reply[:length], prefix=prompts[row]))


def _prompt(tokenizer: PreTrainedTokenizerBase, chat: list[Message]) -> list[int]:
    tools: list[Any] = list(TOOL_SCHEMAS)
    ids = tokenizer.apply_chat_template(chat, tools=tools, add_generation_prompt=True, return_dict=False)
    return [int(token) for token in ids]
