"""The trackers of a run: a process for each beside the trainer, which tells what becomes of it and never waits long."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Self

import psutil
from pydantic import ValidationError

from trainer import side_work
from trainer.journal import Journal
from trainer.reporting import WANDB_KEY, Tracker
from trainer.tracker_process import FINISHED, WARNED

FINISH_S: Final = 30.0
"""Seconds the trackers get, together, to report what is left when the run is over; then they are ended."""
SAY_S: Final = 3.0
"""Seconds after which the run says what it waits for."""
STOPPED_S: Final = 3.0
"""The same where somebody wants the run to stop, and what ends too late is killed."""
LOOK_S: Final = 0.1
GONE_S: Final = 5.0
BROKE: Final = '{} broke, the run goes on without it: {}'


class Trackers:
    """The trackers of a run while it works: a context, which they outlive by ``FINISH_S`` at most.

    Whatever becomes of one is a notice of the run. Set ``failed`` where the run is no success.
    """

    def __init__(self, trackers: Sequence[Tracker], journal: Journal) -> None:
        self._wanted, self._journal = trackers, journal
        self._processes: list[_Process] = []
        self.failed = False

    def __enter__(self) -> Self:
        """Start to report what is written."""
        for tracker in self._wanted:
            try:
                self._processes.append(_Process(tracker, self._journal))
            except OSError as error:
                said = BROKE.format(tracker, f'it could not be started: {error.strerror}')
                self._journal.notice(said, level='warning', setting='reportTo')
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let them report what is left."""
        for process in self._processes:
            process.run_ended(failed=self.failed or kind is not None)
        began, told = time.monotonic(), False
        while working := [process.tracker for process in self._processes if not process.has_ended]:
            waited = time.monotonic() - began
            if waited > (STOPPED_S if self._journal.stop_requested else FINISH_S):
                break
            if waited > SAY_S and not told:
                told = True
                said = f'Waits for {" and ".join(working)} to take the last numbers, {FINISH_S:g} s at most'
                self._journal.notice(said)
            time.sleep(LOOK_S)
        for process in self._processes:
            process.end(time.monotonic() - began)


class _Process:
    """The process of one tracker, in a session of its own: a Ctrl-C in a terminal is for the trainer."""

    def __init__(self, tracker: Tracker, journal: Journal) -> None:
        self.tracker, self._journal = tracker, journal
        self._broken = False
        module, folder = 'trainer.tracker_process', str(journal.folder.path)
        self._process = subprocess.Popen(
            [sys.executable, '-m', module, folder, tracker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, name=tracker, daemon=True)
        self._listener.start()

    def run_ended(self, *, failed: bool) -> None:
        """Say that there is nothing more to come."""
        assert self._process.stdin is not None
        with suppress(OSError), self._process.stdin as stdin:
            if not failed:
                stdin.write(FINISHED)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def end(self, waited_s: float) -> None:
        """End it, with everything it started, where it has not ended by itself for so long."""
        if not self.has_ended:
            self._say(f'{self.tracker} did not end within {waited_s:.0f} s: what it had not sent is missing there')
            self._kill()
        self._listener.join(GONE_S)

    def _kill(self) -> None:
        family: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            own = psutil.Process(self._process.pid)
            family = [own, *own.children(recursive=True)]
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._heard(line)
        code = self._process.wait()
        if code:
            self._broke(f'it was ended by signal {-code}' if code < 0 else f'it ended with exit code {code}')

    def _heard(self, line: bytes) -> None:
        try:
            said = side_work.REPORT.validate_json(line)
        except ValidationError:
            return  # something that a library printed past us
        if isinstance(said, side_work.Progress):
            text = f'{self.tracker}: {said.text}'
            if said.text.startswith(WARNED):
                self._journal.notice(text, level='warning', setting='reportTo')
            else:
                self._journal.notice(text)
        elif isinstance(said, side_work.Failed):
            self._broke(said.message)

    def _broke(self, why: str) -> None:
        self._say(BROKE.format(self.tracker, why))

    def _say(self, what: str) -> None:
        """Say once what became of it."""
        if self._broken:
            return
        self._broken = True
        key = os.environ.get(WANDB_KEY)
        self._journal.notice(what.replace(key, '…') if key else what, level='warning', setting='reportTo')
