"""What isolation is in force on this machine: measured once in the background, shown everywhere, never claimed."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from trainer.sandbox import Isolation
from trainer.sandbox.leftovers import sweep_leftovers
from trainer.sandbox.probe import ProbeReport, probe


class SandboxStatus:
    """The report of the probe, made when it is first asked for and again when ``measure`` is called."""

    def __init__(self, isolation: Isolation) -> None:
        self.isolation = isolation
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix='probe')
        self._asked: Future[ProbeReport] | None = None

    @property
    def report(self) -> ProbeReport | None:
        """The last report; ``None`` while the first one is being made."""
        asked = self._start()
        return asked.result() if asked.done() else None

    def measure(self) -> ProbeReport:
        """Attack a fresh sandbox now and wait for the report; about a second."""
        return self._start(again=True).result()

    def close(self) -> None:
        """Wait for a probe that runs."""
        self._pool.shutdown()

    def _start(self, *, again: bool = False) -> Future[ProbeReport]:
        with self._lock:
            if self._asked is None or (again and self._asked.done()):
                self._asked = self._pool.submit(self._probe)
            return self._asked

    def _probe(self) -> ProbeReport:
        sweep_leftovers()
        return probe(self.isolation)
