"""The numbers of a step on hand-made groups: errors are no zeros, and zero spread is counted per group."""

import math

import pytest
import torch

from trainer.recording import Rollout, ToolRecord, Turn
from trainer.rollout.metrics import advantages, step_metrics
from trainer.verdict import Verdict


def rollout(reward: float | None, *, tokens: int = 10, ending: str = 'answer', calls: tuple[bool, ...] = ()) -> Rollout:
    verdict = Verdict.not_scored('broken') if reward is None else Verdict.scored(reward)
    turn = Turn(text='', tokens=tokens, calls=tuple(ToolRecord(name='read_file', ok=ok) for ok in calls))
    return Rollout(step=1, task='t', prompt='p', turns=(turn,), ending=ending, verdict=verdict, tokens=tokens)


def test_zero_spread_is_counted_by_group_not_over_the_batch() -> None:
    groups = [[rollout(1.0), rollout(1.0)], [rollout(0.0), rollout(0.0)], [rollout(0.0), rollout(1.0)]]
    values = step_metrics(groups)
    assert values['rewards/TfcodeEnv/mean'] == pytest.approx(0.5)
    assert values['frac_reward_zero_std'] == pytest.approx(2 / 3)
    assert values['rewards/TfcodeEnv/std'] == pytest.approx(math.sqrt(0.5) / 3)


def test_errors_are_left_out_and_counted() -> None:
    values = step_metrics([[rollout(1.0), rollout(None)], [rollout(0.0), rollout(1.0)]])
    assert values['rewards/TfcodeEnv/mean'] == pytest.approx(2 / 3)
    assert values['checker/errors'] == 1
    assert values['checker/error_share'] == pytest.approx(0.25)


def test_nothing_scored_leaves_the_numbers_out() -> None:
    """Case D4 (b): all errors must not read as "fine"."""
    values = step_metrics([[rollout(None), rollout(None)]])
    assert values['checker/error_share'] == 1.0
    assert not {'rewards/TfcodeEnv/mean', 'rewards/TfcodeEnv/std', 'frac_reward_zero_std'} & set(values)


def test_tools_lengths_and_budgets() -> None:
    group = [
        rollout(1.0, tokens=10, calls=(True, False)),
        rollout(0.0, tokens=30, ending='token_budget'),
        rollout(0.0, tokens=20, ending='tool_budget', calls=(True,)),
        rollout(0.0, tokens=20),
    ]
    values = step_metrics([group])
    assert values['tools/call_frequency'] == pytest.approx(0.75)
    assert values['tools/failure_frequency'] == pytest.approx(1 / 3)
    assert values['completions/mean_length'] == 20
    assert values['completions/clipped_ratio'] == pytest.approx(0.25)
    assert values['episodes/budget_share'] == pytest.approx(0.5)


def test_no_calls_means_no_failure_frequency() -> None:
    assert 'tools/failure_frequency' not in step_metrics([[rollout(0.0), rollout(1.0)]])


@pytest.mark.parametrize('scale', ['batch', 'group', 'none'])
def test_advantages_equal_those_of_the_loss(scale: str) -> None:
    """The same formula as TRL 1.16 in ``_generate_and_score_completions``, with its nan-aware functions."""
    from trl.trainer.utils import nanstd

    rewards = torch.tensor([1.0, 0.0, 0.5, math.nan, 0.0, 0.0, 0.0, 0.0]).view(2, 4)
    mean = torch.nanmean(rewards, dim=1, keepdim=True)
    spread = {
        'batch': nanstd(rewards.flatten()).expand_as(rewards) + 1e-4,
        'group': nanstd(rewards, dim=1).view(2, 1).expand_as(rewards) + 1e-4,
        'none': torch.ones_like(rewards),
    }[scale]
    expected = ((rewards - mean) / spread).tolist()
    found = advantages([[1.0, 0.0, 0.5, None], [0.0] * 4], scale)
    for row, wanted in zip(found, expected, strict=True):
        for value, want in zip(row, wanted, strict=True):
            assert (value is None and math.isnan(want)) or value == pytest.approx(want, abs=1e-5)
