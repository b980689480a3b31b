"""The process of a tracker: reports the numbers of a run as they are written, and can neither end nor hold it up.

``python -m trainer.tracker_process RUN_DIR TRACKER`` reads events until its stdin closes (``finished`` comes before
that where the run went well), then ends what it reports. A run that is gone on with goes on there too: its id, and a
name that ends in it, are the same again; what may have been lost with a process that was killed is reported once more.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, get_args

from trainer import side_work
from trainer.events import AnyEvent, Metrics, Resumed, read_events
from trainer.reporting import Tracker
from trainer.runfolder import RunFolder

PROJECT: Final = 'rlvr-studio'
FINISHED: Final = b'finished'
WARNED: Final = 'warns: '
"""What the line about a warning begins with; the others say where to look."""
LOOK_S: Final = 0.5
COLD_START: Final = 'cold_start/'


class Reported(Protocol):
    """A run as a tracker has it.

    ``where`` says where to look at it; ``kept_s``: seconds after which what it was told survives a kill.
    """

    where: str
    kept_s: float

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the values of a step, named as on the run page."""

    def resumed(self, stage: str, step: int) -> None:
        """Know that what was reported of later steps of a stage is superseded."""

    def end(self, *, failed: bool) -> None:
        """Report what is left, and end."""


@dataclass(frozen=True)
class About:
    """What a tracker is told of a run beside its numbers, no place on this machine; wandb adds what it always does."""

    id: str
    name: str
    config: Mapping[str, Any]
    folder: Path

    @classmethod
    def of(cls, folder: RunFolder) -> About:
        """What the folder of a run says. Raises ``RunFolderError``."""
        run = folder.config()
        settings = run.settings.model_dump(mode='json', by_alias=True)
        plan = folder.path / 'plan.json'
        config = {
            'model': Path(run.model).name if run.model.startswith(('/', '~', '.')) else run.model,
            'trainingType': run.training_type,
            'tasks': len(folder.tasks()),
            'settings': settings,
            'plan': json.loads(plan.read_text(encoding='utf-8')) if plan.is_file() else {},
        }
        # Names are free, and two runs may have the same: the end of the id tells them apart.
        return cls(run.id, f'{run.name} {run.id[-6:]}'.strip(), config, folder.path)


class Wandb:
    """A run of Weights & Biases; steps are an axis of their own there, for its own one never goes back."""

    def __init__(self, about: About) -> None:
        folder = about.folder / 'wandb-log'  # not ``wandb``: that would pass for the package
        folder.mkdir(exist_ok=True)
        os.environ.setdefault('WANDB_QUIET', 'true')  # its summary of all series fills the log of the run
        self._run: Any = import_module('wandb').init(
            project=os.environ.get('WANDB_PROJECT', PROJECT),
            id=about.id,
            resume='allow',
            name=about.name,
            config=dict(about.config),
            dir=os.environ.get('WANDB_DIR', str(folder)),
        )
        self._run.define_metric('step')
        self._run.define_metric('*', step_metric='step')
        url = None if getattr(self._run, 'offline', False) else self._run.url
        self.where = url or f'offline, "wandb sync {Path(self._run.dir).parent}" uploads it'
        # Offline it writes when a block of its file is full; online, what is sent is known when it has ended well.
        self.kept_s = math.inf

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the values of a step."""
        self._run.log({**values, 'step': step})

    def resumed(self, stage: str, step: int) -> None:
        """Leave what is there: nothing can be taken back, steps done again stand there twice."""

    def end(self, *, failed: bool) -> None:
        """Upload what is left."""
        self._run.finish(exit_code=int(failed))


class Trackio:
    """A run of Trackio, on this machine or where its environment variables say."""

    def __init__(self, about: About) -> None:
        self._trackio: Any = import_module('trackio')
        self._trackio.init(project=PROJECT, name=about.name, resume='allow', config=dict(about.config), embed=False)
        self.where = f'"trackio show --project {PROJECT}" shows {about.name}'
        self.kept_s = 10.0

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the values of a step."""
        self._trackio.log(dict(values), step=step)

    def resumed(self, stage: str, step: int) -> None:
        """Leave what is there: nothing can be taken back, steps done again stand there twice."""

    def end(self, *, failed: bool) -> None:
        """Write what is left."""
        self._trackio.finish()


