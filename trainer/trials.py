"""Trials of a certificate: workspaces made of a task, a solution and leftovers, each graded once, several at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from trainer.attacks import Leftover, Probe
from trainer.attempt import Attempt, Cancelled, attempt
from trainer.sandbox import Isolation, SandboxScope
from trainer.sandbox.python_env import PythonEnvironment
from trainer.task import Solution, Step, TaskSpec, content_hash
from trainer.verdict import Verdict

OnProgress = Callable[[int, int, str], object]
"""Called with (done, total, name of what was done); the total changes with what turns out to be needed."""

MARK: Final = '.certify-mark'
EMPTIED: Final = 'emptied'
_HOLLOW: Final = (
    f'find . -type f -size +0 -cnewer {MARK} ! -name {MARK} '
    f'-exec truncate -s 0 {{}} \\; -exec echo {EMPTIED} \\;; rm -f {MARK}'
)
"""Empties every file that was written since the mark."""


@dataclass(frozen=True)
class Trial:
    """One workspace to be graded: a solution (none: untouched), and what is left on top of it."""

    name: str
    solution: Solution | None = None
    number: int = 0
    leftovers: tuple[Leftover, ...] = ()
    hollow: bool = False
    timeout_s: float | None = None

    @property
    def key(self) -> str:
        """What makes it the same as another: its content, not its name."""
        steps = [step.model_dump() for step in self.steps()]
        solution = self.solution and self.solution.model_dump(mode='json', include={'files'})
        return content_hash([solution, self.number, steps, self.timeout_s])

    def steps(self) -> tuple[Step, ...]:
        """Every tool call of it."""
        own = self.solution.steps if self.solution else ()
        added = tuple(step for leftover in self.leftovers for step in leftover.steps())
        if not self.hollow:
            return (*own, *added)
        mark = Step(tool='run_command', args={'command': f'touch {MARK}; sleep 0.02'})
        files = self.solution.files if self.solution else {}
        return (mark, *Leftover(files).steps(), *own, Step(tool='run_command', args={'command': _HOLLOW}))


class Plan:
    """Probes as trials: each forged and defused, and the honest controls together and one by one."""

    def __init__(self, probes: list[Probe], reference: Solution | None) -> None:
        self.probes = probes
        self.controls: list[tuple[Probe, Trial, Trial]] = []
        self._reference = reference
        for probe in probes:
            if reference is None or probe.honest is None:
                continue
            name = f'control: {probe.attack.title}'
            # What the same litter costs when there is nothing in it: a task may forbid other files altogether.
            litter = Leftover(dict.fromkeys(probe.honest.files, '')) if probe.honest.files else Leftover({'.odd/x': ''})
            self.controls.append(
                (probe, Trial(name, reference, 0, (probe.honest,)), Trial(name, reference, 0, (litter,)))
            )
        self._limit: float | None = None

    def forges(self, limit: float | None) -> list[Trial]:
        """The forged workspaces and their twins; those that never end get a short limit."""
        self._limit = limit
        twins = [twin for probe in self.probes if (twin := self.defused(probe))]
        return [*(self.forged(probe) for probe in self.probes), *twins]

    def forged(self, probe: Probe) -> Trial:
        """The untouched workspace with an attack in it."""
        limit = self._limit if probe.attack.endless else None
        return Trial(f'forge: {probe.attack.title}', None, 0, (probe.leftover,), timeout_s=limit)

    def defused(self, probe: Probe) -> Trial | None:
        """The same without the trick."""
        if probe.defused is None:
            return None
        return Trial(f'forge: {probe.attack.title}, defused', None, 0, (probe.defused,))

    def together(self) -> tuple[Trial, ...]:
        """The reference with every harmless leftover at once; none where there are no controls."""
        leftovers = tuple(probe.honest for probe, *_ in self.controls if probe.honest)
        return (Trial('honest controls', self._reference, 0, leftovers),) if leftovers else ()


class Bench:
    """Grades trials side by side, each once, reports progress and stops when it is told to."""

    def __init__(
        self,
        spec: TaskSpec,
        home: Path,
        isolation: Isolation | None,
        environment: PythonEnvironment,
        on_progress: OnProgress | None,
        cancel: threading.Event | None,
    ) -> None:
        self._spec = spec
        self._home = home
        self._isolation = isolation
        self._environment = environment
        self._on_progress = on_progress
        self._cancel = cancel or threading.Event()
        self._done: dict[str, Attempt] = {}
        self._total = 0
        self._scope = SandboxScope()
        self._pool = ThreadPoolExecutor(max(2, min(4, os.cpu_count() or 2)), thread_name_prefix='certify')

    def __enter__(self) -> Self:
        """Return the bench itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Grade no more, and end what still runs: nobody will ask for it."""
        self._scope.end()
        self._pool.shutdown(cancel_futures=True)

    def expect(self, trials: list[Trial]) -> None:
        """Say which trials there will be, beside those that are done."""
        self._total = len({*self._done, *(trial.key for trial in trials)})
        if not self._done:
            self._report('')

    def run(self, trials: list[Trial]) -> None:
        """Grade trials that have not been graded yet. Raises ``Cancelled``."""
        todo = {trial.key: trial for trial in trials if trial.key not in self._done}
        self._total = max(self._total, len(self._done) + len(todo))
        waiting: dict[Future[Attempt], str] = {
            self._pool.submit(self._attempt, trial): key for key, trial in todo.items()
        }
        while waiting:
            if self._cancel.is_set():
                raise Cancelled('Certifying was cancelled')
            for future in wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED).done:
                key = waiting.pop(future)
                self._done[key] = future.result()
                self._report(todo[key].name)

    def attempt(self, trial: Trial) -> Attempt:
        """What became of a trial."""
        return self._done[trial.key]

    def verdict(self, trial: Trial) -> Verdict:
        """What a trial earned."""
        return self.attempt(trial).verdict

    def limit(self, reference: Trial) -> float:
        """Seconds for code that never ends: some times what the reference takes, within the checker's own limit."""
        took = self.verdict(reference).duration_ms / 1000
        return min(self._spec.checker.config.timeout_s, max(2.0, 3 * took))

    def _attempt(self, trial: Trial) -> Attempt:
        if self._cancel.is_set():
            raise Cancelled('Certifying was cancelled')
        spec = self._spec
        if trial.timeout_s is not None:
            config = spec.checker.config.model_copy(update={'timeout_s': trial.timeout_s})
            spec = spec.model_copy(update={'checker': spec.checker.model_copy(update={'config': config})})
        files = trial.solution.files if trial.solution else {}
        solution = Solution(kind='wrong', files=files, steps=trial.steps())
        with self._scope.entered():
            return attempt(
                spec,
                solution,
                home=self._home,
                isolation=self._isolation,
                environment=self._environment,
                cancel=self._cancel,
            )

    def _report(self, name: str) -> None:
        if self._on_progress is not None:
            self._on_progress(len(self._done), self._total, name)
