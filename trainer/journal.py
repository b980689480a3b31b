"""The trainer's side of a run folder: it appends events and recorded episodes, and looks for requests to stop."""

from __future__ import annotations

import json
import threading
import traceback
from contextlib import suppress
from typing import Literal, Self

from trainer.events import Artifact, Event, EventWriter, Heartbeat, Notice, RolloutEvent, RunState, Stage, State
from trainer.line_file import LineFile
from trainer.recording import Rollout
from trainer.runfolder import STOP, RunFolder
from trainer.workspace_keeper import WorkspaceKeeper

HEARTBEAT_S = 5.0


class Journal:
    """Everything a run writes down while it goes on; a heartbeat tells a reader that silence is work."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._events = EventWriter(folder.events)
        self.continued = self._events.seq > 0
        """Whether a process before this one wrote into the folder."""
        self._rollouts = LineFile(folder.rollouts)
        self._unrecorded = 0
        self.workspaces: WorkspaceKeeper | None = None
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._beat = threading.Thread(target=self._heartbeat, name='heartbeat', daemon=True)
        self._beat.start()

    def __enter__(self) -> Self:
        """Use as a context manager that closes the files."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the heartbeat and close the files."""
        if self.workspaces is not None:
            self.workspaces.close()
        self._ended.set()
        self._beat.join()
        for file in (self._rollouts, self._events):
            try:
                file.close()
            except OSError as error:
                print_line(f'What was written last may be lost: {error}')
        if lost := self._events.waiting:
            print_line(f'{lost} events could not be written')

    @property
    def stop_requested(self) -> bool:
        """Whether somebody asked this run to stop, by a file or a signal."""
        return self._stop.is_set() or self.folder.requested(STOP)

    def request_stop(self) -> None:
        """Ask this run to stop; safe in a signal handler."""
        self._stop.set()

    def keep_workspaces(self, limit_mb: int) -> None:
        """From now on keep final workspaces beside the records, up to so many MB; 0 keeps none."""
        if limit_mb:
            limit = limit_mb * 1024**2
            self.workspaces = WorkspaceKeeper(self.folder.path, limit_bytes=limit, notice=self._warn)

    def write(self, event: Event) -> None:
        """Append an event."""
        self._events.write(event)
        if event.redone is not None and self.workspaces is not None:
            self.workspaces.forget(event.redone)

    def state(self, state: RunState, reason: str = '') -> None:
        """Say that the run entered a state."""
        self.write(State(state=state, reason=reason))

    def notice(self, text: str, *, level: Literal['info', 'warning', 'error'] = 'info', setting: str = '') -> None:
        """Tell the user something."""
        self.write(Notice(level=level, text=text, setting=setting))

    def artifact(self, kind: str, path: str, sha256: str = '') -> None:
        """Name a file or folder the run made."""
        self.write(Artifact(kind=kind, path=path, sha256=sha256))

    def rollout(self, rollout: Rollout, stage: Stage) -> None:
        """Record an episode and point to it; a record that cannot be written is said once and ends nothing."""
        line = json.dumps(rollout.model_dump(), ensure_ascii=False).encode('utf-8', errors='replace')
        try:
            offset = self._rollouts.append(line)
        except OSError as error:
            if not self._unrecorded:
                self.notice(f'Rollouts cannot be recorded: {error.strerror}. Training goes on', level='warning')
            self._unrecorded += 1
            if self.workspaces is not None:
                self.workspaces.drop(rollout.workspace)
            return
        self.write(
            RolloutEvent(
                step=rollout.step,
                task=rollout.task,
                group=rollout.group,
                index=rollout.index,
                stage=stage,
                outcome=rollout.verdict.outcome,
                reward=rollout.verdict.reward,
                offset=offset,
            )
        )
        if self.workspaces is not None:
            self.workspaces.keep(rollout, offset)

    def _warn(self, text: str) -> None:
        self.notice(text, level='warning')

    def _heartbeat(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            self.write(Heartbeat())


def print_line(text: str) -> None:
    """Print a line for trainer.log; one that cannot be written (the disk is full) is left out and ends nothing."""
    with suppress(OSError):
        print(text, flush=True)  # noqa: T201


def print_exception() -> None:
    """Print where the exception being handled comes from; likewise."""
    with suppress(OSError):
        traceback.print_exc()


class SilentJournal(Journal):
    """The journal of a process that writes nothing, because another one of its run does; it hears requests to stop."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.continued = False
        self.workspaces = None
        self._stop = threading.Event()

    def __exit__(self, *_: object) -> None:
        """There are no files to close."""
        if self.workspaces is not None:
            self.workspaces.close()

    def keep_workspaces(self, limit_mb: int) -> None:
        """Read final workspaces for the process that writes; 0 reads none."""
        if limit_mb:
            self.workspaces = WorkspaceKeeper(None, limit_bytes=0, notice=self._warn)

    def write(self, event: Event) -> None:
        """Nothing."""

    def rollout(self, rollout: Rollout, stage: Stage) -> None:
        """Nothing."""
