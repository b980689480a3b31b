"""What a studio and a try-out worker say to each other: orders on the worker's stdin, news on its stdout, JSON lines.

Part of the light half. An episode is known by the id of its order, its side and the number of the attempt.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from trainer.recording import Ending, Rollout, ToolRecord
from trainer.task import TaskFile
from trainer.validation import Document

Side = Literal['base', 'adapter']
"""Which weights play: those of the base model alone, or with the adapter."""

MAX_ATTEMPTS: Final = 8


class Play(Document):
    """Play episodes of a task: ``attempts`` on each side, all at once. The same seed gives the same episodes."""

    kind: Literal['play'] = 'play'
    id: str
    task: TaskFile
    sides: tuple[Side, ...] = ('base', 'adapter')
    attempts: int = Field(default=1, ge=1, le=MAX_ATTEMPTS)
    temperature: float = Field(default=1.0, ge=0, le=2)
    seed: int = Field(default=1, ge=0)
    tokens: int = Field(default=1024, ge=16, description='Of one episode.')
    turns: int = Field(default=16, ge=1)
    packages: tuple[str, ...] = Field(default=(), description='Of the Python inside the sandboxes.')


class Stop(Document):
    """Give up the episodes of an order, or forget one that has not begun."""

    kind: Literal['stop'] = 'stop'
    id: str


Order = Annotated[Play | Stop, Field(discriminator='kind')]
ORDER: Final[TypeAdapter[Order]] = TypeAdapter(Order)


class Loading(Document):
    """What is being loaded."""

    kind: Literal['loading'] = 'loading'
    text: str


class Ready(Document):
    """The weights are in memory, on ``device``; loading them took ``seconds``."""

    kind: Literal['ready'] = 'ready'
    device: str
    seconds: float


class _OfEpisode(Document):
    id: str
    side: Side
    attempt: int


class Writing(_OfEpisode):
    """What the model has written of its turn so far."""

    kind: Literal['writing'] = 'writing'
    text: str


class Spoke(_OfEpisode):
    """A turn has ended; its tool calls follow."""

    kind: Literal['spoke'] = 'spoke'
    text: str
    tokens: int
    seconds: float
    unreadable: bool


class Calling(_OfEpisode):
    """A tool call of the turn that ended last begins."""

    kind: Literal['calling'] = 'calling'
    name: str
    args: dict[str, object]


class Called(_OfEpisode):
    """That tool call was answered."""

    kind: Literal['called'] = 'called'
    record: ToolRecord


class Checking(_OfEpisode):
    """The episode is over; its checker works."""

    kind: Literal['checking'] = 'checking'
    ending: Ending


class Ended(_OfEpisode):
    """The whole episode, checked."""

    kind: Literal['ended'] = 'ended'
    rollout: Rollout


class Finished(Document):
    """Nothing of an order is left to be done; ``stopped``: it was given up."""

    kind: Literal['finished'] = 'finished'
    id: str
    stopped: bool = False


class Broken(Document):
    """An order could not be carried out; the worker goes on."""

    kind: Literal['broken'] = 'broken'
    id: str
    message: str
    hint: str = ''


class Failed(Document):
    """The worker cannot work at all, and ends."""

    kind: Literal['failed'] = 'failed'
    message: str
    hint: str = ''


EpisodeNews = Writing | Spoke | Calling | Called | Checking | Ended
News = Annotated[
    Loading | Ready | Writing | Spoke | Calling | Called | Checking | Ended | Finished | Broken | Failed,
    Field(discriminator='kind'),
]
NEWS: Final[TypeAdapter[News]] = TypeAdapter(News)
