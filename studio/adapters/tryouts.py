"""Try-outs: one task played by a base model and an adapter side by side, told as it happens.

A worker keeps the weights of one pair in memory, so that a second try begins at once. It ends when nobody has used it
for a while, soon after the last page that wanted it has gone, when another pair needs its room, and with the studio.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from studio.adapters.tryout_views import Attempt, Phase, TryView, folded
from studio.errors import NotFound
from studio.side_jobs.process import SideProcess, how_it_ended
from studio.store.ids import new_id
from trainer.errors import StoreError
from trainer.models import find_model
from trainer.sandbox import Isolation
from trainer.task import TaskFile
from trainer.tryout_messages import NEWS, Broken, Failed, Finished, Loading, News, Play, Ready, Side, Stop

IDLE_S: Final = 10 * 60.0
"""A worker nobody has used for so long is ended."""
LEFT_S: Final = 60.0
"""So long it waits for somebody to come back after the last page has gone."""
STOP_S: Final = 8.0
"""A try that has not stopped by then is ended with its worker: a setup command may sleep."""
MAX_WORKERS: Final = 1
"""Models are large: a new pair takes the place of one that is idle."""
KEPT: Final = 40
Pair = tuple[str, str]


@dataclass
class _Worker:
    pair: Pair
    process: SideProcess | None = None
    used: float = field(default_factory=time.monotonic)
    pages: dict[str, Callable[[], bool]] = field(default_factory=dict)
    ready: Ready | None = None
    loading: str = 'Starting'
    failure: tuple[str, str] | None = None
    open: set[str] = field(default_factory=set)


@dataclass
class _Try:
    id: str
    pair: Pair
    order: Play
    attempts: dict[tuple[Side, int], Attempt]
    phase: Phase = 'loading'
    message: str = ''
    hint: str = ''
    revision: int = 0
    stop_at: float | None = None


class Tryouts:
    """Try-outs by id. Thread-safe. Raises ``ConfigError``, ``NotFound``, ``StoreError``.

    ``program``: the module of the worker.
    """

    def __init__(self, home: Path, isolation: Isolation, *, program: str = 'trainer.tryout') -> None:
        self._home, self._isolation, self._program = home, isolation, program
        self._workers: dict[Pair, _Worker] = {}
        self._tries: dict[str, _Try] = {}
        self._lock = threading.RLock()

    def attend(self, model: str, adapter: str, page: str, alive: Callable[[], bool]) -> None:
        """Say that a page may use a pair; ``alive`` is asked now and then whether it is still there."""
        with self._lock:
            for other in self._workers.values():
                other.pages.pop(page, None)
            if (worker := self._workers.get((model, adapter))) is None:
                return
            worker.pages[page] = alive
            for id in worker.open:
                if self._tries[id].phase != 'stopping':  # Somebody came back to it.
                    self._tries[id].stop_at = None

    def warm(self, model: str, adapter: str) -> bool:
        """Whether the weights of a pair are in memory."""
        with self._lock:
            worker = self._workers.get((model, adapter))
            return worker is not None and worker.ready is not None

    def play(
        self,
        task: TaskFile,
        *,
        model: str,
        adapter: str = '',
        sides: Sequence[Side] = ('base', 'adapter'),
        attempts: int = 1,
        temperature: float = 1.0,
        seed: int = 1,
        tokens: int | None = None,
        turns: int = 16,
        packages: Sequence[str] = (),
        page: str = '',
        alive: Callable[[], bool] = lambda: True,
    ) -> str:
        """Begin a try and return its id; without an ``adapter`` the base plays alone."""
        info = find_model(model)
        wanted: tuple[Side, ...] = tuple(sides) if adapter else ('base',)
        order = Play(
            id=new_id(),
            task=task,
            sides=wanted,
            attempts=attempts,
            temperature=temperature,
            seed=seed,
            tokens=tokens or info.preset.max_completion_length or 1024,
            turns=turns,
            packages=tuple(packages),
        )
        made = {(side, number): Attempt(side=side, number=number) for side in wanted for number in range(attempts)}
        with self._lock:
            self._forget_old()
            self._tries[order.id] = one = _Try(order.id, (model, adapter), order, made)
            try:
                worker = self._worker((model, adapter))
            except BaseException:
                del self._tries[order.id]
                raise
            if page:
                worker.pages[page] = alive
            worker.used = time.monotonic()
            worker.open.add(order.id)
            one.phase = 'loading' if worker.ready is None else 'waiting' if len(worker.open) > 1 else 'playing'
            process = worker.process
        if process is None or not process.send(order.model_dump_json()):
            self._fail(one, 'The worker has ended', 'Run it again.')
        return order.id

    def view(self, id: str) -> TryView:
        """A try as it is now."""
        with self._lock:
            one = self._try(id)
            worker = self._workers.get(one.pair)
            return TryView(
                id=one.id,
                phase=one.phase,
                temperature=one.order.temperature,
                seed=one.order.seed,
                text=worker.loading if worker is not None and one.phase == 'loading' else '',
                device=worker.ready.device if worker is not None and worker.ready is not None else '',
                message=one.message,
                hint=one.hint,
                revision=one.revision,
                attempts=tuple(one.attempts.values()),
            )

    def stop(self, id: str) -> None:
        """Give up a try; what was played of it stays to be read."""
        with self._lock:
            one = self._try(id)
            if one.phase not in ('loading', 'waiting', 'playing'):
                return
            worker = self._workers.get(one.pair)
            if worker is None or worker.process is None:
                self._move(one, 'stopped')
                return
            self._move(one, 'stopping')
            one.stop_at = time.monotonic() + STOP_S
            loads_for_it_alone = worker.ready is None and worker.open == {id}
            if loads_for_it_alone:
                self._workers.pop(worker.pair)
        if loads_for_it_alone:
            worker.process.end(term_s=0)
        else:
            worker.process.send(Stop(id=id).model_dump_json())

    def sweep(self) -> None:
        """End workers that nobody wants any more, and tries that do not stop."""
        now = time.monotonic()
        ended = []
        with self._lock:
            for pair, worker in list(self._workers.items()):
                if self._unwanted(worker, now):
                    ended.append(self._workers.pop(pair))
        for worker in ended:
            self._end(worker)

    def close(self) -> None:
        """End every worker."""
        with self._lock:
            workers, self._workers = list(self._workers.values()), {}
        for worker in workers:
            self._end(worker)

    def _unwanted(self, worker: _Worker, now: float) -> bool:
        stuck = [self._tries[id] for id in worker.open if id in self._tries and self._tries[id].stop_at is not None]
        if any(one.stop_at is not None and now > one.stop_at for one in stuck):
            return True
        for page, alive in list(worker.pages.items()):
            if not alive():
                del worker.pages[page]
        if worker.pages:
            return not worker.open and now - worker.used > IDLE_S
        for id in worker.open:
            if self._tries[id].stop_at is None:  # Nobody looks at it any more.
                self._tries[id].stop_at = now + LEFT_S
        return not worker.open and now - worker.used > LEFT_S

    def _worker(self, pair: Pair) -> _Worker:
        """The worker of a pair, started where there is none; an idle one of another pair makes room."""
        worker = self._workers.get(pair)
        if worker is not None and worker.failure is None:
            return worker
        idle = [other for other in self._workers.values() if not other.open]
        if len(self._workers) - len(idle) >= MAX_WORKERS:
            raise StoreError(
                'Another model is being tried, and only one fits into memory at a time',
                hint='Stop it, or wait until it is done.',
            )
        for other in idle:
            self._workers.pop(other.pair)
            threading.Thread(target=self._end, args=(other,), daemon=True).start()
        worker = _Worker(pair)
        model, adapter = pair
        arguments = ['--model', model, '--home', str(self._home.resolve()), '--isolation', self._isolation]
        arguments += ['--adapter', adapter] if adapter else []
        worker.process = SideProcess(
            self._program,
            arguments,
            on_line=lambda line: self._heard(worker, line),
            on_end=lambda code: self._ended(worker, code),
        )
        self._workers[pair] = worker
        return worker

    def _end(self, worker: _Worker) -> None:
        if worker.process is not None:
            worker.process.end(term_s=1)

    def _heard(self, worker: _Worker, line: bytes) -> None:
        try:
            news = NEWS.validate_json(line)
        except ValidationError:
            return  # Something that a library printed past us.
        with self._lock:
            self._take(worker, news)

    def _take(self, worker: _Worker, news: News) -> None:
        match news:
            case Loading(text=text):
                worker.loading = text
            case Ready():
                worker.ready = news
                self._next(worker)
            case Failed(message=message, hint=hint):
                worker.failure = (message, hint)
            case Finished(id=id, stopped=stopped):
                self._over(worker, id, 'stopped' if stopped else 'finished')
            case Broken(id=id, message=message, hint=hint):
                self._over(worker, id, 'failed', message, hint)
            case _:
                one = self._tries.get(news.id)
                if one is None:
                    return
                if one.phase in ('loading', 'waiting'):
                    self._move(one, 'playing')
                one.revision += 1
                key = (news.side, news.attempt)
                one.attempts[key] = folded(one.attempts[key], news, one.revision)

    def _over(self, worker: _Worker, id: str, phase: Phase, message: str = '', hint: str = '') -> None:
        worker.open.discard(id)
        worker.used = time.monotonic()
        if (one := self._tries.get(id)) is not None:
            one.message, one.hint, one.stop_at = message, hint, None
            self._move(one, phase)
        self._next(worker)

    def _next(self, worker: _Worker) -> None:
        """Orders are carried out one after the other: the first that is open plays."""
        for id in sorted(worker.open):
            if (one := self._tries.get(id)) is not None and one.phase in ('loading', 'waiting'):
                self._move(one, 'playing')
                break
        for id in worker.open:
            if (one := self._tries.get(id)) is not None and one.phase == 'loading':
                self._move(one, 'waiting')

    def _ended(self, worker: _Worker, code: int) -> None:
        with self._lock:
            if self._workers.get(worker.pair) is worker:
                del self._workers[worker.pair]
            message, hint = worker.failure or how_it_ended(code)
            for id in worker.open:
                one = self._tries.get(id)
                if one is None:
                    continue
                if one.phase == 'stopping':
                    self._move(one, 'stopped')
                else:
                    self._fail(one, message, hint)
            worker.open.clear()

    def _fail(self, one: _Try, message: str, hint: str) -> None:
        one.message, one.hint = message, hint
        self._move(one, 'failed')

    def _move(self, one: _Try, phase: Phase) -> None:
        with self._lock:
            one.phase = phase
            one.revision += 1

    def _try(self, id: str) -> _Try:
        one = self._tries.get(id)
        if one is None:
            raise NotFound('This try is not known any more', hint='Run it again.')
        return one

    def _forget_old(self) -> None:
        over = [id for id, one in self._tries.items() if one.phase in ('finished', 'stopped', 'failed')]
        for id in over[: max(0, len(self._tries) - KEPT)]:
            del self._tries[id]
