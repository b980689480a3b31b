"""vLLM inside the training process, without vLLM: what is asked of TRL fits TRL, and what comes back is read right."""

import inspect
from types import SimpleNamespace

import pytest
from trl.generation.vllm_generation import VLLMGeneration

from trainer.engine_choice import Vllm
from trainer.engines import Engines, Generation, generate, vllm_colocated
from trainer.errors import ConfigError


class StandIn:
    """Takes exactly the arguments of TRL's class, and has its attributes."""

    made = 0

    def __init__(self, *arguments: object, **options: object) -> None:
        bound = inspect.signature(VLLMGeneration.__init__).bind(self, *arguments, **options)
        bound.apply_defaults()
        self.__dict__.update(bound.arguments)
        self.calls: list[tuple[object, int, float, int]] = []
        self.synced: list[object] = []
        StandIn.made += 1

    def sync_weights(self) -> None:
        self.synced.append(self.model)

    def generate(self, *arguments: object, **options: object):  # type: ignore[no-untyped-def]
        bound = inspect.signature(VLLMGeneration.generate).bind(self, *arguments, **options).arguments
        prompts = bound['prompts']
        self.calls.append((prompts, bound['num_generations'], self.temperature, self.max_completion_length))
        return prompts, [[5, 6, 7, 2][: self.max_completion_length] for _ in prompts], None, None


def policy(name: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, generation_config=SimpleNamespace(eos_token_id=[2, 3]))


@pytest.fixture
def engines(tmp_path, monkeypatch):  # type: ignore[no-untyped-def]
    monkeypatch.setattr('trainer.engines.find_vllm', lambda: Vllm('colocated'))
    monkeypatch.setattr(vllm_colocated, 'VLLMGeneration', StandIn)
    monkeypatch.setattr(vllm_colocated, 'Accelerator', lambda **options: options)
    monkeypatch.setattr(StandIn, 'made', 0)
    return Engines('vllm', SimpleNamespace(eos_token_id=2), folder=tmp_path, lora_rank=16)


def test_one_vllm_serves_every_policy_with_its_weights_as_they_stand(engines) -> None:  # type: ignore[no-untyped-def]
    first, second = policy('base'), policy('adapter')
    engine = engines.engine(first)
    assert generate(engine, [[1], [1, 9]], [10, 2], temperature=0.5) == [
        Generation([5, 6, 7, 2], finished=True),
        Generation([5, 6], finished=False),
    ]
    engine = engines.engine(second)
    generate(engine, [[1]], [4], temperature=1.0)
    engines.close()
    trl = engine._generation
    assert StandIn.made == 1
    assert trl.synced == [first, second]
    assert trl.calls == [([[1], [1, 9]], 1, 0.5, 10), ([[1]], 1, 1.0, 4)]
    assert (trl.mode, trl.top_k, trl.top_p, trl.min_p) == ('colocate', 0, 1.0, 0.0)
    assert trl.generation_kwargs == {'stop_token_ids': [2, 3]}
    assert trl.accelerator == {'mixed_precision': 'bf16'}


def test_trl_keeps_what_is_set_between_batches() -> None:
    source = inspect.getsource(VLLMGeneration)
    for name in ('model', 'temperature', 'max_completion_length', 'generation_kwargs'):
        assert f'= self.{name}' in source or f'(self.{name})' in source


def test_vllm_that_went_away_after_the_launch_is_refused(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr('trainer.engines.find_vllm', lambda: 'vllm cannot run here: it was not found')
    with pytest.raises(ConfigError, match='it was not found') as caught:
        Engines('vllm', SimpleNamespace(eos_token_id=2), folder=tmp_path, lora_rank=16).engine(policy('base'))
    assert caught.value.fields[0].loc == 'rl.generationEngine'
