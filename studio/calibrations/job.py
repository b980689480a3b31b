"""One calibration at work: a thread that has a process attempt what is left, and steps aside for training runs.

What is counted is stored at once. The process is ended whole when the job is cancelled, when the studio goes away, and
when a training run needs the device: then the job waits and goes on with the tasks that are left.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from studio.calibrations.rows import adapter_hash, count
from studio.calibrations.views import JobView
from studio.settings import Settings
from studio.side_jobs.process import SideProcess, how_it_ended
from studio.store.database import Database
from studio.store.tables import CalibrationJobTable
from trainer.calibration_messages import NEWS, Counted
from trainer.errors import ConfigError, FieldError, RlvrError
from trainer.manifest import write_manifest
from trainer.side_work import Done, Failed, Progress
from trainer.task import TaskFile

LOOK_S: Final = 0.5
Busy = Callable[[], str]
"""Says the name of the training run that uses the device, or nothing."""

_log = logging.getLogger(__name__)


class CalibrationJob:
    """Attempts tasks in their order, starting behind those that ``view`` says are tried."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        tasks: Sequence[TaskFile],
        view: JobView,
        *,
        seed: int,
        beside_runs: bool,
        busy: Busy,
        module: str,
    ) -> None:
        self._database, self._settings = database, settings
        self._tasks, self._seed, self._module = tuple(tasks), seed, module
        self._busy: Busy = (lambda: '') if beside_runs else busy
        self._folder = settings.home / 'calibrations' / view.id
        self._lock = threading.Lock()
        self._view = view
        self._ended = threading.Event()
        self._end_as: tuple[str, str] | None = None
        self._process_ended = threading.Event()
        self._code: int | None = None
        self._said: Done | Failed | None = None
        self._counted_before = self._began = 0.0
        self._thread = threading.Thread(target=self._run, name='calibration', daemon=True)

    @property
    def view(self) -> JobView:
        """How far it is."""
        with self._lock:
            return self._view

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self, state: str, reason: str = '') -> None:
        """End it early, with its process; what was counted stays. Returns when it is gone."""
        if self._end_as is None:
            self._end_as = (state, reason)
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until it has ended by itself."""
        self._thread.join(timeout_s)

    # ------------------------------------------------------------------------------------------------ the thread

    def _run(self) -> None:
        state, reason, hint = 'failed', '', ''
        try:
            state, reason, hint = self._work()
        except RlvrError as error:
            reason, hint = error.message, error.hint
        except OSError as error:
            reason, hint = f'{error.strerror}: {error.filename}', 'See whether the disk is full.'
        except Exception as error:
            # Whatever else breaks must not leave a page that waits for ever.
            _log.exception('A calibration failed')
            reason = f'{type(error).__name__}: {error}'
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._finish(state, reason, hint)

    def _work(self) -> tuple[str, str, str]:
        """Attempt until nothing is left; return state, reason and hint."""
        while self.view.left:
            if self._end_as is not None:
                return (*self._end_as, '')
            if waits_for := self._busy():
                self._set(state='waiting', text=f'Waits for "{waits_for}" to end', eta_s=None)
                self._ended.wait(LOOK_S)
                continue
            stepped_aside = self._attempt()
            if self._end_as is not None or stepped_aside or not self.view.left:
                continue
            if isinstance(self._said, Failed):
                return 'failed', self._said.message, self._said.hint
            return ('failed', *how_it_ended(self._code or 0))
        return 'done', '', ''

    def _attempt(self) -> bool:
        """Let a process attempt what is left, until it has ended or must; True where a training run came first."""
        self._same_adapter()
        self._folder.mkdir(parents=True, exist_ok=True)
        manifest, done = self._folder / 'manifest.jsonl', self.view.tried
        write_manifest(manifest, self._tasks[done:])
        self._set(state='running', text='Starting', checked=done * self.view.k, eta_s=None)
        self._process_ended.clear()
        self._code, self._said, self._began = None, None, 0.0
        process = SideProcess(self._module, self._arguments(manifest, done), on_line=self._heard, on_end=self._gone)
        try:
            while not (self._process_ended.wait(LOOK_S) or self._end_as or isinstance(self._said, Failed)):
                if self._busy():
                    return True
            return False
        finally:
            process.end()

    def _same_adapter(self) -> None:
        """See that the weights are those that attempts are counted for: a folder may be written anew meanwhile.

        Raises ``ConfigError``.
        """
        who = self.view.subject
        if who.adapter and adapter_hash(Path(who.adapter)) != who.adapter_hash:
            said = f'The adapter in {who.adapter} is another one than when this began'
            raise ConfigError(said, [FieldError(loc='adapter', msg=said)], hint='Start again to calibrate that one.')

    def _arguments(self, manifest: Path, done: int) -> list[str]:
        who = self.view.subject
        return [
            *('--manifest', str(manifest), f'--model={who.model}', '-k', str(self.view.k)),
            *(('--adapter', who.adapter) if who.adapter else ()),
            *('--temperature', str(who.temperature), '--max-completion-length', str(who.tokens)),
            # What was begun and not counted is not attempted once more with the same dice.
            *('--seed', str(self._seed + done), '--home', str(self._settings.home.resolve())),
            *('--isolation', self._settings.sandbox),
            *(part for line in self._settings.packages for part in ('--package', line)),
        ]

    # ----------------------------------------------------------------------------------------- what the process says

    def _gone(self, code: int) -> None:
        self._code = code
        self._process_ended.set()

    def _heard(self, line: bytes) -> None:
        try:
            news = NEWS.validate_json(line)
        except ValidationError:
            return  # Something that a library printed past us.
        match news:
            case Counted():
                self._told(lambda: self._count(news))
            case Progress(text=text, done=done):
                if text == 'Attempting' and not self._began:  # it has read the weights
                    self._told(self._same_adapter)
                self._progressed(text, done)
            case Done() | Failed():
                if not isinstance(self._said, Failed):  # what went wrong here comes before how it ended
                    self._said = news

    def _told(self, work: Callable[[], None]) -> None:
        """Do what a line asks for; what goes wrong ends the process."""
        try:
            work()
        except RlvrError as error:
            self._said = Failed(message=error.message, hint=error.hint)

    def _count(self, news: Counted) -> None:
        """Store the attempts at the next task; nothing is counted once something went wrong."""
        if isinstance(self._said, Failed):
            return
        view = self.view
        task = self._tasks[view.tried] if view.left else None
        if task is None or task.id != news.task or len(news.rewards) != view.k:
            self._said = Failed(message=f'Attempts at {news.task[:80]!r} came out of their order')
            return
        tried, errors = view.tried + 1, view.errors + sum(reward is None for reward in news.rewards)
        with self._database.write() as session:
            count(session, view.subject.key, task.hash, news)
            row = session.get(CalibrationJobTable, view.id)
            if row is not None:
                row.counted = {'tasks': tried, 'errors': errors}
        self._set(tried=tried, errors=errors)

    def _progressed(self, text: str, done: int) -> None:
        view = self.view
        if text == 'Attempting' and not self._began:
            self._began, self._counted_before = time.monotonic(), view.tried * view.k
        checked = min(view.total, round(self._counted_before) + done) if self._began else view.checked
        made = checked - self._counted_before
        each = (time.monotonic() - self._began) / made if self._began and made > 0 else None
        self._set(text=text, checked=checked, eta_s=None if each is None else each * (view.total - checked))

    def _finish(self, state: str, reason: str, hint: str) -> None:
        self._set(state=state, reason=reason, hint=hint, text='', eta_s=None, checked=self.view.tried * self.view.k)
        with self._database.write() as session:
            row = session.get(CalibrationJobTable, self.view.id)
            if row is not None:
                row.state, row.reason, row.ended_at = state, reason, datetime.now(UTC)

    def _set(self, **changes: Any) -> None:
        with self._lock:
            self._view = self._view.model_copy(update=changes)
