"""Tokens a second of the engines against ``plain``, in one run on one machine, over episodes of three turns.

Two models: the bundled starter, and one of 30 million random weights. ``vllm`` is measured where RLVR_VLLM names it;
what it takes to start is not counted. `python tests/bench/engines.py [--rollouts 16] [--rounds 3]`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from trainer.config import parse_settings, plan
from trainer.engine_choice import Engine, obstacle
from trainer.engines import Engines, GenerationEngine
from trainer.hardware import detect
from trainer.models import STARTER
from trainer.policy import load_model, load_tokenizer, with_adapter
from trainer.rollout.chat import Chat

GROUP = 8
TURNS = 3
TURN_TOKENS = 64
ENGINES: tuple[Engine, ...] = ('plain', 'continuous_batching', 'vllm')


def random_model(folder: Path) -> Any:
    """A model shaped as Qwen3's, of 30 million weights, with the starter's words; saved, for a server to load."""
    config = AutoConfig.from_pretrained(STARTER.source)
    wider: dict[str, int] = {'hidden_size': 512, 'intermediate_size': 1536, 'num_hidden_layers': 8}
    config.update(wider | {'num_attention_heads': 8, 'num_key_value_heads': 4, 'head_dim': 64})
    config.layer_types = ['full_attention'] * 8
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    for name in ('tokenizer.json', 'tokenizer_config.json'):
        (folder / name).write_bytes((Path(STARTER.source) / name).read_bytes())
    return AutoModelForCausalLM.from_pretrained(folder).eval()


def episodes(engine: GenerationEngine, prompts: list[list[int]], answer: list[int], seed: int) -> tuple[int, float]:
    """Play episodes whose tools answer at once; tokens generated and seconds."""
    began, tokens = time.perf_counter(), 0
    turns = [0] * len(prompts)
    with engine.open(len(prompts), temperature=1.0, seed=seed) as stream:
        for row, prompt in enumerate(prompts):
            stream.extend(row, prompt, TURN_TOKENS)
        while stream.asked:
            for row, turn in stream.advance():
                tokens += len(turn.ids)
                turns[row] += 1
                if turns[row] < TURNS:
                    stream.extend(row, answer, TURN_TOKENS)
    return tokens, time.perf_counter() - began


def measure(title: str, base: Any, rollouts: int, rounds: int, folder: Path) -> None:
    """Print a row for each engine; each round meets the engines in turn."""
    tokenizer = load_tokenizer(STARTER)
    chat = Chat(tokenizer)
    texts = ['Create a file named zub.txt with the word karo in it.', 'Delete old.md', 'Make the folders a and b.']
    prompts = [chat.prompt_ids(texts[row // GROUP % 3]) for row in range(rollouts)]
    answer = chat.answer_ids([('run_command', 'a.txt\nb.txt\n')])
    policy = with_adapter(base, plan(parse_settings({})[0], STARTER, 4))
    names = [name for name in ENGINES if not obstacle(name, STARTER)]
    kept = {name: Engines(name, tokenizer, folder=folder, lora_rank=16) for name in names}
    speeds: dict[Engine, list[float]] = {name: [] for name in names}
    try:
        for number in range(rounds + 1):
            for name in names:
                tokens, seconds = episodes(kept[name].engine(policy), prompts, answer, number)
                if number:  # the first one warms up
                    speeds[name].append(tokens / seconds)
    finally:
        for one in kept.values():
            one.close()
    for name in names:
        ratio = median(speeds[name]) / median(speeds['plain'])
        print(f'{title:24} {rollouts:4} rollouts  {name:20} {median(speeds[name]):8.0f} tokens/s  {ratio:6.2f} x plain')


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rollouts', type=int, default=16)
    parser.add_argument('--rounds', type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter('ignore')
    torch.set_num_threads(os.cpu_count() or 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure('starter', load_model(STARTER, detect()), options.rollouts, options.rounds, folder)
        measure('random, 30M weights', random_model(folder / 'model'), options.rollouts, options.rounds, folder)
    print(f'load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores')


if __name__ == '__main__':
    main()
