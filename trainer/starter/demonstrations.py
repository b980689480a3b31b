"""Endless demonstration chats for the starter: the tutorial's chores with invented names, done carefully or carelessly.

The mixture is deliberate: a model raised on it knows how to do every chore and often does not bother, which leaves
reinforcement learning something to find.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from trainer.starter.tutorial import Chore, Step, demo_chore
from trainer.starter.words import DEMO_ENDINGS, invented_word

FINAL_WORDS: Final = 'Done.'
SYSTEM_MESSAGES: Final = (
    'You are a careful assistant.',
    'You work in a folder with files. Use the tools.',
    'Solve the task with the tools.',
)

Message = dict[str, Any]


def messages(prompt: str, script: Sequence[Step]) -> list[Message]:
    """The chat in which a script is played: the request, one call and one answer a turn, and the last words."""
    chat: list[Message] = [{'role': 'user', 'content': prompt}]
    for step in script:
        call = {'type': 'function', 'function': {'name': step.tool, 'arguments': dict(step.args)}}
        chat.append({'role': 'assistant', 'content': '', 'tool_calls': [call]})
        chat.append({'role': 'tool', 'name': step.tool, 'content': step.answer})
    chat.append({'role': 'assistant', 'content': FINAL_WORDS})
    return chat


def pick_script(chore: Chore, rng: random.Random, care: float | None = None) -> tuple[Step, ...]:
    """The careful script with the family's own probability (or the one given), else a careless one by its weight."""
    if rng.random() < (chore.family.care if care is None else care):
        return chore.careful
    weights = [weight for weight, _ in chore.family.careless]
    return rng.choices(chore.careless, weights)[0]


def chat(rng: random.Random, care: float | None = None) -> list[Message]:
    """One demonstration; now and then it opens with a system message."""
    item = demo_chore(rng)
    told = messages(item.prompt, pick_script(item, rng, care))
    if rng.random() < 0.15:
        told.insert(0, {'role': 'system', 'content': rng.choice(SYSTEM_MESSAGES)})
    return told


def echo(rng: random.Random) -> str:
    """A line of invented words and names, said twice: what a young model learns copying from."""
    line = ' '.join(
        invented_word(rng) + (f'.{rng.choice(DEMO_ENDINGS)}' if rng.random() < 0.4 else '')
        for _ in range(rng.randrange(4, 14))
    )
    return f'{line}\n{line}\n'
