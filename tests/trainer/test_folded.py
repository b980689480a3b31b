"""An adapter folded into the weights computes what it computes beside them, and leaves the model as it was."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from trainer.engines.folded import Folded
from trainer.policy import without_warnings


def model(**options: object):  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    sizes = {'num_attention_heads': 4, 'num_key_value_heads': 2, 'num_hidden_layers': 2}
    base = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, **sizes))
    config = LoraConfig(r=4, target_modules='all-linear', init_lora_weights=False, task_type='CAUSAL_LM', **options)
    with without_warnings():
        return get_peft_model(base, config).eval()


@torch.no_grad()
def logits(policy) -> torch.Tensor:  # type: ignore[no-untyped-def]
    return policy(input_ids=torch.arange(12)[None]).logits  # type: ignore[no-any-return]


def test_folded_is_what_it_is_beside() -> None:
    policy = model()
    before = logits(policy)
    folded = Folded(policy)
    with folded.applied():
        assert torch.allclose(logits(policy), before, atol=1e-5)
        assert not torch.equal(logits(policy), before), 'nothing was folded'
    assert torch.equal(logits(policy), before)
    assert not any('forward' in vars(layer) for layer in policy.modules())


def test_an_adapter_that_is_switched_off_is_not_folded_in() -> None:
    policy = model()
    with policy.disable_adapter():
        base = logits(policy)
        folded = Folded(policy)
        with folded.applied():
            assert torch.equal(logits(policy), base)
    with folded.applied():
        assert torch.equal(logits(policy), base), 'it keeps the state it was made in'


@pytest.mark.parametrize('options', [{'use_dora': True}, {'dtype': torch.bfloat16}], ids=['DoRA', 'bfloat16'])
def test_what_would_round_or_is_more_than_a_product_is_left_alone(options) -> None:  # type: ignore[no-untyped-def]
    kind = options.pop('dtype', torch.float32)
    policy = model(**options).to(kind)
    before = logits(policy)
    with Folded(policy).applied():
        assert torch.equal(logits(policy), before)


def test_training_goes_on_beside() -> None:
    policy = model()
    with Folded(policy).applied():
        logits(policy)
    policy.train()
    policy(input_ids=torch.arange(12)[None]).logits.sum().backward()
    assert all(weight.grad is not None for name, weight in policy.named_parameters() if 'lora_' in name)
