"""The attempts of a try-out side by side: how each ended on both sides; a click shows one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from nicegui import ui

from studio.adapters.tryout_views import Attempt, TryView
from studio.ui.components.elements import Icon, Text
from studio.ui.components.transcript import OUTCOMES


class TryStrip(ui.element):
    """A radio group of attempts; nothing where there is only one. ``on_pick`` gets the number, from 0."""

    def __init__(self, on_pick: Callable[[int], Any]) -> None:
        super().__init__('div')
        self.classes('trystrip').props('role=radiogroup aria-label="Attempt shown"')
        self._on_pick = on_pick
        self._key: object = None

    def clear(self) -> Self:
        """Show nothing."""
        self._key = None
        return super().clear()

    def show(self, view: TryView, picked: int) -> None:
        """Show how every attempt stands."""
        count = len(view.of('base')) or len(view.of('adapter'))
        ended = tuple(one.rollout is not None for one in view.attempts)
        if (view.id, count, ended, picked) == self._key:
            return
        self._key = (view.id, count, ended, picked)
        super().clear()
        if count < 2:
            return
        with self:
            for number in range(count):
                with ui.element('button').props('type=button role=radio').classes('tryn') as button:
                    button.props(f'aria-checked={"true" if number == picked else "false"}')
                    Text(f'#{number + 1}', classes='w5 num')
                    for attempt in view.attempts:
                        if attempt.number == number:
                            _mark(attempt)
                button.on('click', lambda number=number: self._on_pick(number), args=[])


def _mark(attempt: Attempt) -> None:
    if attempt.rollout is None:
        Icon('circle-dashed', 'ic-s t3', label=f'{attempt.side}: not over')
        return
    word, kind, icon = OUTCOMES[attempt.rollout.verdict.outcome]
    Icon(icon, f'ic-s c-{kind}', label=f'{attempt.side}: {word}')
