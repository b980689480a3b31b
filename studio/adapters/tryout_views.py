"""What a page sees of a try-out: its phase, and each attempt as far as it is played."""

from __future__ import annotations

from typing import Literal

from trainer.recording import Ending, Rollout, ToolRecord, Turn
from trainer.tryout_messages import Called, Calling, Checking, Ended, EpisodeNews, Side, Spoke, Writing
from trainer.validation import Document

Phase = Literal['loading', 'waiting', 'playing', 'stopping', 'finished', 'stopped', 'failed']
LIVE: tuple[Phase, ...] = ('loading', 'waiting', 'playing', 'stopping')


class Attempt(Document):
    """One attempt so far: whole ``turns``, what is being written, the tool call that runs, and at last its record.

    ``revision`` grows with every change.
    """

    side: Side
    number: int
    turns: tuple[Turn, ...] = ()
    writing: str = ''
    calling: ToolRecord | None = None
    ending: Ending | None = None
    rollout: Rollout | None = None
    revision: int = 0


class TryView(Document):
    """A try-out as it is now. ``text`` says what is being loaded, ``device`` where it plays."""

    id: str
    phase: Phase
    temperature: float = 1.0
    seed: int = 1
    text: str = ''
    device: str = ''
    message: str = ''
    hint: str = ''
    revision: int = 0
    attempts: tuple[Attempt, ...] = ()

    @property
    def is_live(self) -> bool:
        """Whether anything will still happen."""
        return self.phase in LIVE

    def of(self, side: Side) -> tuple[Attempt, ...]:
        """The attempts of one side, in order."""
        return tuple(one for one in self.attempts if one.side == side)


def folded(attempt: Attempt, news: EpisodeNews, revision: int) -> Attempt:
    """An attempt after something has happened in it."""
    return attempt.model_copy(update={**_changes(attempt, news), 'revision': revision})


def _changes(attempt: Attempt, news: EpisodeNews) -> dict[str, object]:
    match news:
        case Writing(text=text):
            return {'writing': text}
        case Spoke():
            turn = Turn(text=news.text, tokens=news.tokens, seconds=news.seconds, unreadable=news.unreadable)
            return {'turns': (*attempt.turns, turn), 'writing': ''}
        case Calling(name=name, args=args):
            return {'calling': ToolRecord(name=name, args=args)}
        case Called(record=record):
            *before, last = attempt.turns
            last = last.model_copy(update={'calls': (*last.calls, record)})
            return {'turns': (*before, last), 'calling': None}
        case Checking(ending=ending):
            return {'ending': ending, 'calling': None}
        case Ended(rollout=rollout):
            return {
                'rollout': rollout,
                'turns': rollout.turns,
                'ending': rollout.ending,
                'writing': '',
                'calling': None,
            }
