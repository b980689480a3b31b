"""Continuous batching says what ``plain`` says, token by token, with the weights of this very moment."""

import random
import threading

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
)

from trainer.engines import Generation, generate, open_engine
from trainer.engines.continuous_batching import ContinuousBatchingEngine
from trainer.errors import ConfigError, GenerationError
from trainer.hardware import detect
from trainer.models import STARTER
from trainer.policy import load_model, load_tokenizer
from trainer.rollout.chat import Chat

PROMPTS = ['Create a file named zub.txt with the word karo in it.', 'Delete old.md', 'Make the folders a and b.']
TINY = {'vocab_size': 97, 'hidden_size': 32, 'intermediate_size': 48, 'num_hidden_layers': 3, 'eos_token_id': 96}


@pytest.fixture(scope='module')
def tokenizer():  # type: ignore[no-untyped-def]
    return load_tokenizer(STARTER)


@pytest.fixture
def model():  # type: ignore[no-untyped-def]
    return load_model(STARTER, detect())


@pytest.fixture
def prompts(tokenizer) -> list[list[int]]:  # type: ignore[no-untyped-def]
    chat = Chat(tokenizer)
    return [chat.prompt_ids(PROMPTS[row % 3]) for row in range(6)]


@pytest.mark.parametrize('temperature', [0, 1.0, 1.7])
def test_it_says_what_plain_says(temperature: float, model, tokenizer, prompts) -> None:  # type: ignore[no-untyped-def]
    limits = [60, 60, 3, 1, 200, 60]
    said = generate(
        open_engine('continuous_batching', model, tokenizer), prompts, limits, temperature=temperature, seed=5
    )
    assert said == generate(open_engine('plain', model, tokenizer), prompts, limits, temperature=temperature, seed=5)
    assert [len(turn.ids) <= limit for turn, limit in zip(said, limits, strict=True)] == [True] * 6
    assert {turn.ids[-1] == tokenizer.eos_token_id for turn in said if turn.finished} == {True}
    assert [turn.finished for turn in said[2:4]] == [False, False]


def conversations(engine, chat: Chat, order: list[int]) -> list[list[Generation]]:  # type: ignore[no-untyped-def]
    """Two turns of six conversations; ``order`` says in which order the tools of the first turn answer."""
    answer = chat.answer_ids([('run_command', 'a.txt\n' * 5)])
    said: list[list[Generation]] = [[] for _ in order]
    held: list[int] = []
    with engine.open(len(order), temperature=1.0, seed=3) as stream:
        for row in range(len(order)):
            stream.extend(row, chat.prompt_ids(PROMPTS[row % 3]), 40)
        while stream.asked or held:
            for row, turn in stream.advance() if stream.asked else ():
                said[row].append(turn)
                if len(said[row]) == 1:
                    held.append(row)
            for row in order:
                if row in held and (not stream.asked or random.random() < 0.5):
                    held.remove(row)
                    stream.extend(row, answer, 40)
    return said


def test_what_is_sampled_does_not_depend_on_who_waits(model, tokenizer) -> None:  # type: ignore[no-untyped-def]
    chat, engine = Chat(tokenizer), open_engine('continuous_batching', model, tokenizer)
    first = conversations(engine, chat, list(range(6)))
    assert [len(turns) for turns in first] == [2] * 6
    assert conversations(engine, chat, [5, 2, 0, 4, 1, 3]) == first
    assert conversations(open_engine('plain', model, tokenizer), chat, list(range(6))) == first


