"""Held-out success before and after training: the means with their intervals, and a pair of bars for every task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from nicegui import ui

from studio.ui.components.elements import Icon, Text, spacer
from studio.ui.components.panel import panel
from studio.ui.components.wording import plural, signed


@dataclass(frozen=True)
class Share:
    """Solved attempts with the bounds of their 95 % interval; ``mean`` is ``None`` where nothing was scored."""

    mean: float | None
    low: float | None
    high: float | None
    solved: int
    attempts: int


@dataclass(frozen=True)
class Pair:
    """One held-out task before and after; either may be missing."""

    task: str
    title: str
    before: Share | None
    after: Share | None


def before_after(
    before: Share | None,
    after: Share | None,
    pairs: Sequence[Pair],
    *,
    how: str = '',
    names: tuple[str, str] = ('Before, base model', 'After training'),
    legend: tuple[str, str] = ('before', 'after'),
    folded: bool = False,
    on_open: Callable[[str], Any] | None = None,
) -> None:
    """Draw the card. ``on_open(task)`` is called for a click on a task's name; ``folded`` hides the tasks at first.

    ``how`` says how often and how each task was attempted; ``names`` and ``legend`` what the two are.
    """
    with panel('Held-out success') as head:
        with head:
            Text(f'{plural(len(pairs), "task")} never trained on', classes='t3 t-small hide-s ell')
            spacer()
            _legend('c6', legend[0])
            _legend('c1', legend[1])
            _interval_legend()
        with ui.element('div').classes('ba'):
            _total(names[0], before, 't2')
            Icon('arrow-right', 'ic-l t3')
            _total(names[1], after, '')
            if before and after and before.mean is not None and after.mean is not None:
                ui.element('span').classes('vsep')
                _change(after.mean - before.mean, pairs)
        with ui.element('details' if folded else 'div').classes('ba2'):
            if folded:
                Text('Task by task', 'summary')
            with ui.element('div').classes('pairs'):
                for pair in pairs:
                    _pair(pair, on_open)
                _axis(how)


def bars_svg(before: Share | None, after: Share | None) -> str:
    """Two bars with their interval lines, built from numbers only."""
    grid = ''.join(f'<path d="M{x},0V22" stroke="var(--grid)"/>' for x in (75, 150, 225, 299.5))
    return (
        '<svg viewBox="0 0 300 22" width="100%" height="22" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(_sentence(before, after))}">{grid}{_bar(before, 3, "c6")}{_bar(after, 12, "c1")}</svg>'
    )


def _bar(share: Share | None, top: int, color: str) -> str:
    if share is None or share.mean is None or share.low is None or share.high is None:
        return f'<text x="2" y="{top + 7}" font-size="8" fill="var(--text-3)">no data</text>'
    width, low, high = (300 * value for value in (share.mean, share.low, share.high))
    middle = top + 3.5
    return (
        f'<rect x="0" y="{top}" width="{width:.1f}" height="7" fill="var(--{color})" opacity=".4"/>'
        f'<path d="M{low:.1f},{middle}H{high:.1f}" stroke="var(--{color})" stroke-width="1.5"/>'
        f'<rect x="{max(0.0, width - 1):.1f}" y="{top}" width="2" height="7" fill="var(--{color})"/>'
    )


def _sentence(before: Share | None, after: Share | None) -> str:
    words = [
        f'{name} {share.solved} of {share.attempts}' for name, share in (('before', before), ('after', after)) if share
    ]
    return ', '.join(words) or 'no data'


def _total(label: str, share: Share | None, classes: str) -> None:
    with ui.element('div'):
        Text(label, 'div', 'hint')
        if share is None or share.mean is None:
            Text('–', 'div', 'v t3')  # noqa: RUF001
            Text('not measured', 'div', 'hint')
            return
        Text(f'{share.mean:.2f}', 'div', f'v {classes}')
        bounds = f' · {share.low:.2f} to {share.high:.2f}' if share.low is not None and share.high is not None else ''
        Text(f'{share.solved} of {share.attempts}{bounds}', 'div', 'hint num')


def _change(change: float, pairs: Sequence[Pair]) -> None:
    moved = [
        pair.after.mean - pair.before.mean
        for pair in pairs
        if pair.before and pair.after and pair.before.mean is not None and pair.after.mean is not None
    ]
    up, down = sum(value > 0 for value in moved), sum(value < 0 for value in moved)
    with ui.element('div'):
        Text('Change', 'div', 'hint')
        Text(signed(change), 'div', f'v {"c-ok" if change > 0 else "c-bad" if change < 0 else ""}')
        Text(f'{plural(up, "task")} up, {down} down', 'div', 'hint num')


def _pair(pair: Pair, on_open: Callable[[str], Any] | None) -> None:
    with ui.element('div').classes('rw'):
        if on_open is None:
            name = Text(pair.title, classes='ell')
        else:
            name = Text(pair.title, 'button', 'ell linkish').on('click', lambda: on_open(pair.task), args=[])
            name.props['type'] = 'button'
        name.props['title'] = pair.title
        ui.html(bars_svg(pair.before, pair.after), sanitize=False)
        with ui.element('span').classes('d'):
            worse = bool(pair.before and pair.after and pair.after.solved < pair.before.solved)
            Text(f'{pair.before.solved if pair.before else "–"} → ')  # noqa: RUF001
            Text(str(pair.after.solved) if pair.after else '–', 'b', 'w6 c-bad' if worse else 'w6')  # noqa: RUF001
            attempts = max(share.attempts for share in (pair.before, pair.after) if share) if _any(pair) else 0
            Text(f' of {attempts}', classes='t3')


def _axis(how: str) -> None:
    with ui.element('div').classes('axr'):
        Text(how, classes='how').props['title'] = how
        with ui.element('span').classes('axl').props('aria-hidden=true'):
            for share in (0, 0.25, 0.5, 0.75, 1):
                Text(f'{share:g}', 'i').style(f'left: {100 * share:g}%')
        ui.element('span')


def _any(pair: Pair) -> bool:
    return pair.before is not None or pair.after is not None


def _legend(color: str, name: str) -> None:
    with ui.element('span').classes('leg'):
        ui.element('i').classes('sq').style(f'--k: var(--{color})')
        Text(name)


def _interval_legend() -> None:
    with ui.element('span').classes('leg hide-s'):
        ui.html(
            '<svg width="14" height="9" aria-hidden="true">'
            '<path d="M1 4.5H13" stroke="var(--text-2)" stroke-width="1.5"/>'
            '<rect x="5.5" y="0.5" width="3" height="8" rx="1" fill="var(--text-2)"/></svg>',
            sanitize=False,
        )
        Text('mean, 95% interval')
