"""The numbers of a step on hand-made groups: errors are no zeros, and zero spread is counted per group."""

import math

import pytest
import torch

from trainer.recording import Rollout, ToolRecord, Turn
from trainer.rollout.metrics import advantages, step_metrics
from trainer.verdict import Verdict


def rollout(reward: float | None, *, tokens: int = 10, ending: str = 'answer', calls: tuple[bool, ...] = ()) -> Rollout:
    verdict = Verdict.not_scored('broken') if reward is None else Verdict.scored(reward)
    turn = Turn(
        text='',
        tokens=tokens,
        unreadable=ending == 'unreadable_tool_call',
        calls=tuple(ToolRecord(name='read_file', ok=ok) for ok in calls),
    )
    return Rollout(step=1, task='t', prompt='p', turns=(turn,), ending=ending, verdict=verdict, tokens=tokens)


GOLDEN_GROUPS = [
    # mixed, with an error that is no 0 and an answer cut at the limit
    [
        rollout(1.0, tokens=40, calls=(True, True)),
        rollout(0.0, tokens=256, ending='token_budget'),
        rollout(None, tokens=12, calls=(False,)),
        rollout(0.5, tokens=52, calls=(True,)),
    ],
    # all solved, one after the last call it was allowed
    [rollout(1.0, tokens=20, calls=(True,)) for _ in range(3)]
    + [rollout(1.0, tokens=60, ending='tool_budget', calls=(True,) * 3)],
    # none solved: an unreadable call, an answer that did not fit, two that gave up
    [
        rollout(0.0, tokens=30, ending='unreadable_tool_call'),
        rollout(0.0, tokens=30, ending='tool_answer_did_not_fit', calls=(True,)),
        rollout(0.0, tokens=10),
        rollout(0.0, tokens=10),
    ],
    # nothing but errors: it has no spread, and is no group of equal rewards either
    [rollout(None, tokens=0, ending='error') for _ in range(4)],
]
"""A batch made by hand; the numbers below were worked out by hand too."""


def test_the_metrics_of_a_whole_batch() -> None:
    values = step_metrics(GOLDEN_GROUPS)
    assert values == pytest.approx(
        {
            'rollouts': 16,
            'rewards/TfcodeEnv/mean': (1.5 + 4 + 0) / 11,
            'rewards/TfcodeEnv/std': (0.5 + 0 + 0) / 3,
            'frac_reward_zero_std': 2 / 3,
            'checker/errors': 5,
            'checker/error_share': 5 / 16,
            'tools/call_frequency': 11 / 16,
            'tools/failure_frequency': 1 / 11,
            'tools/unreadable_frequency': 1 / 16,
            'episodes/budget_share': 2 / 16,
            'episodes/answer_did_not_fit_share': 1 / 16,
            'completions/mean_length': 560 / 16,
            'completions/max_length': 256,
            'completions/clipped_ratio': 1 / 16,
        }
    )


@pytest.mark.parametrize(
    ('scale', 'divisor'),
    # of the batch: 11 rewards, their squares sum to 5.25 and their mean is 0.5; of the first group: 1, 0 and 0.5
    [('batch', math.sqrt((5.25 - 11 * 0.25) / 10) + 1e-4), ('group', 0.5 + 1e-4), ('none', 1.0)],
)
def test_the_advantages_of_a_whole_batch(scale: str, divisor: float) -> None:
    found = advantages([[one.verdict.reward for one in group] for group in GOLDEN_GROUPS], scale)
    assert found[0] == [pytest.approx(0.5 / divisor), pytest.approx(-0.5 / divisor), None, pytest.approx(0.0)]
    assert found[1] == [0.0] * 4
    assert found[2] == [0.0] * 4
    assert found[3] == [None] * 4


def test_what_was_replaced_counts_as_played_and_not_as_learned_from() -> None:
    dead, live = [rollout(1.0), rollout(1.0)], [rollout(0.0), rollout(1.0)]
    values = step_metrics([dead, live], trained=[live])
    assert values['rollouts'] == 4
    assert values['rewards/TfcodeEnv/mean'] == pytest.approx(0.75)
    assert values['frac_reward_zero_std'] == 0.0


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