@pytest.mark.filterwarnings('ignore::FutureWarning')  # peft uses a name that transformers calls deprecated
def test_each_batch_is_computed_with_the_adapter_as_it_stands(model, tokenizer, prompts) -> None:  # type: ignore[no-untyped-def]
    policy = get_peft_model(model, LoraConfig(r=4, target_modules='all-linear', task_type='CAUSAL_LM'))
    policy.train()
    engine, plain = (open_engine(name, policy, tokenizer) for name in ('continuous_batching', 'plain'))
    before = generate(engine, prompts, [30] * 6, temperature=0)
    torch.manual_seed(0)
    for scale in (0.5, 1.5):
        with torch.no_grad():
            for name, parameter in policy.named_parameters():
                if 'lora_B' in name:
                    parameter.normal_(std=scale)
        after = generate(engine, prompts, [30] * 6, temperature=0)
        assert after == generate(plain, prompts, [30] * 6, temperature=0)
        assert after != before
        before = after
    assert policy.training
    assert model.config._attn_implementation == 'sdpa'
    assert all(parameter.grad is None for parameter in policy.parameters())


def test_other_random_numbers_are_left_alone(model, tokenizer, prompts) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(7)
    state = torch.get_rng_state()
    generate(open_engine('continuous_batching', model, tokenizer), prompts, [10] * 6, temperature=1.0)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_conversation_that_outgrows_the_cache_gets_a_larger_one(model, tokenizer, prompts) -> None:  # type: ignore[no-untyped-def]
    said = {}
    for name in ('continuous_batching', 'plain'):
        turns: list[Generation] = []
        with open_engine(name, model, tokenizer).open(2, temperature=1.0, seed=2) as stream:  # type: ignore[arg-type]
            for row in range(2):
                stream.extend(row, prompts[row], 8)
            for length in (0, 500):
                while stream.asked:
                    turns += [turn for _, turn in stream.advance()]
                if not length:
                    stream.extend(1, prompts[2] * 10, 30)
        said[name] = turns
    assert said['continuous_batching'] == said['plain']
    assert len(said['plain']) == 3


@pytest.mark.parametrize(
    ('made', 'config'),
    [
        (LlamaForCausalLM, LlamaConfig(**TINY, num_attention_heads=4, num_key_value_heads=2)),
        (
            Gemma3ForCausalLM,
            Gemma3TextConfig(
                **TINY,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=8,
                sliding_window=6,
                layer_types=['sliding_attention', 'sliding_attention', 'full_attention'],
            ),
        ),
    ],
    ids=['grouped heads', 'sliding window'],
)
def test_other_architectures(made, config, tokenizer) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    other = made(config).eval()
    prompts = [[5, 9, 2], [7] * 14, [3, 4, 3, 4, 3], [5, 9, 2]]
    said, plain = (
        generate(open_engine(name, other, tokenizer), prompts, [40, 40, 12, 40], temperature=1.0, seed=1)
        for name in ('continuous_batching', 'plain')
    )
    assert said == plain


def test_what_goes_wrong_beside_is_an_error_here(model, tokenizer, prompts, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError('the device is gone')

    monkeypatch.setattr(model, 'forward', fail)
    with pytest.raises(GenerationError, match='the device is gone'):
        generate(open_engine('continuous_batching', model, tokenizer), prompts, [10] * 6, temperature=0)
    assert model.config._attn_implementation == 'sdpa'


def test_a_batch_that_is_given_up_leaves_nothing_running(model, tokenizer, prompts) -> None:  # type: ignore[no-untyped-def]
    engine = ContinuousBatchingEngine(model, tokenizer)
    engine._ends = frozenset()
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt), engine.open(6, temperature=1.0, seed=1) as stream:
        for row, prompt in enumerate(prompts):
            stream.extend(row, prompt, 4 if row == 0 else 2000)
        assert [row for row, _ in stream.advance() or stream.advance()] in ([0], [])
        raise KeyboardInterrupt
    assert threading.active_count() == threads


def test_a_model_without_keys_and_values_is_refused(model, tokenizer) -> None:  # type: ignore[no-untyped-def]
    model.config.layer_types = ['linear_attention'] * 4
    with pytest.raises(ConfigError, match='do not keep keys and values') as caught:
        open_engine('continuous_batching', model, tokenizer)
    assert caught.value.fields[0].loc == 'rl.generationEngine'
