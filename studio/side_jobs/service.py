"""Work that a process at the side does for a user: how far it is, how it ended, and a way to end it early."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from studio.errors import NotFound
from studio.side_jobs.process import SideProcess, how_it_ended
from studio.side_jobs.views import SideJobView
from studio.store.ids import new_id
from trainer.side_work import REPORT, Done, Failed, Progress

__all__ = ['SideJobView', 'SideJobs']

KEPT: Final = 50
"""Jobs remembered; of those that ended the oldest goes first."""
ENDED: Final = 'ended'
"""The ``error`` of a job whose process ended without saying why."""


@dataclass
class _Job:
    view: SideJobView
    began: float = field(default_factory=time.monotonic)
    process: SideProcess | None = None
    cancelled: bool = False


class SideJobs:
    """Jobs by id. Thread-safe. Raises ``NotFound``, ``StoreError``."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._lock = threading.Lock()

    def start(
        self,
        kind: str,
        subject: str,
        module: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
        first_line: str = '',
    ) -> SideJobView:
        """Start ``python -m module`` and follow it. ``first_line`` goes to its stdin and is kept nowhere."""
        job = _Job(SideJobView(id=new_id(), kind=kind, subject=subject, state='running', text='Starting'))
        with self._lock:
            self._forget_old()
            self._jobs[job.view.id] = job
        try:
            job.process = SideProcess(
                module,
                arguments,
                on_line=lambda line: self._heard(job, line),
                on_end=lambda code: self._ended(job, code),
                environment=environment,
                without=without,
            )
        except BaseException:
            with self._lock:
                del self._jobs[job.view.id]
            raise
        if first_line:
            job.process.send(first_line)
        return self.view(job.view.id)

    def view(self, id: str) -> SideJobView:
        """A job as it is now."""
        with self._lock:
            return self._seen(self._job(id))

    def latest(self, kind: str, subject: str) -> SideJobView | None:
        """The newest job of a kind about something."""
        with self._lock:
            found = [job for job in self._jobs.values() if (job.view.kind, job.view.subject) == (kind, subject)]
            return self._seen(found[-1]) if found else None

    def cancel(self, id: str) -> None:
        """End a job with everything it started; returns when it is gone. One that has ended stays as it is."""
        with self._lock:
            job = self._job(id)
            job.cancelled = job.view.state == 'running'
        if job.cancelled and job.process is not None:
            job.process.end()

    def wait(self, id: str, timeout_s: float | None = None) -> SideJobView:
        """Wait for a job to end."""
        job = self._job(id)
        if job.process is not None:
            job.process.wait(timeout_s)
        return self.view(id)

    def process_id(self, id: str) -> int | None:
        """The process that does the work."""
        job = self._job(id)
        return job.process.pid if job.process is not None else None

    def tail(self, id: str) -> str:
        """The last lines its process wrote to stderr."""
        job = self._job(id)
        return job.process.tail if job.process is not None else ''

    def close(self) -> None:
        """End every job."""
        for id in list(self._jobs):
            self.cancel(id)

    def _heard(self, job: _Job, line: bytes) -> None:
        try:
            report = REPORT.validate_json(line)
        except ValidationError:
            return  # Something that a library printed past us.
        with self._lock:
            match report:
                case Progress(text=text, done=done, total=total):
                    self._set(job, text=text, done=done, total=total)
                case Done(result=result):
                    self._set(job, state='done', result=result)
                case Failed(message=message, hint=hint, error=error):
                    self._set(job, state='failed', message=message, hint=hint, error=error)

    def _ended(self, job: _Job, code: int) -> None:
        with self._lock:
            if job.view.state == 'running':
                if job.cancelled:
                    self._set(job, state='cancelled')
                else:
                    message, hint = how_it_ended(code)
                    self._set(job, state='failed', message=message, hint=hint, error=ENDED)
            self._set(job, elapsed_s=time.monotonic() - job.began)

    def _set(self, job: _Job, **changes: Any) -> None:
        job.view = job.view.model_copy(update=changes)

    def _seen(self, job: _Job) -> SideJobView:
        if job.view.state != 'running':
            return job.view
        return job.view.model_copy(update={'elapsed_s': time.monotonic() - job.began})

    def _job(self, id: str) -> _Job:
        job = self._jobs.get(id)
        if job is None:
            raise NotFound('This job is not known any more', hint='Start it again.')
        return job

    def _forget_old(self) -> None:
        ended = [id for id, job in self._jobs.items() if job.view.state != 'running']
        for id in ended[: max(0, len(self._jobs) - KEPT)]:
            del self._jobs[id]
