"""Builds the starter model from nothing: tokenizer, chat template, and two stages of training on demonstrations.

Stage one teaches copying: careful demonstrations, and lines of invented words said twice. Stage two teaches habits:
the mixture of careful and careless demonstrations. The second can be redone alone from a kept first stage.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from trainer.starter.card import write_card
from trainer.starter.demonstrations import chat, echo
from trainer.starter.measure import measure
from trainer.tools import TOOL_SCHEMAS

log = logging.getLogger(__name__)

SEED: Final = 7
VOCABULARY: Final = 768
BATCH: Final = 64
POOL: Final = 16
SPECIAL: Final = ('<|endoftext|>', '<|im_start|>', '<|im_end|>')
MARKS: Final = ('<tool_call>', '</tool_call>', '<tool_response>', '</tool_response>')
PIECES: Final = '|'.join(
    (
        r'\n?\{"name": "',
        r'", "arguments": \{"[a-z]+": "',
        r'", "[a-z]+": "',
        r'"\}\}\n?',
        r'\([a-z, ]*\)\n?',
        r'\[exit code ',
        r'[a-z]+_[a-z]+',
        r'[A-Za-z]+|[0-9]|\\n|\n| +|[^A-Za-z0-9\s]',
    )
)
"""How text is cut before merging: the scaffold of a tool call in a few pieces, everything else in plain words."""

CHAT_TEMPLATE: Final = """\
{%- set opens_with_system = messages[0].role == 'system' %}
{%- if tools or opens_with_system %}
    {{- '<|im_start|>system\\n' }}
    {%- if opens_with_system %}
        {{- messages[0].content }}
        {%- if tools %}
            {{- '\\n\\n' }}
        {%- endif %}
    {%- endif %}
    {%- if tools %}
        {{- 'Tools:' }}
        {%- for tool in tools %}
            {%- set signature = tool.function if tool.function else tool %}
            {{- '\\n' + signature.name + '(' }}
            {%- if signature.parameters and signature.parameters.properties %}
                {{- signature.parameters.properties.keys() | join(', ') }}
            {%- endif %}
            {{- ')' }}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}
        {{- content }}
        {%- for tool_call in message.tool_calls or [] %}
            {%- set call = tool_call.function if tool_call.function else tool_call %}
            {%- if content or not loop.first %}
                {{- '\\n' }}
            {%- endif %}
            {{- '<tool_call>\\n{"name": "' + call.name + '", "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>' }}
        {%- endgeneration %}
        {{- '\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""

RESPONSE_TEMPLATE: Final[dict[str, Any]] = {
    'defaults': {'role': 'assistant'},
    'start_anchor': '<|im_start|>assistant\n',
    'fields': {
        'tool_calls': {
            'open': '<tool_call>',
            'close_pattern': r'</tool_call>\s*',
            'repeats': True,
            'content': 'json',
            'transform': {'type': 'function', 'function': '{content}'},
        },
        'content': {'close_pattern': r'<\|im_end\|>\s*', 'content': 'text'},
    },
}


def build_tokenizer(rng: random.Random) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer trained on demonstrations; a name is cut the same way wherever it stands."""
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior='isolated'),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bare.decoder = decoders.ByteLevel()
    tokenizer = _wrapped(bare)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKS),
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [text for text, _ in itertools.islice(_texts(tokenizer, rng, care=None, echoes=0.3), 8_000)]
    for mark in (*SPECIAL, *MARKS):
        texts = [text.replace(mark, '\n') for text in texts]
    bare.train_from_iterator(texts, trainer)
    bare.add_tokens(list(MARKS))
    return _wrapped(bare)


def _wrapped(bare: Tokenizer) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bare,
        pad_token='<|endoftext|>',
        eos_token='<|im_end|>',
        additional_special_tokens=['<|im_start|>'],
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
        response_template=RESPONSE_TEMPLATE,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _texts(
    tokenizer: PreTrainedTokenizerFast, rng: random.Random, care: float | None, echoes: float
) -> Iterator[tuple[str, bool]]:
    """Endless training texts and whether each is an echo."""
    while True:
        if rng.random() < echoes:
            yield echo(rng), True
            continue
        tools = list(TOOL_SCHEMAS)
        if rng.random() < 0.5:
            rng.shuffle(tools)
        text = tokenizer.apply_chat_template(chat(rng, care), tools=tools, tokenize=False)
        yield str(text), False


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """An untrained model of the starter's shape."""
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=192,
        intermediate_size=576,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=6,
        head_dim=32,
        max_position_embeddings=4096,
        rope_parameters={'rope_type': 'default', 'rope_theta': 10_000.0},
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


Sample = tuple[list[int], list[bool]]


class Batches:
    """Endless batches of similar length: token ids, attention mask and labels (-100 where nothing is learned)."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, rng: random.Random, care: float | None, echoes: float):
        self.tokenizer = tokenizer
        self.rng = rng
        self.texts = _texts(tokenizer, rng, care, echoes)
        self.opening = tokenizer.encode('<|im_start|>assistant\n')
        self.end = tokenizer.eos_token_id

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Draws a pool, sorts it by length, and hands its batches out in random order."""
        while True:
            drawn = list(itertools.islice(self.texts, BATCH * POOL))
            encoded = self.tokenizer([text for text, _ in drawn])['input_ids']
            pool = [self._sample(ids, said_twice) for ids, (_, said_twice) in zip(encoded, drawn, strict=True)]
            pool.sort(key=lambda sample: len(sample[0]))
            groups = [pool[start : start + BATCH] for start in range(0, len(pool), BATCH)]
            self.rng.shuffle(groups)
            for group in groups:
                yield self._padded(group)

    def _sample(self, ids: list[int], said_twice: bool) -> Sample:
        if said_twice:
            return ids, [place >= len(ids) // 2 for place in range(len(ids))]
        learned, width, inside = [False] * len(ids), len(self.opening), False
        for place, token in enumerate(ids):
            inside = inside or (place >= width and ids[place - width : place] == self.opening)
            learned[place] = inside
            inside = inside and token != self.end
        return ids, learned

    def _padded(self, group: list[Sample]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        width = max(len(ids) for ids, _ in group)
        ids = torch.full((len(group), width), self.tokenizer.pad_token_id)
        attention = torch.zeros_like(ids)
        labels = torch.full_like(ids, -100)
        for row, (tokens, learned) in enumerate(group):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            attention[row, : len(tokens)] = 1
            labels[row, : len(tokens)] = torch.tensor(
                [token if wanted else -100 for token, wanted in zip(tokens, learned, strict=True)]
            )
        return ids, attention, labels


def loss_of(model: Qwen3ForCausalLM, ids: torch.Tensor, attention: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy on the learned tokens; the output layer is computed for those alone."""
    with torch.autocast('cpu', dtype=torch.bfloat16):
        hidden = model.model(input_ids=ids, attention_mask=attention).last_hidden_state
        targets = labels[:, 1:]
        wanted = targets != -100
        logits = model.lm_head(hidden[:, :-1][wanted])
    return functional.cross_entropy(logits.float(), targets[wanted])


def train(
    model: Qwen3ForCausalLM, batches: Batches, *, steps: int, peak: float, minutes: float, keep: Path | None = None
) -> float:
    """One cycle of AdamW over `steps` batches, cut short after `minutes`; returns the last smoothed loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=steps, pct_start=0.15)
    model.train()
    began, smooth = time.monotonic(), None
    for step, batch in enumerate(itertools.islice(iter(batches), steps), 1):
        loss = loss_of(model, *batch)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        if step % 50 == 0:
            log.info('step %d/%d loss %.4f %.0f s', step, steps, smooth, time.monotonic() - began)
            if keep:
                model.save_pretrained(keep)
        if time.monotonic() - began > 60 * minutes:
            break
    model.eval()
    return smooth or 0.0


def main() -> None:
    """Trains what was asked for and writes the folder with model, tokenizer and card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--out', type=Path, default=Path('assets/starter'))
    parser.add_argument('--work', type=Path, default=Path('build/starter'), help='where the first stage is kept')
    parser.add_argument('--steps', type=int, default=1000, help='batches of the first stage')
    parser.add_argument('--habit-steps', type=int, default=700, help='batches of the second stage')
    parser.add_argument('--minutes', type=float, default=60.0, help='time limit of each stage')
    parser.add_argument('--only-habits', action='store_true', help='start from the first stage kept in --work')
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format='%(message)s')
    torch.manual_seed(SEED)
    torch.set_num_threads(2)
    rng = random.Random(SEED)
    if asked.only_habits:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(asked.work)
        model = Qwen3ForCausalLM.from_pretrained(asked.work)
    else:
        tokenizer = build_tokenizer(rng)
        tokenizer.save_pretrained(asked.work)
        model = build_model(tokenizer)
        first = Batches(tokenizer, rng, care=1.0, echoes=0.3)
        train(model, first, steps=asked.steps, peak=1.5e-3, minutes=asked.minutes, keep=asked.work)
        model.save_pretrained(asked.work)
    second = Batches(tokenizer, rng, care=None, echoes=0.2)
    train(model, second, steps=asked.habit_steps, peak=1e-3, minutes=asked.minutes)
    model.save_pretrained(asked.out)
    tokenizer.save_pretrained(asked.out)
    figures = measure(model, tokenizer, repeats=32)
    write_card(asked.out, figures, parameters=model.num_parameters(), vocabulary=len(tokenizer))


if __name__ == '__main__':
    main()
