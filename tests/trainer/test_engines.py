"""The engines: limits, ends, repeats, conversations that come and go, and what a cache must not change."""

import random

import pytest
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GemmaForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)

from trainer.config import parse_settings, plan
from trainer.engines import Generation, generate, open_engine
from trainer.engines.plain import PlainEngine
from trainer.engines.rounds import Rounds
from trainer.engines.whole_batches import WholeBatchEngine
from trainer.hardware import detect
from trainer.models import STARTER
from trainer.policy import load_model, load_tokenizer
from trainer.rollout.chat import Chat


@pytest.fixture(scope='module')
def parts():  # type: ignore[no-untyped-def]
    tokenizer = load_tokenizer(STARTER)
    model = load_model(STARTER, detect())
    return Chat(tokenizer), open_engine('plain', model, tokenizer), tokenizer


PROMPTS = ['Create a file named zub.txt with the word karo in it.', 'Delete old.md', 'Make the folders a and b.']


def test_greedy_is_what_transformers_generates(parts) -> None:  # type: ignore[no-untyped-def]
    chat, engine, tokenizer = parts
    prompts = [chat.prompt_ids(prompt) for prompt in PROMPTS]
    model = load_model(STARTER, detect())
    for prompt, turn in zip(prompts, generate(engine, prompts, [60] * 3, temperature=0), strict=True):
        whole = model.generate(
            input_ids=torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=60,
            do_sample=False,
        )
        assert turn.ids == whole[0, len(prompt) :].tolist()
        assert turn.finished
        assert turn.ids[-1] == tokenizer.eos_token_id
        assert tokenizer.eos_token_id not in turn.ids[:-1]


def test_greedy_in_a_batch_equals_greedy_alone(parts) -> None:  # type: ignore[no-untyped-def]
    chat, engine, _ = parts
    prompts = [chat.prompt_ids(prompt) for prompt in PROMPTS]
    together = generate(engine, prompts, [60] * 3, temperature=0)
    alone = [generate(engine, [prompt], [60], temperature=0)[0] for prompt in prompts]
    assert together == alone


def test_each_turn_keeps_its_own_limit(parts) -> None:  # type: ignore[no-untyped-def]
    chat, engine, _ = parts
    prompt = chat.prompt_ids(PROMPTS[0])
    short, long = generate(engine, [prompt, prompt], [2, 200], temperature=0)
    assert (len(short.ids), short.finished) == (2, False)
    assert long.ids[:2] == short.ids
    assert long.finished


def test_a_model_without_an_end_fills_its_limit(parts) -> None:  # type: ignore[no-untyped-def]
    chat, _, tokenizer = parts
    engine = PlainEngine(load_model(STARTER, detect()), tokenizer)
    engine._ends = frozenset()
    (turn,) = generate(engine, [chat.prompt_ids('Delete old.md')], [300], temperature=1.0)
    assert (len(turn.ids), turn.finished) == (300, False)


def conversations(engine, chat: Chat, order: list[int], seed: int = 3) -> list[list[Generation]]:  # type: ignore[no-untyped-def]
    """Two turns of nine conversations; ``order`` says in which order the tools of the first turn answer."""
    prompts = [chat.prompt_ids(PROMPTS[row % 3]) for row in range(9)]
    answer = chat.answer_ids([('run_command', 'a.txt\n' * 5)])
    said: list[list[Generation]] = [[] for _ in prompts]
    held: list[int] = []
    with engine.open(9, temperature=1.0, seed=seed) as stream:
        for row, prompt in enumerate(prompts):
            stream.extend(row, prompt, 60)
        while stream.asked or held:
            for row, turn in stream.advance() if stream.asked else ():
                said[row].append(turn)
                if len(said[row]) == 1:
                    held.append(row)
            for row in order:
                if row in held and (not stream.asked or random.random() < 0.3):
                    held.remove(row)
                    stream.extend(row, answer, 40)
    return said


def test_what_is_sampled_does_not_depend_on_who_waits(parts) -> None:  # type: ignore[no-untyped-def]
    chat, engine, _ = parts
    first = conversations(engine, chat, list(range(9)))
    assert [len(turns) for turns in first] == [2] * 9
    for _ in range(3):
        assert conversations(engine, chat, random.sample(range(9), 9)) == first
    assert conversations(engine, chat, list(range(9)), seed=4) != first


