"""Where a try-out stands, in a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from studio.adapters.tryout_views import Attempt, TryView
from studio.ui.components.wording import plural
from trainer.tryout_messages import Side


def said(view: TryView) -> str:
    """Where a try stands, in a line."""
    match view.phase:
        case 'loading':
            return f'{view.text} …'
        case 'waiting':
            return 'Another try with this model goes first …'
        case 'stopping':
            return 'Stopping …'
        case 'failed':
            return ''
    where = f' on {view.device}' if view.device else ''
    if view.phase == 'playing':
        over = sum(one.rollout is not None for one in view.attempts)
        return f'Playing{where} · {over} of {plural(len(view.attempts), "episode")} over'
    parts = [f'{name} {_solved(view.of(side))}' for side, name in _SIDES.items() if view.of(side)]
    return f'{"Stopped" if view.phase == "stopped" else "Solved"}: {", ".join(parts)}'


_SIDES: Final[dict[Side, str]] = {'base': 'base', 'adapter': 'adapter'}


def _solved(attempts: Sequence[Attempt]) -> str:
    verdicts = [one.rollout.verdict for one in attempts if one.rollout is not None]
    if not verdicts:
        return 'no verdict'
    scored = [verdict for verdict in verdicts if verdict.reward is not None]
    errors = len(verdicts) - len(scored)
    text = f'{sum(verdict.solved for verdict in scored)} of {len(scored)}'
    return f'{text} ({plural(errors, "error")})' if errors else text
