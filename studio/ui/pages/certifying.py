"""Certifying off the event loop: one task after another, with progress to poll and a way to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nicegui import run

from studio.documents.certificates import Certificates
from trainer.certify import Cancelled, Certificate
from trainer.errors import RlvrError, SandboxUnavailable


@dataclass
class Results:
    """What became of the tasks, by id; those after a stop are in neither. ``ended`` says why it stopped early."""

    certificates: dict[str, Certificate] = field(default_factory=dict)
    refused: dict[str, RlvrError] = field(default_factory=dict)
    ended: RlvrError | None = None

    @property
    def ended_kind(self) -> str:
        """How loud the end is to be told: what the user cancelled is no error."""
        return 'warn' if isinstance(self.ended, Cancelled) else 'bad'

    def failures(self, titles: Mapping[str, str]) -> list[str]:
        """A line for each task whose certificate failed: its title and the first thing that did not hold."""
        made = [(id, one.failed[0]) for id, one in self.certificates.items() if one.failed]
        return [f'{titles[id]}: {probe.name}, {probe.detail}' for id, probe in made]

    def refusals(self, titles: Mapping[str, str]) -> list[str]:
        """A line for each task that could not be certified at all."""
        return [f'{titles[id]}: {error.message}' for id, error in self.refused.items()]


class Certifying:
    """The certificates one page makes, at most one at a time."""

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates
        self._cancel = threading.Event()
        self._closed = False
        self.busy = False
        self._count = self._position = 0
        # Written in whole by the thread that works, read by the page.
        self._progress: tuple[int, int, str] = (0, 0, '')

    @property
    def step(self) -> str:
        """How far the task at hand is: ``3/14``, or nothing before its first trial."""
        done, total, _ = self._progress
        return f'{done}/{total}' if total else ''

    @property
    def trial(self) -> str:
        """What was tried last."""
        return self._progress[2]

    @property
    def words(self) -> str:
        """What a busy button says: ``Certifying 3/14``, or with several tasks ``Certifying 2 of 5 · 3/14``."""
        several = f'{self._position} of {self._count}' if self._count > 1 else ''
        return 'Certifying ' + (' · '.join(part for part in (several, self.step) if part) or '…')

    def cancel(self) -> None:
        """Stop after the trials that run now; nothing is stored of the task at hand."""
        self._cancel.set()

    def close(self) -> None:
        """The page goes away: stop, for there is nobody to tell."""
        self._closed = True
        self.cancel()

    @property
    def closed(self) -> bool:
        """Whether the page is gone, so that its parts must be left alone."""
        return self._closed

    async def run(self, ids: Sequence[str], on_each: Callable[[], Any] | None = None) -> Results:
        """Certify tasks; a refused one does not stop the others, a missing sandbox or ``cancel`` does."""
        results = Results()
        if self.busy or self._closed:
            return results
        self.busy, self._count = True, len(ids)
        self._cancel.clear()
        try:
            for self._position, id in enumerate(ids, 1):
                await self._one(id, results)
                if results.ended is not None or self._closed:
                    break
                if on_each is not None:
                    await on_each()
        finally:
            self.busy = False
        return results

    async def _one(self, id: str, results: Results) -> None:
        self._progress = (0, 0, '')
        try:
            certificate = await run.io_bound(
                self._certificates.run, id, on_progress=self._progressed, cancel=self._cancel
            )
        except (Cancelled, SandboxUnavailable) as error:
            results.ended = error
            return
        except RlvrError as error:
            results.refused[id] = error
            return
        if certificate is None:
            self.close()  # The studio shuts down.
        else:
            results.certificates[id] = certificate

    def _progressed(self, done: int, total: int, name: str) -> None:
        self._progress = (done, total, name)
