"""Writes the starter's model card and licence note, with the figures measured on the tutorial."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trainer.starter.measure import Figures
from trainer.starter.tutorial import FAMILIES

CARD: Final = """\
---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---

# The starter model

A {parameters:.1f} million parameter language model (Qwen3 architecture, own {vocabulary}-entry byte-level tokenizer,
compact ChatML template with tool calls) that does small chores with files through four tools. It exists so that
reinforcement learning can be tried, and seen to work, on two processor cores in minutes. It knows nothing else: ask it
only for the kinds of chores that the tutorial tasks show.

## How it was raised

From random weights, on generated demonstrations only (`python -m trainer.starter.build`, fixed seed):

1. *Copying*: careful demonstrations with invented file names and words, and lines of such words said twice.
2. *Habits*: **a deliberate mixture of careful and careless demonstrations.** A careful one does the chore. A careless
   one is what a hasty model might do: it answers "Done." at once, writes `hello` instead of the word asked for, does
   the first of two things, copies where it should rename, reads and stops.

So the starter *can* do every chore and often does not. That is on purpose: there must be something left to learn, and
each task must be solved sometimes for a group of attempts to differ. Reinforcement learning with the tutorial tasks
turns the careless habits off; it does not teach the model new skills. The habits are not a defect to report, and the
gain on this model says nothing about the gain on a model that was trained normally.

The names and words of the tutorial tasks occur in no demonstration, and those of the held-out tasks in no training
task.

## Measured

{attempts} sampled attempts (temperature 1.0) at the {tasks} held-out tutorial tasks, before any reinforcement learning.
*Slips* are attempts that went off every script, mostly a name copied wrongly (a script is followed to the letter here,
so another right way counts as a slip, and half-done work as careless).

| skill | careful share of demonstrations | careful | careless | slips |
|---|---|---|---|---|
{rows}

Mean entropy of a generated token: {entropy:.3f} nats; of the most open token of each turn: {decision:.2f} nats.

## Use

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained('assets/starter')
tokenizer = AutoTokenizer.from_pretrained('assets/starter')
```

The template lists the tools as `name(arguments)` lines, renders calls as
`<tool_call>{{"name": …, "arguments": …}}</tool_call>` on three lines, and is prefix-preserving; the tokenizer carries a
response template, so replies are read back without further code.
"""

LICENSE: Final = """\
The weights, the tokenizer and the chat template in this folder were made from generated text alone, by the program in
trainer/starter. They contain no weights, text or data of any other model or data set, and are given under the
Apache License, Version 2.0 (https://www.apache.org/licenses/LICENSE-2.0).
"""


def write_card(folder: Path, figures: Figures, parameters: int, vocabulary: int) -> None:
    """Writes README.md and LICENSE beside the weights."""
    rows = [
        _row(family.skill, f'{family.care:.2f}', figures, family.skill)
        for family in FAMILIES
        if family.skill in figures.manners
    ]
    rows.append(_row('**all**', '', figures, None))
    text = CARD.format(
        parameters=parameters / 1e6,
        vocabulary=vocabulary,
        attempts=figures.attempts,
        tasks=figures.tasks,
        rows='\n'.join(rows),
        entropy=figures.entropy,
        decision=figures.decision_entropy,
    )
    (folder / 'README.md').write_text(text, encoding='utf-8')
    (folder / 'LICENSE').write_text(LICENSE, encoding='utf-8')


def _row(name: str, care: str, figures: Figures, skill: str | None) -> str:
    shares = [f'{figures.share(manner, skill):.2f}' for manner in ('careful', 'careless', 'slip')]
    return f'| {name} | {care} | {" | ".join(shares)} |'
