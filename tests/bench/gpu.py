"""The `plain` engine and the update of a run on a GPU: a model shaped as Qwen3-0.6B, of random weights, in bf16.

`python tests/bench/gpu.py [--rollouts 16 64]`. Episodes of three turns are generated in groups of eight, then trained
on with the settings that a run has here. Prints tokens a second of both: generated ones, and those that go forward and
backward, prompts and answers of tools included. Nothing is loaded from anywhere, and where there is no GPU nothing is
measured; `--device cpu --layers 2 --rollouts 8 --tokens 8 --prompt 32` shows in two minutes that the bench works.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, PrinterCallback, Qwen3Config, logging, set_seed
from update import RecordingTrainer, Side

from trainer.config import RunConfig, parse_settings, resolve
from trainer.engines import Engines
from trainer.grpo import GrpoRun, _reward, _text_only
from trainer.hardware import Hardware, detect
from trainer.held_out import HeldOut
from trainer.journal import Journal
from trainer.models import STARTER
from trainer.policy import load_tokenizer, with_adapter
from trainer.preparation import Run
from trainer.runfolder import RunFolder
from trainer.sandbox.python_env import PythonEnvironment
from trainer.task import parse_task
from trainer.team import Team

MODEL = 'unsloth/Qwen3-0.6B'
GROUP = 8
TURNS = 3
ROUNDS = 3
"""Measured ones; one more warms up."""

Conversation = tuple[list[int], list[int], list[int]]
"""Prompt, completion, and mask: 1 marks the model's own tokens."""


def random_model(layers: int, hardware: Hardware) -> Any:
    """Qwen3-0.6B without what it has learned."""
    config = Qwen3Config(
        num_hidden_layers=layers,
        hidden_size=1024,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        intermediate_size=3072,
        vocab_size=151_936,
        max_position_embeddings=40_960,
        tie_word_embeddings=True,
    )
    with torch.device(hardware.device):
        return AutoModelForCausalLM.from_config(config, dtype=hardware.dtype).eval()


def prepared(made: RunFolder, journal: Journal, rollouts: int, hardware: Hardware) -> Run:
    """A run of the model that plays no tasks."""
    config = made.config()
    model, plan = resolve(config, rollouts, processes=1)
    tokenizer = load_tokenizer(STARTER)  # only its end token and padding count
    return Run(
        folder=made,
        journal=journal,
        config=config,
        model=model,
        plan=plan,
        hardware=hardware,
        tokenizer=tokenizer,
        tasks=made.tasks(),
        held_out=(),
        python=PythonEnvironment(mounts=(), path_prefix=(), python='python3', site_packages=''),
        team=Team(),
        engines=Engines(plan.engine, tokenizer, folder=made.path, lora_rank=plan.lora_rank),
    )


def run_folder(path: Path, rollouts: int) -> RunFolder:
    """A run folder with settings that give steps of so many rollouts."""
    settings = {
        'rl': {'enabled': True, 'numGenerations': GROUP, 'maxSteps': 1000, 'generationEngine': 'plain'},
        'batchSize': GROUP,
        'gradientAccumulationSteps': rollouts // GROUP,
        'learningRate': 1e-12,
    }
    config = RunConfig(id='gpu', created_at=datetime.now(UTC), model=MODEL, settings=parse_settings(settings)[0])
    checker = {'type': 'exit_code', 'config': {'command': 'true'}}
    task, _ = parse_task({'id': 'unplayed', 'task_spec': {'prompt': 'Nobody plays this.', 'checker': checker}})
    return RunFolder.create(path, config, [task])


