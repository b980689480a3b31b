"""The forecast: the share of groups that carry a gradient, by task and in all, at every group size."""

import pytest

from studio.calibrations.forecast import Forecast, live_share
from studio.documents.pass_rates import PassRate
from trainer.statistics import gradient_share


def rate(passes: int, attempts: int) -> PassRate:
    rewards = {'1': passes, '0': attempts - passes}
    return PassRate(passes=passes, attempts=attempts, rewards={key: n for key, n in rewards.items() if n})


@pytest.mark.parametrize('passes', range(9))
@pytest.mark.parametrize('size', [4, 8, 16])
def test_with_rewards_of_0_and_1_it_is_the_formula(passes: int, size: int) -> None:
    assert live_share(rate(passes, 8).rewards, size) == pytest.approx(gradient_share(passes / 8, size))


def test_partial_rewards_teach_though_nothing_passes() -> None:
    partial = PassRate(attempts=8, rewards={'0.5': 4, '0.25': 4})
    assert partial.tier == 'hard' and live_share(partial.rewards, 8) == pytest.approx(1 - 2 * 0.5**8)
    assert live_share({'0.5': 8}, 8) == 0.0


def test_tasks_and_total() -> None:
    rates = {'a': rate(4, 8), 'b': rate(0, 8), 'c': rate(8, 8), 'd': PassRate(errors=8), 'e': PassRate(is_stale=True)}
    forecast = Forecast('abcdef', rates)
    assert (forecast.known, forecast.unknown, forecast.attempts) == (3, ['d', 'e', 'f'], (8, 8))
    assert dict(forecast.tiers) == {'band': 1, 'hard': 1, 'easy': 1, 'unknown': 3}
    assert forecast.total(8) == pytest.approx((1 - 2 * 0.5**8) / 3)
    assert [id for id, _ in forecast.ranked(8)] == ['a', 'b', 'c', 'd', 'e', 'f']
    assert forecast.share('b', 8) == 0.0 and forecast.share('f', 8) is None


def test_the_interval_of_the_total_narrows_with_tasks_and_attempts() -> None:
    few = Forecast('ab', {'a': rate(2, 8), 'b': rate(0, 8)})
    many = Forecast('ab', {'a': rate(16, 64), 'b': rate(0, 64)})
    (low, high), (inner_low, inner_high) = few.interval(8) or (0, 0), many.interval(8) or (0, 0)
    total = few.total(8)
    assert total is not None and low <= inner_low <= total <= inner_high <= high
    assert high - low > 2 * (inner_high - inner_low)
    ids = [str(number) for number in range(200)]
    wide = Forecast(ids, {id: rate(int(id) % 2 * 2, 8) for id in ids}).interval(8)
    assert wide is not None and wide[1] - wide[0] < (high - low) / 5
    assert Forecast('a', {}).interval(8) is None


def test_the_suggested_size_is_the_smallest_that_is_enough() -> None:
    even = Forecast('a', {'a': rate(4, 8)}).suggestion
    assert even is not None and (even.size, round(even.share, 3)) == (6, 0.969)
    rare = Forecast('a', {'a': rate(1, 10)}).suggestion
    assert rare is not None and rare.size == 15
    assert Forecast('ab', {'a': rate(0, 8), 'b': rate(8, 8)}).suggestion is None
    assert Forecast('a', {}).total(8) is None


def test_ten_thousand_tasks_cost_what_their_kinds_do() -> None:
    ids = [str(number) for number in range(10_000)]
    forecast = Forecast(ids, {id: rate(number % 9, 8) for number, id in enumerate(ids)})
    assert len(forecast._shares[8]) == 9 and forecast.known == 10_000
