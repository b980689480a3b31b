"""What the page that compares runs reads at each tick, off the event loop: the history once, then new steps only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from studio.runs.series import Line
from studio.runs.views import RunView, Series

if TYPE_CHECKING:
    from studio.services import Studio


@dataclass
class Reading:
    """One look. ``lines`` is the history of each run, ``columns`` an addition to it; ``gone``: one was deleted."""

    views: list[RunView]
    lines: list[dict[str, Line]] | None
    columns: list[dict[str, Series]]
    gone: bool = False

    @property
    def is_live(self) -> bool:
        """Whether any of the runs goes on."""
        return any(not view.is_final for view in self.views)


@dataclass
class Reader:
    """Remembers what was read. ``reload`` asks for the whole history at the next look."""

    studio: Studio
    ids: Sequence[str]
    names: Sequence[str]
    reload: bool = True
    _last: list[int] = field(default_factory=list)
    _ended: list[bool] = field(default_factory=list)
    _resumed: list[int] | None = None

    def read(self) -> Reading:
        """Look at the runs."""
        views, gone = self.studio.comparison.views(self.ids)
        if gone:
            return Reading(views, None, [], gone=True)
        resumed = [self._newest_resume(view.id) for view in views]
        if self._resumed is not None and resumed != self._resumed:
            self.reload = True  # what came after the checkpoint was taken back
        self._resumed = resumed
        if self.reload:
            self.reload = False
            lines = self.studio.comparison.lines(self.ids, self.names)
            self._last = [max((int(line[0][-1]) for line in run.values() if line[0]), default=-1) for run in lines]
            columns: list[dict[str, Series]] = []
        else:
            lines, columns = None, [self._new(number, view) for number, view in enumerate(views)]
        self._ended = [view.is_final for view in views]
        return Reading(views, lines, columns)

    def _new(self, number: int, view: RunView) -> dict[str, Series]:
        """The steps that a run has made since the last look; nothing is read of one that had ended by then."""
        if self._ended[number] and view.is_final:
            return {}
        # A step's values may come in two events, so the newest step is asked for again; charts drop what they have.
        after = max(-1, self._last[number] - 1)
        found = self.studio.runs.metrics(view.id, self.names, after_step=after)
        self._last[number] = max((steps[-1] for steps, _ in found.values()), default=self._last[number])
        return found

    def _newest_resume(self, id: str) -> int:
        events = self.studio.runs.events(id, types=('resumed',), limit=1, newest=True)
        return events[-1].seq if events else 0