def generate(run: Run, policy: Any, options: argparse.Namespace, seed: int) -> tuple[list[Conversation], float]:
    """Conversations whose tools answer at once, and the seconds of all of them."""
    chance = torch.Generator().manual_seed(seed)

    def words(count: int) -> list[int]:
        found: list[int] = torch.randint(100, 150_000, (count,), generator=chance).tolist()
        return found

    prompts = [words(options.prompt) for _ in range(run.plan.groups)]
    answer = words(options.tokens // 2)
    played: list[Conversation] = [(prompts[row // GROUP], [], []) for row in range(run.plan.rollouts_per_step)]
    turns = [0] * len(played)
    began = time.perf_counter()
    with run.engines.engine(policy).open(len(played), temperature=1.0, seed=seed) as stream:
        for row, (prompt, _, _) in enumerate(played):
            stream.extend(row, prompt, options.tokens)
        while stream.asked:
            for row, turn in stream.advance():
                _, completion, mask = played[row]
                completion += turn.ids
                mask += [1] * len(turn.ids)
                turns[row] += 1
                if turns[row] < TURNS:
                    completion += answer
                    mask += [0] * len(answer)
                    stream.extend(row, answer, options.tokens)
    return played, time.perf_counter() - began


def updates(run: Run, policy: Any, played: list[Conversation]) -> Side:
    """The updates of a run on these conversations; every second one is rewarded."""

    def roll_out(prompts: list[Any], _: Any) -> dict[str, Any]:
        return {
            'prompt_ids': [prompt for prompt, _, _ in played],
            'completion_ids': [completion for _, completion, _ in played],
            'env_mask': [mask for _, _, mask in played],
            'logprobs': None,
            'reward': [float(number % 2) for number in range(len(played))],
        }

    def train(of: Side) -> None:
        class Trainer(RecordingTrainer):
            side = of
            batches: ClassVar[list[dict[str, Any]]] = []

        held_out = HeldOut((), run.journal, k=0, temperature=1.0, seed=1)
        trainer = Trainer(
            model=policy,
            args=GrpoRun(run, held_out)._arguments(policy),
            train_dataset=Dataset.from_dict({'prompt': [[{'role': 'user', 'content': ''}]] * len(played)}),
            processing_class=_text_only(run.tokenizer),
            reward_funcs=_reward,
            rollout_func=roll_out,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()

    return Side(train)


def measure(path: Path, rollouts: int, hardware: Hardware, options: argparse.Namespace) -> None:
    """Print a row for the engine and one for the update."""
    made = run_folder(path, rollouts)
    with Journal(made) as journal:
        run = prepared(made, journal, rollouts, hardware)
        set_seed(1)
        policy = with_adapter(random_model(options.layers, hardware), run.plan)
        rounds = [generate(run, policy, options, seed) for seed in range(ROUNDS + 1)]
        played = rounds[-1][0]
        generated = sum(sum(mask) for _, _, mask in played)
        report(rollouts, 'plain engine', generated, [seconds for _, seconds in rounds[1:]])
        side = updates(run, policy, played)
        try:
            side.go()
            side.go()
            trained = sum(len(prompt) + len(completion) for prompt, completion, _ in played)
            report(rollouts, 'update', trained, [side.go().wall for _ in range(ROUNDS)])
        finally:
            side.end()


def report(rollouts: int, what: str, tokens: int, seconds: list[float]) -> None:
    """Print a row."""
    middle = median(seconds)
    used = f'{torch.cuda.max_memory_allocated() / 1024**3:6.1f} GiB at most' if torch.cuda.is_available() else ''
    row = f'{rollouts:4} rollouts  {what:12} {tokens:8} tokens {middle:8.2f} s {tokens / middle:9.0f} tokens/s  {used}'
    print(row.rstrip(), flush=True)


def main() -> None:
    """Print a table, or that there is nothing to measure on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--device', choices=['cuda', 'cpu'], default='cuda')
    parser.add_argument('--rollouts', nargs='+', type=int, default=[16, 64], help=f'multiples of {GROUP}')
    parser.add_argument('--layers', type=int, default=28)
    parser.add_argument('--prompt', type=int, default=512, help='tokens of a prompt')
    parser.add_argument('--tokens', type=int, default=128, help='tokens of a turn; an answer of tools has half of them')
    options = parser.parse_args()
    if options.device == 'cuda' and not torch.cuda.is_available():
        print('torch sees no GPU here: nothing is measured')
        return
    warnings.simplefilter('ignore')
    logging.set_verbosity_error()
    hardware = detect() if options.device == 'cuda' else Hardware('cpu', 'float32', 'CPU')
    print(f'{hardware.name}, {hardware.precision}, {options.layers} layers; medians of {ROUNDS}')
    for rollouts in options.rollouts:
        with tempfile.TemporaryDirectory() as name:
            measure(Path(name) / 'run', rollouts, hardware, options)


if __name__ == '__main__':
    main()