class TensorBoard:
    """Event files in the run folder, those of the cold start apart: its steps are counted anew."""

    def __init__(self, about: About) -> None:
        self._folder = about.folder / 'tensorboard-log'  # not ``tensorboard``: that would pass for the package
        light = importlib.util.find_spec('tensorboardX') is not None
        self._open: Any = import_module('tensorboardX' if light else 'torch.utils.tensorboard').SummaryWriter
        self._writers: dict[str, Any] = {}
        self.where = f'"tensorboard --logdir {self._folder}"'
        self.kept_s = 5.0

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the values of a step."""
        writer = self._writer('cold_start' if all(name.startswith(COLD_START) for name in values) else 'training')
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    def resumed(self, stage: str, step: int) -> None:
        """Hide what is superseded."""
        if (writer := self._writers.pop(stage, None)) is not None:
            writer.close()
        self._writer(stage, purge_step=step + 1)

    def end(self, *, failed: bool) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()

    def _writer(self, stage: str, **options: int) -> Any:
        if stage not in self._writers:
            # Names of files tell seconds apart; two of one process may be nearer.
            suffix = f'.{os.getpid()}{"-purge" if options else ""}'
            folder = str(self._folder / stage)
            self._writers[stage] = self._open(folder, flush_secs=1, filename_suffix=suffix, **options)
        return self._writers[stage]


KINDS: Final[Mapping[Tracker, Callable[[About], Reported]]] = {
    'wandb': Wandb,
    'trackio': Trackio,
    'tensorboard': TensorBoard,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Report a run; returns the exit code."""
    parser = argparse.ArgumentParser(prog='python -m trainer.tracker_process', description='Report a run to a tracker.')
    parser.add_argument('folder', type=Path)
    parser.add_argument('tracker', choices=get_args(Tracker))
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer hears it, and says when it is over
    parent = _Parent()

    def work(report: side_work.Reporter) -> Mapping[str, Any]:
        _pass_on_warnings(report)
        folder = RunFolder(options.folder)
        reported = KINDS[options.tracker](About.of(folder))
        report(reported.where)
        place = Place(folder, options.tracker, reported.kept_s)
        follow(folder.events, place, parent.gone, reported)
        reported.end(failed=parent.said != FINISHED)
        place.keep()
        return {}

    return side_work.run(work, watch_stdin=False)


def _pass_on_warnings(report: side_work.Reporter) -> None:
    """Say once what a library warns of: Trackio raises nothing, and warns of what it could not keep."""
    told: set[str] = set()
    show = warnings.showwarning

    def say(message: Warning | str, category: type[Warning], *args: Any, **options: Any) -> None:
        show(message, category, *args, **options)
        if category is UserWarning and str(message) not in told:
            told.add(str(message))
            report(f'{WARNED}{str(message)[:300]}')

    warnings.showwarning = say


class Place:
    """How far the events of a run are reported, kept in its folder for the next process: never more than is safe."""

    def __init__(self, folder: RunFolder, tracker: Tracker, kept_s: float) -> None:
        self._file, self._kept_s = folder.path / 'reported' / tracker, kept_s
        self._file.parent.mkdir(exist_ok=True)
        self._since: deque[tuple[float, int]] = deque()
        known = self._file.read_text(encoding='utf-8') if self._file.is_file() else ''
        self.byte = int(known) if known.isdigit() and int(known) <= folder.events.stat().st_size else 0
        """Everything before it is reported."""

    def reach(self, byte: int) -> None:
        """Go on to a byte; keep what was reached long enough ago."""
        now = time.monotonic()
        if byte > self.byte:
            self.byte = byte
            self._since.append((now, byte))
        safe = 0
        while self._since and now - self._since[0][0] >= self._kept_s:
            safe = self._since.popleft()[1]
        if safe:
            self._write(safe)

    def keep(self) -> None:
        """Keep all of it: the tracker has ended well."""
        self._write(self.byte)

    def _write(self, byte: int) -> None:
        with suppress(OSError):  # the disk is full: then more is reported once more
            self._file.write_text(str(byte), encoding='utf-8')


def follow(events: Path, place: Place, ended: threading.Event, reported: Reported) -> None:
    """Report what is written, until ``ended`` and nothing is left."""
    last = False
    while not last:
        last = ended.wait(LOOK_S)
        some, after = read_events(events, place.byte)
        while after > place.byte:
            for event in some:
                _hand_on(event, reported)
            place.reach(after)
            some, after = read_events(events, place.byte)
        place.reach(after)


def _hand_on(event: AnyEvent, reported: Reported) -> None:
    if isinstance(event, Metrics):
        reported.log(event.step, event.values)
    elif isinstance(event, Resumed):
        reported.resumed(event.stage, event.step)


class _Parent:
    """The trainer at the other end of stdin: ``gone`` when that is closed, whatever became of it."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        self.said = b''
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while some := os.read(0, 4096):
            self.said += some
        self.gone.set()


if __name__ == '__main__':
    sys.exit(main())
