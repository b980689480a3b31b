"""One attempt as it is played: what the model writes, its tool calls, the check, and at last the verdict.

Whole turns are drawn once; only the turn at hand changes. Everything here was written by a model or a tool: text only.
"""

from __future__ import annotations

from nicegui import ui

from studio.adapters.tryout_views import Attempt, Phase
from studio.ui.components.elements import Icon, Text, chip, spacer
from studio.ui.components.panel import empty
from studio.ui.components.plain_text import visible
from studio.ui.components.transcript import (
    ENDINGS,
    changes_card,
    draw_turn,
    spoken,
    verdict_card,
)
from studio.ui.components.verdict_view import verdict_chip
from studio.ui.components.wording import plural
from trainer.recording import ToolRecord, Turn

WAITING: dict[Phase, str] = {
    'loading': 'Waiting for the model …',
    'waiting': 'Waiting for another try with this model …',
    'playing': 'Reading the task …',
    'stopping': 'Stopping …',
    'stopped': 'Stopped before it began.',
    'failed': 'Not played.',
    'finished': 'Not played.',
}


class LiveEpisode:
    """A column for one side; ``show`` brings it up to date, as often as one likes."""

    def __init__(self, title: str, subtitle: str, *, icon: str, checker: str = '') -> None:
        self._checker = checker
        with ui.element('section').classes('card episode') as section:
            section.props['aria-label'] = title
            with ui.element('div').classes('hd'):
                Icon(icon, 'lead')
                Text(title, 'h2', 'ell').props['title'] = title
                Text(subtitle, classes='t3 t-small ell').props['title'] = subtitle
                spacer()
                self._status = ui.element('span').classes('hs nowrap').props('role=status')
            with ui.element('div').classes('scr').props('tabindex=0 role=region') as scroll:
                scroll.props['aria-label'] = f'Transcript of {title}'
                with ui.element('div').classes('tr'):
                    self._turns = ui.element('div')
                    self._now = ui.element('div')
                    self._end = ui.element('div').classes('vs vs-3 ends')
        self.clear()

    def clear(self, text: str = '', icon: str = '') -> None:
        """Show nothing but a sentence, with an icon where there is nothing yet."""
        self._key: object = None
        self._seen: Attempt | None = None
        self._drawn = 0
        self._text: Text | None = None
        for part in (self._turns, self._now, self._end, self._status):
            part.clear()
        if text and icon:
            with self._now, empty(icon, text, room=72):
                pass
        elif text:
            self._say(text)

    def show(self, attempt: Attempt, phase: Phase) -> None:
        """Show an attempt as far as it is played."""
        if (attempt, phase) == self._key:
            return
        before, self._key, self._seen = self._seen, (attempt, phase), attempt
        if before is not None and len(before.turns) > len(attempt.turns):
            self._turns.clear()
            self._drawn = 0
        self._draw_whole(attempt)
        self._draw_now(before, attempt, phase)
        self._draw_status(attempt, phase)
        if attempt.rollout is not None and (before is None or before.rollout is None):
            self._draw_end(attempt)

    def _draw_whole(self, attempt: Attempt) -> None:
        """Draw the turns that will not change any more."""
        whole = _whole(attempt)
        with self._turns:
            for number in range(self._drawn, whole):
                draw_turn(number + 1, attempt.turns[number])
        self._drawn = max(self._drawn, whole)

    def _draw_now(self, before: Attempt | None, attempt: Attempt, phase: Phase) -> None:
        only_more = (
            before is not None
            and self._text is not None
            and before.turns == attempt.turns
            and before.writing
            and attempt.writing
        )
        if only_more and self._text is not None:
            self._text.set_text(visible(spoken(Turn(text=attempt.writing, unreadable=True))))
            return
        self._now.clear()
        self._text = None
        with self._now:
            if attempt.rollout is not None:
                return
            if self._drawn < len(attempt.turns):
                draw_turn(len(attempt.turns), attempt.turns[-1])
                if attempt.calling is not None:
                    _running(attempt.calling)
            elif attempt.writing:
                self._text = _writing(len(attempt.turns) + 1, attempt.writing)
            elif attempt.ending is not None:
                self._say('The checker looks at the workspace …')
            elif not attempt.turns or phase not in ('playing', 'loading', 'waiting'):
                self._say(_idle(attempt, phase))
            else:
                self._say('Thinking …')

    def _draw_status(self, attempt: Attempt, phase: Phase) -> None:
        self._status.clear()
        with self._status:
            if attempt.rollout is not None:
                verdict_chip(attempt.rollout.verdict)
            elif phase == 'playing':
                Text('', classes='dot pulse c-ok')
                word = 'checking' if attempt.ending is not None else plural(len(attempt.turns), 'turn')
                Text(word, classes='t3 t-small num')

    def _draw_end(self, attempt: Attempt) -> None:
        rollout = attempt.rollout
        assert rollout is not None
        used = sum(len(turn.calls) for turn in rollout.turns)
        self._end.clear()
        with self._end:
            with ui.element('div').classes('endb'):
                Icon('flag', 'ic-s')
                with ui.element('span'):
                    Text('Ended because ', 'b')
                    Text(f'{ENDINGS[rollout.ending]}. {plural(used, "tool call")}, {rollout.tokens:,} tokens.')
            verdict_card(rollout.verdict, self._checker)
            if rollout.changes:
                changes_card(rollout.changes)

    def _say(self, text: str) -> None:
        with self._now:
            Text(text, 'div', 't3 t-small pad')


def _whole(attempt: Attempt) -> int:
    """How many turns are over, their calls answered."""
    if attempt.writing or attempt.ending is not None or attempt.rollout is not None:
        return len(attempt.turns)
    return max(0, len(attempt.turns) - 1)


def _idle(attempt: Attempt, phase: Phase) -> str:
    return 'Stopped here.' if attempt.turns and phase == 'stopped' else WAITING[phase]


def _writing(number: int, text: str) -> Text:
    """Draw a turn that is being written; returns its text."""
    with ui.element('article').classes('turn').props(f'aria-label="Model, turn {number}, being written"'):
        with ui.element('span').classes('av as'):
            Icon('bot')
        with ui.element('div'):
            with ui.element('div').classes('who'):
                Text(f'Model, turn {number}', 'b')
                Text('writing', classes='t3 t-micro')
            return Text(visible(text), 'div', 'longtext code writing')


def _running(call: ToolRecord) -> None:
    """Draw a tool call that has no answer yet."""
    with ui.element('div').classes('calling'), ui.element('div').classes('call'), ui.element('div').classes('ch'):
        Icon('wrench', 'ic-s t3')
        Text(visible(call.name), 'b')
        subject = call.args.get('command') or call.args.get('path') or ''
        Text(visible(str(subject)[:300]), classes='mono ell')
        spacer()
        chip('running', 'info', icon='hourglass')
