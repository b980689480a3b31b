"""Making variants in the background: each becomes a draft, is certified, and only then published."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from studio.documents.certificates import Certificates
from studio.documents.service import Documents
from studio.errors import NotFound
from trainer.certify import Cancelled
from trainer.errors import RlvrError, SandboxUnavailable
from trainer.task import TaskFile
from trainer.validation import Document

logger = logging.getLogger(__name__)

Outcome = Literal['waiting', 'certifying', 'certified', 'failed', 'untried']


class Made(Document):
    """What became of one variant; ``id`` is empty until it is a document."""

    number: int
    title: str
    id: str = ''
    outcome: Outcome = 'waiting'
    reason: str = ''
    is_published: bool = False


class JobView(Document):
    """How far the work is. ``step`` is what is tried of the variant at hand, as in ``3/14``."""

    state: Literal['running', 'done', 'cancelled', 'stopped']
    publish: bool
    made: tuple[Made, ...]
    step: str = ''
    reason: str = ''
    eta_s: float | None = None
    is_undone: bool = False

    @property
    def is_active(self) -> bool:
        """Whether there is work left."""
        return self.state == 'running'

    def count(self, *outcomes: Outcome) -> int:
        """Number of variants with one of these outcomes; without one, of those that are documents."""
        return sum(one.outcome in outcomes if outcomes else bool(one.id) for one in self.made)


class VariantJob:
    """One thread that makes the variants of one task, one after another."""

    def __init__(
        self,
        documents: Documents,
        certificates: Certificates,
        tasks: Sequence[TaskFile],
        *,
        topics: Iterable[str],
        publish: bool,
    ) -> None:
        self._documents, self._certificates = documents, certificates
        self._tasks, self.topics = tuple(tasks), tuple(topics)
        self._cancel = threading.Event()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        made = tuple(Made(number=number, title=task.title) for number, task in enumerate(self._tasks, 1))
        self._view = JobView(state='running', publish=publish, made=made)
        self._thread = threading.Thread(target=self._run, name='variants', daemon=True)

    @property
    def view(self) -> JobView:
        """How far it is."""
        with self._lock:
            return self._view

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def cancel(self) -> None:
        """End what runs and make no more; what is made stays."""
        self._cancel.set()

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._thread.is_alive():
            self._thread.join()

    def undo(self) -> int:
        """Stop, and delete every variant that was made."""
        self.cancel()
        self.join()
        deleted = self._each(self._documents.delete)
        self._set(is_undone=True)
        return deleted

    def redo(self) -> int:
        """Bring the deleted variants back."""
        restored = self._each(self._documents.restore)
        self._set(is_undone=False)
        return restored

    def _each(self, act: Any) -> int:
        done = 0
        for one in self.view.made:
            if one.id:
                try:
                    act(one.id)
                    done += 1
                except NotFound:
                    continue  # Deleted by hand meanwhile, which is what was wanted.
        return done

    def _run(self) -> None:
        state, reason = 'done', ''
        for position, task in enumerate(self._tasks):
            if self._cancel.is_set():
                state = 'cancelled'
                break
            try:
                self._make(position, task)
            except Cancelled:
                state = 'cancelled'
                break
            except RlvrError as error:
                state, reason = 'stopped', f'{error.message}. {error.hint}' if error.hint else error.message
                break
            except Exception as error:
                # Whatever else breaks must not leave a page that waits for ever.
                logger.exception('Making variants failed')
                state, reason = 'stopped', f'{type(error).__name__}: {error}'
                break
        left = tuple(
            one.model_copy(update={'outcome': 'untried'}) if one.outcome in ('waiting', 'certifying') else one
            for one in self.view.made
        )
        self._set(state=state, reason=reason, made=left, step='', eta_s=None)

    def _make(self, position: int, task: TaskFile) -> None:
        """Make one; what its certificate says is its own. Raises what would stop the others too."""
        document = self._documents.create(task, topics=self.topics)
        self._put(position, id=document.id, outcome='certifying')
        try:
            certificate = self._certificates.run(document.id, on_progress=self._progressed, cancel=self._cancel)
        except (Cancelled, SandboxUnavailable):
            raise
        except RlvrError as error:
            self._put(position, outcome='failed', reason=error.message)
            return
        if certificate.state != 'certified':
            first = certificate.failed[0]
            self._put(position, outcome='failed', reason=f'{first.name}: {first.detail}')
            return
        published = False
        if self.view.publish:
            self._documents.publish(document.id, revision=self._documents.get(document.id).revision)
            published = True
        self._put(position, outcome='certified', reason=certificate.weak, is_published=published)

    def _progressed(self, done: int, total: int, name: str) -> None:
        self._set(step=f'{done}/{total}')

    def _put(self, position: int, **changes: Any) -> None:
        made = list(self.view.made)
        made[position] = made[position].model_copy(update=changes)
        tried = sum(one.outcome in ('certified', 'failed') for one in made)
        each = (time.monotonic() - self._began) / tried if tried else None
        self._set(made=tuple(made), step='', eta_s=None if each is None else each * (len(made) - tried))

    def _set(self, **changes: Any) -> None:
        with self._lock:
            self._view = self._view.model_copy(update=changes)
