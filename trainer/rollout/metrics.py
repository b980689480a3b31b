"""The numbers of a step, computed over groups as the spec names them (spec section 6); missing is absent, never 0."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from trainer.recording import Rollout
from trainer.schedule import teaches

Group = Sequence[Rollout]
EPSILON = 1e-4
"""Added to the spread that advantages are divided by, as TRL does."""


def step_metrics(groups: Sequence[Group], trained: Sequence[Group] | None = None) -> dict[str, float]:
    """Metrics of the groups that were played in one step; ``trained`` are those it learned from, if not all.

    ``rewards/TfcodeEnv/std`` is the mean over groups of the sample standard deviation within the group, and
    ``frac_reward_zero_std`` the share of groups whose rewards are all the same, both of what was learned from; errors
    are left out of both.
    """
    rollouts = [rollout for group in groups for rollout in group]
    values: dict[str, float] = {'rollouts': float(len(rollouts))}
    if rewards := _rewards(rollouts):
        values['rewards/TfcodeEnv/mean'] = statistics.fmean(rewards)
    scored = [scored for group in (groups if trained is None else trained) if (scored := _rewards(group))]
    if scored:
        values['frac_reward_zero_std'] = statistics.fmean(float(not teaches(group)) for group in scored)
    spreads = [statistics.stdev(group) for group in scored if len(group) > 1]
    if spreads:
        values['rewards/TfcodeEnv/std'] = statistics.fmean(spreads)
    errors = sum(rollout.verdict.outcome == 'error' for rollout in rollouts)
    values['checker/errors'] = float(errors)
    values['checker/error_share'] = errors / len(rollouts)
    return values | _tool_metrics(rollouts) | _length_metrics(rollouts)


def _tool_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    turns = [turn for rollout in rollouts for turn in rollout.turns]
    calls = [call for turn in turns for call in turn.calls]
    values = {'tools/call_frequency': len(calls) / len(rollouts)}
    if calls:
        values['tools/failure_frequency'] = statistics.fmean(float(not call.ok) for call in calls)
    if turns:
        values['tools/unreadable_frequency'] = statistics.fmean(float(turn.unreadable) for turn in turns)
    budget = ('tool_budget', 'token_budget')
    values['episodes/budget_share'] = statistics.fmean(float(rollout.ending in budget) for rollout in rollouts)
    values['episodes/answer_did_not_fit_share'] = statistics.fmean(
        float(rollout.ending == 'tool_answer_did_not_fit') for rollout in rollouts
    )
    return values


def _length_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    return {
        'completions/mean_length': statistics.fmean(rollout.tokens for rollout in rollouts),
        'completions/max_length': float(max(rollout.tokens for rollout in rollouts)),
        'completions/clipped_ratio': statistics.fmean(float(rollout.ending == 'token_budget') for rollout in rollouts),
    }


def advantages(groups: Sequence[Sequence[float | None]], scale: str) -> list[list[float | None]]:
    """Advantages as TRL computes them, for the record: reward minus group mean, over the spread that ``scale`` names.

    ``None`` (an error) stays ``None``: it is left out of the mean and the spread and moves nothing.
    """
    every = [reward for group in groups for reward in group if reward is not None]
    batch_std = statistics.stdev(every) if len(every) > 1 else 0.0
    result: list[list[float | None]] = []
    for group in groups:
        scored = [reward for reward in group if reward is not None]
        mean = statistics.fmean(scored) if scored else 0.0
        group_std = statistics.stdev(scored) if len(scored) > 1 else 0.0
        divisor = {'batch': batch_std + EPSILON, 'group': group_std + EPSILON, 'none': 1.0}[scale]
        result.append([None if reward is None else (reward - mean) / divisor for reward in group])
    return result


def _rewards(group: Iterable[Rollout]) -> list[float]:
    return [rollout.verdict.reward for rollout in group if rollout.verdict.reward is not None]
