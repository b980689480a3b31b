"""What the run page reads at each tick, off the event loop: only what is new since the last one."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from studio.results import EvaluationView
from studio.run_views import HeatRow, RunView, Series
from studio.ui.pages.run_charts import BARS, NAMES
from trainer.config import resolve
from trainer.errors import ConfigError, RunFolderError
from trainer.events import AnyEvent

if TYPE_CHECKING:
    from studio.services import Studio

BUCKETS: Final = 400
"""Stretches of a long series of which the lowest and the highest point are drawn."""
TAIL_BYTES: Final = 64 * 1024
MAX_EVENTS: Final = 200
HEAT_S: Final = 2.5
"""The heatmap is sent whole, so not at every tick."""
TAIL_STEPS: Final = 64
"""The newest steps are never thinned: health is read from them, and Follow shows them."""


@dataclass
class Machine:
    """How busy this machine is: shares from 0 to 1, memory in bytes."""

    cpu: float
    cores: int
    used: int
    total: int
    trainer: int | None


@dataclass
class Reading:
    """One look at a run. ``whole``: ``columns`` is the history, not an addition."""

    view: RunView
    columns: dict[str, Series]
    whole: bool
    events: list[AnyEvent]
    rows: list[HeatRow] | None
    rollouts: int | None
    log: str
    before: EvaluationView | None
    after: EvaluationView | None
    machine: Machine | None


@dataclass
class Reader:
    """Remembers what was read. ``reload`` asks for the whole history at the next look."""

    studio: Studio
    run_id: str
    reload: bool = True
    last_step: int = -1
    last_seq: int = 0
    log_offset: int | None = None
    drawn: tuple[int, str] = (-1, '')
    drawn_at: float = -math.inf

    def read(self) -> Reading:
        """Look at the run. Raises ``NotFound`` when it is gone."""
        runs = self.studio.runs
        view = runs.get(self.run_id)
        whole = self.reload
        # A step's values may come in two events, so the newest step is asked for again; charts drop what they have.
        columns = (
            history(self.studio, self.run_id)
            if whole
            else runs.metrics(self.run_id, NAMES, after_step=max(-1, self.last_step - 1))
        )
        self.reload = False
        self.last_step = max((steps[-1] for steps, _ in columns.values()), default=self.last_step)
        events = self._events()
        count = runs.rollout_count(self.run_id)
        rows = None
        now = time.monotonic()
        if (count, view.state) != self.drawn and (now - self.drawn_at > HEAT_S or view.is_final):
            rows = runs.heatmap(self.run_id)
            self.drawn, self.drawn_at = (count, view.state), now
        return Reading(
            view=view,
            columns=columns,
            whole=whole,
            events=events,
            rows=rows,
            rollouts=count,
            log=self._log(runs.folder(self.run_id).log, final=view.is_final),
            before=self.studio.results.evaluation(self.run_id, 'before'),
            after=self.studio.results.evaluation(self.run_id, 'after'),
            machine=_machine(view.pid) if view.is_active else None,
        )

    def _events(self) -> list[AnyEvent]:
        types = ('state', 'notice', 'artifact')
        events: list[AnyEvent] = []
        while fresh := self.studio.runs.events(self.run_id, after_seq=self.last_seq, limit=MAX_EVENTS, types=types):
            events = (events + fresh)[-MAX_EVENTS:]
            self.last_seq = fresh[-1].seq
        return events

    def _log(self, path: Path, *, final: bool) -> str:
        """What was added to the log, in whole lines; at the first look its tail."""
        if not path.exists():
            return ''
        end = path.stat().st_size
        start = self.log_offset or 0
        cut = end - start > TAIL_BYTES
        if cut:
            start = end - TAIL_BYTES
        with path.open('rb') as file:
            file.seek(start)
            data = file.read(end - start)
        first = data.find(b'\n') + 1 if cut else 0
        last = len(data) if final else max(first, data.rfind(b'\n') + 1)
        self.log_offset = start + last
        lines = data[first:last].decode('utf-8', 'replace').split('\n')
        # A progress bar draws over itself: only what it drew last is a line.
        return '\n'.join(line.rstrip('\r').rpartition('\r')[2] for line in lines)


def history(studio: Studio, run_id: str) -> dict[str, Series]:
    """Every series from the start, thinned to what a chart can show: its newest steps and what is summed stay whole."""
    runs = studio.runs
    lines = [name for name in NAMES if name not in BARS]
    columns = runs.metrics(run_id, lines, buckets=BUCKETS)
    last = max((steps[-1] for steps, _ in columns.values()), default=0)
    for name, (steps, values) in runs.metrics(run_id, lines, after_step=last - TAIL_STEPS).items():
        kept = [index for index, step in enumerate(columns[name][0]) if step <= last - TAIL_STEPS]
        before = columns[name]
        columns[name] = ([before[0][i] for i in kept] + steps, [before[1][i] for i in kept] + values)
    return {**columns, **runs.metrics(run_id, BARS)}


def token_limit(studio: Studio, view: RunView) -> int | None:
    """Tokens of an episode in this run, as its plan has them; ``None`` where the run folder does not say."""
    try:
        return resolve(studio.runs.folder(view.id).config(), max(1, view.task_count))[1].max_completion_length
    except (ConfigError, RunFolderError):  # made by another version, or by hand
        return None


def table(studio: Studio, run_id: str) -> dict[str, Series]:
    """Every step of every series of the page."""
    return studio.runs.metrics(run_id, NAMES)


def _machine(pid: int | None) -> Machine:
    memory = psutil.virtual_memory()
    trainer = None
    if pid is not None:
        try:
            process = psutil.Process(pid)
            trainer = process.memory_info().rss + sum(
                child.memory_info().rss for child in process.children(recursive=True)
            )
        except psutil.Error:  # it ended between two looks
            trainer = None
    return Machine(
        cpu=psutil.cpu_percent() / 100,
        cores=psutil.cpu_count() or 1,
        used=memory.total - memory.available,
        total=memory.total,
        trainer=trainer,
    )
