"""Durations, sizes, times and numbers in words, the same on every page."""

from __future__ import annotations

from datetime import UTC, datetime

from trainer.events import RunState

MINUS = '−'  # noqa: RUF001  (U+2212, as the design wants it)

STATES: dict[RunState, tuple[str, str, str]] = {
    'queued': ('Queued', '', 'clock'),
    'preparing': ('Preparing', 'ok', ''),
    'cold_start': ('Cold start', 'ok', ''),
    'training': ('Training', 'ok', ''),
    'evaluating': ('Evaluating', 'ok', ''),
    'finished': ('Finished', 'info', 'check'),
    'failed': ('Failed', 'bad', 'x'),
    'stopped': ('Stopped', 'warn', 'pause'),
    'interrupted': ('Interrupted', 'warn', 'triangle-alert'),
}
"""State → word, colour and icon; a state without an icon is live and has the pulsing dot."""


def duration(seconds: float | None) -> str:
    """``8 s``, ``3 min 20 s``, ``39 min``, ``1 h 12 min``, ``2 d 3 h``; a dash where it is not known."""
    if seconds is None:
        return '–'  # noqa: RUF001
    whole = max(0, round(seconds))
    if whole < 60:
        return f'{whole} s'
    minutes, rest = divmod(whole, 60)
    if minutes < 10 and rest:
        return f'{minutes} min {rest} s'
    if minutes < 60:
        return f'{minutes} min'
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f'{hours} h {minutes} min' if minutes else f'{hours} h'
    days, hours = divmod(hours, 24)
    return f'{days} d {hours} h' if hours else f'{days} d'


def ago(then: datetime | None, now: datetime | None = None) -> str:
    """``just now``, ``12 min ago``, ``3 h ago``, ``yesterday``, then the date."""
    if then is None:
        return '–'  # noqa: RUF001
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    if seconds < 60:
        return 'just now'
    if seconds < 3600:
        return f'{int(seconds // 60)} min ago'
    if seconds < 86400:
        return f'{int(seconds // 3600)} h ago'
    return then.astimezone().strftime('%-d %b %Y')


def size(count: float) -> str:
    """Bytes with a decimal unit: ``1.9 kB``, ``18.4 MB``."""
    for unit in ('B', 'kB', 'MB'):
        if count < 1000:
            return f'{count:.0f} B' if unit == 'B' else f'{count:.1f} {unit}'
        count /= 1000
    return f'{count:.1f} GB'


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign, none where it is rounded to 0; the minus is U+2212."""
    text = f'{value:+.{digits}f}'
    return text.replace('-', MINUS) if text.strip('+-0.') else text[1:]


def plural(count: int, word: str) -> str:
    """``1 task``, ``14 tasks``."""
    return f'{count:,} {word}' if count == 1 else f'{count:,} {word}s'


def parameters(count: int | None) -> str:
    """A model's size: ``0.6 B``, ``1.2 M``."""
    if count is None:
        return '–'  # noqa: RUF001
    return f'{count / 1e9:.1f} B' if count >= 5e7 else f'{count / 1e6:.1f} M'


def took(milliseconds: int) -> str:
    """How long one call took: ``412 ms`` below a second, else ``1.4 s``."""
    return f'{milliseconds} ms' if milliseconds < 1000 else f'{milliseconds / 1000:.1f} s'
