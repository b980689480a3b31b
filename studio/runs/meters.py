"""Meters of this machine while runs work: CPU, memory, GPUs, and what the trainer's processes hold.

The studio takes them, every few seconds and once for all tabs: the trainer has better things to do, and the process
that waits for it is kept too small to know how. They are stored as series of the run, so that a finished one still
shows whether its machine was the limit; while no studio runs, nothing is measured, and charts show the gap.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import psutil
import pynvml
from sqlmodel import Session, col, select

from studio.runs import metric_blocks
from studio.store.database import Database
from studio.store.tables import MetricTable, RunTable, SlotTable

SAMPLE_S: Final = 5.0
CPU: Final = 'machine/cpu'
MEMORY: Final = 'machine/memory'
TRAINER: Final = 'machine/trainer_gb'
GPU: Final = 'machine/gpu'
GPU_MEMORY: Final = 'machine/gpu_memory'

_Value = TypeVar('_Value')
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Gpu:
    """One GPU: ``busy`` from 0 to 1, memory in bytes; what its driver does not tell is ``None``."""

    name: str
    busy: float | None
    used: int
    total: int
    celsius: int | None


@dataclass(frozen=True)
class Machine:
    """How busy this machine is: shares from 0 to 1, memory in bytes. ``trainer``: held by the run's processes."""

    cpu: float
    cores: int
    used: int
    total: int
    trainer: int | None
    gpus: tuple[Gpu, ...] = ()

    def values(self) -> dict[str, float]:
        """The meters as series; of several GPUs the mean."""
        found = {CPU: self.cpu, MEMORY: self.used / self.total}
        if self.trainer is not None:
            found[TRAINER] = self.trainer / 1e9
        busy = [gpu.busy for gpu in self.gpus if gpu.busy is not None]
        if busy:
            found[GPU] = sum(busy) / len(busy)
        if self.gpus:
            found[GPU_MEMORY] = sum(gpu.used for gpu in self.gpus) / sum(gpu.total for gpu in self.gpus)
        return found


class Meters:
    """Samples while runs are active; ``sample`` may be called as often as one likes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._gpus = Gpus()
        self._sampled_at = -SAMPLE_S
        self._steps: dict[str, _Step] = {}
        self._latest: dict[str, Machine] = {}

    def latest(self, run_id: str) -> Machine | None:
        """The newest sample while this run works."""
        return self._latest.get(run_id)

    def sample(self) -> None:
        """Take a sample if it is time to, and store the mean over each run's current step. Raises ``Busy``."""
        if time.monotonic() - self._sampled_at < SAMPLE_S:
            return
        self._sampled_at = time.monotonic()
        with self._database.read() as session:
            slots = select(RunTable).join(SlotTable, col(SlotTable.run_id) == col(RunTable.id))
            rows = {row.id: row for row in session.exec(slots).all() if row.pid is not None}
        self._steps = {id: step for id, step in self._steps.items() if id in rows}
        if not rows:
            self._latest = {}
            return
        machine = read_machine(self._gpus)
        latest: dict[str, Machine] = {}
        means: dict[str, dict[str, float]] = {}
        for id, row in rows.items():
            latest[id] = replace(machine, trainer=tree_bytes(row.pid))
            if id not in self._steps or self._steps[id].step != row.step:
                self._steps[id] = _Step(row.step)
            means[id] = self._steps[id].add(latest[id].values())
        self._latest = latest
        with self._database.write() as session:
            for id, row in rows.items():
                if session.get(RunTable, id) is not None:
                    _store(session, id, row.step, means[id])

    def close(self) -> None:
        """Let go of the GPU driver."""
        self._gpus.close()


class Gpus:
    """Reads GPUs by NVML; a machine without its driver has none."""

    def __init__(self) -> None:
        self._open: bool | None = None

    def read(self) -> tuple[Gpu, ...]:
        """Every GPU now; none where the driver is missing or fails."""
        if self._open is None:
            self._open = self._start()
        if not self._open:
            return ()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]
            return tuple(map(_read_gpu, handles))
        except pynvml.NVMLError as error:
            _log.info('GPUs are no longer read: %s', error)
            self._open = False
            return ()

    def close(self) -> None:
        """Let go of the driver."""
        if self._open:
            pynvml.nvmlShutdown()
        self._open = None

    def _start(self) -> bool:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            _log.info('No GPU is read: %s', error)
            return False
        return True


def read_machine(gpus: Gpus) -> Machine:
    """Read every meter of the machine now; what a trainer holds is left open."""
    memory = psutil.virtual_memory()
    return Machine(
        cpu=psutil.cpu_percent() / 100,
        cores=psutil.cpu_count() or 1,
        used=memory.total - memory.available,
        total=memory.total,
        trainer=None,
        gpus=gpus.read(),
    )


@dataclass
class _Step:
    """Sums of the samples taken during one step of a run."""

    step: int
    sums: dict[str, tuple[float, int]] = field(default_factory=dict)

    def add(self, values: dict[str, float]) -> dict[str, float]:
        for name, value in values.items():
            total, count = self.sums.get(name, (0.0, 0))
            self.sums[name] = (total + value, count + 1)
        return {name: total / count for name, (total, count) in self.sums.items()}


def _store(session: Session, run_id: str, step: int, means: dict[str, float]) -> None:
    names: Sequence[str] = sorted(means)
    for name in names:
        session.merge(MetricTable(run_id=run_id, name=name, step=step, seq=0, value=means[name]))
    session.flush()
    metric_blocks.refresh(session, run_id, names, step, step)


def tree_bytes(pid: int | None) -> int | None:
    """Memory that a process and those below it hold; ``None`` where it has ended."""
    try:
        process = psutil.Process(pid)
        tree = [process, *process.children(recursive=True)]
    except psutil.Error:  # it ended between two looks
        return None
    total = 0
    for one in tree:
        try:
            total += one.memory_info().rss
        except psutil.Error:
            continue
    return total


def _read_gpu(handle: object) -> Gpu:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    name = pynvml.nvmlDeviceGetName(handle)
    return Gpu(
        name=name.decode() if isinstance(name, bytes) else str(name),
        busy=_told(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),
        used=int(memory.used),
        total=int(memory.total),
        celsius=_told(lambda: int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))),
    )


def _told(read: Callable[[], _Value]) -> _Value | None:
    """A meter that not every GPU has (a slice of a shared one tells neither load nor temperature)."""
    try:
        return read()
    except pynvml.NVMLError:
        return None
