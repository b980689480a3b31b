"""The plain engine: limits, ends, greedy repeats, and batches that agree with single prompts."""

import pytest
import torch

from trainer.config import parse_settings, plan
from trainer.engines import open_engine
from trainer.hardware import detect
from trainer.models import STARTER
from trainer.policy import load_model, load_tokenizer
from trainer.rollout.chat import Chat


@pytest.fixture(scope='module')
def parts():  # type: ignore[no-untyped-def]
    tokenizer = load_tokenizer(STARTER)
    model = load_model(STARTER, detect())
    return Chat(tokenizer), open_engine('plain', model, tokenizer), tokenizer


PROMPTS = ['Create a file named zub.txt with the word karo in it.', 'Delete old.md']


def test_greedy_in_a_batch_equals_greedy_alone(parts) -> None:  # type: ignore[no-untyped-def]
    chat, engine, _ = parts
    prompts = [chat.prompt_ids(prompt) for prompt in PROMPTS]
    together = engine.generate(prompts, [60, 60], temperature=0)
    alone = [engine.generate([prompt], [60], temperature=0)[0] for prompt in prompts]
    assert [turn.ids for turn in together] == [turn.ids for turn in alone]


def test_each_turn_keeps_its_own_limit(parts) -> None:  # type: ignore[no-untyped-def]
    chat, engine, tokenizer = parts
    prompt = chat.prompt_ids(PROMPTS[0])
    short, long = engine.generate([prompt, prompt], [2, 200], temperature=0)
    assert (len(short.ids), short.finished) == (2, False)
    assert long.finished
    assert long.ids[-1] == tokenizer.eos_token_id
    assert tokenizer.eos_token_id not in long.ids[:-1]


def test_sampling_follows_the_seed(parts) -> None:  # type: ignore[no-untyped-def]
    chat, engine, _ = parts
    prompts = [chat.prompt_ids(PROMPTS[0])] * 8

    def sample() -> list[list[int]]:
        torch.manual_seed(3)
        return [turn.ids for turn in engine.generate(prompts, [60] * 8, temperature=1.0)]

    first = sample()
    assert first == sample()
    assert len({tuple(ids) for ids in first}) > 1


def test_auto_is_resolved_before_a_run() -> None:
    assert plan(parse_settings({})[0], STARTER, 4).engine == 'plain'
