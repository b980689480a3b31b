"""Pass rates and tiers as they look: three notches and a word, a bar with the mean and its 95 % interval."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from studio.documents.pass_rates import TIERS, PassRate, Tier
from studio.ui.components.elements import Text
from studio.ui.components.wording import ago, plural

NOTCHES: Final[dict[Tier, tuple[str, str, str]]] = {
    'hard': ('warn', '', ''),
    'band': ('', 'ok', ''),
    'easy': ('', '', 'info'),
    'unknown': ('', '', ''),
}
"""Which of the three notches of a tier is filled, and in which colour."""
WIDTH: Final = 88
"""Width of the bar in its own units; the dot keeps off both ends."""
_DOT: Final = 4


def tier_badge(tier: Tier, text: str = '') -> ui.element:
    """Draw the notches of a tier with its word, or with ``text`` in its place."""
    with ui.element('span').classes('tier' if tier != 'unknown' else 'tier t3') as badge:
        with ui.element('span').classes('tg').props('aria-hidden=true'):
            for colour in NOTCHES[tier]:
                ui.element('i').classes(colour)
        Text(text or TIERS[tier], classes='num')
    return badge


def rate_cell(rate: PassRate | None) -> dict[str, Any]:
    """What the table's cell for a pass rate shows: a bar with words, or words for why there is none.

    ``low``, ``width`` and ``dot`` are in the units of the bar.
    """
    if rate is None:
        return {'words': 'Not calibrated', 'title': 'No attempt of this model was counted'}
    if rate.is_stale:
        title = f'An earlier version was measured {ago(rate.measured_at)}: calibrate this one'
        return {'words': 'Changed since', 'title': title}
    if rate.rate is None:
        return {'words': f'Not scored, {plural(rate.errors, "error")}', 'title': rate.error or 'Only errors'}
    low, high = rate.interval
    return {
        'count': f'{rate.passes}/{rate.attempts}',
        # Halves are rounded up, as on paper: 5 of 8 is 63 %.
        'percent': f'· {int(rate.rate * 100 + 0.5)}%',
        'low': round(low * WIDTH, 1),
        'high': round(min(high * WIDTH, WIDTH - 1), 1),
        'width': round((high - low) * WIDTH, 1),
        'dot': round(_DOT + rate.rate * (WIDTH - 2 * _DOT), 1),
        'label': f'{rate.passes} of {rate.attempts} attempts passed, '
        f'95% interval {round(low * 100)} to {round(high * 100)} percent',
        'title': rate_words(rate),
    }


def rate_words(rate: PassRate) -> str:
    """All that is known, in words."""
    low, high = rate.interval
    words = [f'{rate.passes} of {rate.attempts} attempts passed, {low:.0%} to {high:.0%}']
    if any(0.0 < float(reward) < 1.0 for reward in rate.rewards) and rate.mean_reward is not None:
        words.append(f'with partial rewards, {rate.mean_reward:.2f} on average')
    if rate.errors:
        words.append(f'{plural(rate.errors, "error")} not counted: {rate.error}' if rate.error else
                     f'{plural(rate.errors, "error")} not counted')  # fmt: skip
    return '; '.join(words)


def tier_cell(tier: Tier) -> dict[str, Any]:
    """What the table's cell for a tier shows."""
    return {'word': TIERS[tier], 'notches': list(NOTCHES[tier]), 'kind': 't3' if tier == 'unknown' else ''}