def test_samples_follow_the_models_distribution(parts) -> None:  # type: ignore[no-untyped-def]
    """The first token of 4,000 samples against its probabilities; same prompts are computed once."""
    chat, engine, _ = parts
    prompt = chat.prompt_ids(PROMPTS[0])
    model = load_model(STARTER, detect())
    with torch.no_grad():
        wanted = model(torch.tensor([prompt])).logits[0, -1].div(1.5).softmax(-1)
    turns = generate(engine, [prompt] * 4000, [1] * 4000, temperature=1.5, seed=8)
    counts = torch.bincount(torch.tensor([turn.ids[0] for turn in turns]), minlength=len(wanted))
    error = (wanted * (1 - wanted) / 4000).sqrt()
    assert ((counts / 4000 - wanted).abs() <= 5 * error + 1e-3).all()


TINY = {'vocab_size': 97, 'hidden_size': 32, 'intermediate_size': 48, 'num_hidden_layers': 3, 'eos_token_id': 96}
MODELS = {
    'grouped heads': (LlamaForCausalLM, LlamaConfig(**TINY, num_attention_heads=4, num_key_value_heads=2)),
    'one head for all': (
        GemmaForCausalLM,
        GemmaConfig(**TINY, num_attention_heads=4, num_key_value_heads=1, head_dim=8),
    ),
    'sliding window': (
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
}


@pytest.mark.parametrize('kind', MODELS)
def test_other_architectures_keep_their_logits(kind: str, parts) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    made, config = MODELS[kind]
    model = made(config).eval()
    engine = PlainEngine(model, parts[2])
    prompts = [[5, 9, 2], [7] * 14, [3, 4, 3, 4, 3], [5, 9, 2]]
    with engine.open(4, temperature=0, seed=0) as stream:
        texts = [list(prompt) for prompt in prompts]
        for row, prompt in enumerate(prompts):
            stream.extend(row, prompt, 20)
        for answered in (False, True):
            while stream.asked:
                for row, turn in stream.advance():
                    texts[row] += turn.ids
            for row in range(4):
                if not answered:
                    texts[row] += [11, 12, 13]
                    stream.extend(row, [11, 12, 13], 10)
    for text, prompt in zip(texts, prompts, strict=True):
        with torch.no_grad():
            said = model(torch.tensor([text])).logits[0].argmax(-1).tolist()
        start = len(prompt)
        wrong = [place for place in range(start, len(text)) if said[place - 1] != text[place]]
        # Only the three tokens of the answer are not the model's.
        assert [text[place] for place in wrong if text[place] not in (11, 12, 13)] == []


def test_auto_is_resolved_before_a_run() -> None:
    assert plan(parse_settings({})[0], STARTER, 4).engine == 'plain'


def test_models_that_keep_no_tokens_are_generated_in_whole_batches(parts) -> None:  # type: ignore[no-untyped-def]
    chat, engine, tokenizer = parts
    model = load_model(STARTER, detect())
    whole = WholeBatchEngine(model, tokenizer)
    prompts = [chat.prompt_ids(prompt) for prompt in PROMPTS]
    assert generate(whole, prompts, [60, 3, 60], temperature=0) == generate(engine, prompts, [60, 3, 60], temperature=0)
    first = generate(whole, prompts, [60] * 3, temperature=1.0, seed=5)
    assert generate(whole, prompts, [60] * 3, temperature=1.0, seed=5) == first
    assert isinstance(open_engine('plain', model, tokenizer), PlainEngine)
    model.config.layer_types = ['linear_attention'] * 4
    assert isinstance(open_engine('plain', model, tokenizer), WholeBatchEngine)


def test_rounds_serve_what_is_asked_together() -> None:
    calls = []

    def double(conversations, limits):  # type: ignore[no-untyped-def]
        calls.append(([list(ids) for ids in conversations], list(limits)))
        return [Generation([ids[-1] * 2], finished=True) for ids in conversations]

    stream = Rounds(3, double)
    for row in (2, 0):
        stream.extend(row, [row + 1], 9)
    assert stream.asked == 2
    assert stream.advance() == [(0, Generation([2], True)), (2, Generation([6], True))]
    stream.extend(2, [5], 7)
    assert stream.advance() == [(2, Generation([10], True))]
    assert calls == [([[1], [3]], [9, 9]), ([[3, 6, 5]], [7])]
