"""Plots of a model card as static SVG: held-out success before and after, and a series over the steps.

Drawn from numbers and escaped titles alone, on a white ground, so that they read the same wherever a card is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from trainer.evaluation import Evaluation, TaskResult

BEFORE: Final = '#5b6675'
AFTER: Final = '#2f5fe0'
INK: Final = '#1c2430'
FAINT: Final = '#667080'
GRID: Final = '#e3e6eb'
FONT: Final = 'font-family="Inter, Helvetica, Arial, sans-serif"'
MAX_ROWS: Final = 40
"""Tasks drawn; a longer list is cut and says so."""
LEFT: Final = 250
BAR: Final = 380


def success_svg(before: Evaluation | None, after: Evaluation | None) -> str:
    """A pair of bars with 95 % intervals in total and for each held-out task."""
    first = {task.id: task for task in before.tasks} if before else {}
    second = {task.id: task for task in after.tasks} if after else {}
    ids = list(dict.fromkeys((*second, *first)))
    rows: list[tuple[str, TaskResult | Evaluation | None, TaskResult | Evaluation | None]] = [
        ('All tasks', before, after)
    ]
    for id in ids[:MAX_ROWS]:
        task = second.get(id) or first[id]
        rows.append((task.title or id, first.get(id), second.get(id)))
    height = 46 + 30 * len(rows) + (40 if len(ids) > MAX_ROWS else 24)
    parts = [_text(LEFT, 22, 'before', BEFORE, weight=600), _text(LEFT + 60, 22, 'after', AFTER, weight=600)]
    parts.append(_text(LEFT + 110, 22, 'share of attempts solved, 95 % interval', FAINT))
    bottom = 40 + 30 * len(rows)
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = LEFT + BAR * share
        parts.append(f'<path d="M{x:.1f} 34V{bottom}" stroke="{GRID}"/>')
        parts.append(_text(x, bottom + 14, f'{share:g}', FAINT, anchor='middle'))
    for number, (title, old, new) in enumerate(rows):
        top = 40 + 30 * number
        parts.append(_text(10, top + 17, _cut(title), INK, weight=600 if number == 0 else 400))
        parts += [_bar(old, top + 3, BEFORE), _bar(new, top + 14, AFTER)]
        parts.append(_text(LEFT + BAR + 12, top + 17, _counts(old, new), INK))
    if len(ids) > MAX_ROWS:
        parts.append(_text(10, bottom + 32, f'and {len(ids) - MAX_ROWS} more tasks', FAINT))
    return _svg(LEFT + BAR + 120, height, 'Held-out success before and after training', parts)


def curve_svg(title: str, points: Sequence[tuple[int, float]]) -> str:
    """A series of shares (0 to 1) over the steps."""
    width, height, left, top, high = 640, 220, 44, 40, 140
    last = max((step for step, _ in points), default=1) or 1
    parts = [_text(left, 22, title, INK, weight=600)]
    for share in (0, 0.5, 1):
        y = top + high * (1 - share)
        parts.append(f'<path d="M{left} {y:.1f}H{width - 16}" stroke="{GRID}"/>')
        parts.append(_text(left - 8, y + 4, f'{share:g}', FAINT, anchor='end'))
    place = [
        (left + (width - 16 - left) * step / last, top + high * (1 - min(1.0, max(0.0, value))))
        for step, value in points
    ]
    line = ' '.join(f'{x:.1f},{y:.1f}' for x, y in place)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{AFTER}" stroke-width="1.5"/>')
    if len(place) == 1:
        parts.append(f'<circle cx="{place[0][0]:.1f}" cy="{place[0][1]:.1f}" r="3" fill="{AFTER}"/>')
    parts.append(_text(left, top + high + 18, '0', FAINT))
    parts.append(_text(width - 16, top + high + 18, f'step {last:,}', FAINT, anchor='end'))
    return _svg(width, height, title, parts)


def _bar(result: TaskResult | Evaluation | None, top: int, color: str) -> str:
    if result is None or result.attempts == 0:
        return _text(LEFT + 4, top + 8, 'not measured', FAINT, size=9)
    width, low, high = (BAR * value for value in (result.solved / result.attempts, result.low, result.high))
    middle = top + 4.5
    return (
        f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="9" fill="{color}" opacity=".35"/>'
        f'<path d="M{LEFT + low:.1f} {middle}H{LEFT + high:.1f}" stroke="{color}" stroke-width="1.5"/>'
        f'<rect x="{LEFT + max(0.0, width - 1.5):.1f}" y="{top}" width="3" height="9" fill="{color}"/>'
    )


def _counts(old: TaskResult | Evaluation | None, new: TaskResult | Evaluation | None) -> str:
    words = [f'{result.solved}/{result.attempts}' if result else 'none' for result in (old, new)]
    return ' → '.join(words)


def _cut(title: str) -> str:
    return title if len(title) <= 38 else f'{title[:37]}…'


def _text(
    x: float, y: float, text: str, color: str, *, anchor: str = 'start', weight: int = 400, size: int = 12
) -> str:
    # Characters that XML does not know (NUL, escapes) would make the whole picture unreadable.
    clean = ''.join(letter if letter.isprintable() else ' ' for letter in text)
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(clean)}</text>'
    )


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'{FONT} role="img"><title>{escape(title)}</title>'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )
