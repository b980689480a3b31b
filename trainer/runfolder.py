"""The run folder: the only thing between the studio and a trainer (design section 4), and the state read from it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
from pydantic import Field

from trainer.config import RunConfig, Settings, parse_settings, resolve
from trainer.demonstrations import Demonstration, write_demonstrations
from trainer.errors import RunFolderError
from trainer.events import FINAL_STATES, AnyEvent, EventWriter, RunState, State
from trainer.manifest import read_manifest, write_manifest
from trainer.task import TaskFile
from trainer.validation import Document

STOP: Final = 'stop'
CHECKPOINT: Final = 'checkpoint'
TOKEN: Final = 'RLVR_RUN_TOKEN'
"""Environment variable that marks every process of a run; its value stands in the claim."""


class Claim(Document):
    """Which process runs this folder: a process number means nothing without the time it started."""

    pid: int
    started: float
    token: str = ''

    @property
    def alive(self) -> bool:
        """Whether that very process still lives."""
        try:
            process = psutil.Process(self.pid)
            # Start times are counted from the time of boot, which the kernel rounds to seconds and clocks correct.
            same = abs(process.create_time() - self.started) < 5.0
            return bool((same or self._marks(process)) and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    def _marks(self, process: psutil.Process) -> bool:
        """Whether a process carries this claim's token: the same one, though the clock was set since it started."""
        try:
            return bool(self.token) and process.environ().get(TOKEN) == self.token
        except (psutil.AccessDenied, OSError):  # somebody else's
            return False

    @classmethod
    def of(cls, pid: int, token: str = '') -> Claim:
        """The claim of a living process."""
        return cls(pid=pid, started=psutil.Process(pid).create_time(), token=token)


class Exit(Document):
    """How the process ended: an exit code, or the signal that ended it."""

    code: int | None = None
    signal: int | None = None
    time: float = Field(default_factory=time.time)

    @property
    def text(self) -> str:
        """Words for it, with the likely cause of a kill."""
        if self.signal is not None:
            name = signal.Signals(self.signal).name
            return f'killed by {name}' + (', likely out of memory' if self.signal == signal.SIGKILL else '')
        return f'exit code {self.code}'


@dataclass(frozen=True)
class RunFolder:
    """Paths and small files of one run."""

    path: Path

    @property
    def events(self) -> Path:
        """Appended by the trainer."""
        return self.path / 'events.jsonl'

    @property
    def rollouts(self) -> Path:
        """Recorded episodes, one a line, addressed by byte offset."""
        return self.path / 'rollouts.jsonl'

    @property
    def manifest(self) -> Path:
        """Frozen training tasks."""
        return self.path / 'manifest.jsonl'

    @property
    def held_out(self) -> Path:
        """Frozen held-out tasks; may be missing."""
        return self.path / 'heldout.jsonl'

    @property
    def demonstrations(self) -> Path:
        """Chats for the cold start; may be missing."""
        return self.path / 'demonstrations.jsonl'

    @property
    def summary(self) -> Path:
        """How the run ended and what it was worth; there once it has."""
        return self.path / 'summary.json'

    @property
    def log(self) -> Path:
        """Stdout and stderr of the trainer."""
        return self.path / 'trainer.log'

    @property
    def adapter(self) -> Path:
        """The trained LoRA adapter in PEFT layout."""
        return self.path / 'adapter'

    @property
    def checkpoints(self) -> Path:
        """Whole checkpoints to go on from."""
        return self.path / 'checkpoints'

    def best(self, step: int) -> Path:
        """The weights of a step that were the best on held-out tasks so far."""
        return self.path / 'best' / f'step-{step}'

    @property
    def cold_start(self) -> Path:
        """The adapter that the cold start left; there once it is whole."""
        return self.path / 'cold_start'

    @classmethod
    def create(
        cls,
        path: Path,
        config: RunConfig,
        tasks: Iterable[TaskFile],
        held_out: Iterable[TaskFile] = (),
        demonstrations: Sequence[Demonstration] = (),
    ) -> RunFolder:
        """Write a new run folder. Raises ``RunFolderError`` where there is one already.

        Without ``demonstrations`` a cold start takes the reference solutions of the tasks.
        """
        try:
            path.mkdir(parents=True, exist_ok=False)
        except FileExistsError:
            if any(path.iterdir()):
                raise RunFolderError(f'{path} is not empty', hint='Name a new folder for the run.') from None
        folder = cls(path)
        (path / 'control').mkdir()
        write_manifest(folder.manifest, tasks)
        held_out = list(held_out)
        if held_out:
            write_manifest(folder.held_out, held_out)
        if demonstrations:
            write_demonstrations(folder.demonstrations, demonstrations)
        # What the user did not set stays unset: the model's preset decides, and plan.json says what it decided.
        folder._write_config(config)
        return folder

    def _write_config(self, config: RunConfig) -> None:
        write_json(self.path / 'run.json', config.model_dump(mode='json', by_alias=True, exclude_unset=True))

    def configure(self, settings: Settings) -> None:
        """Change the settings of a run that no process has taken yet. Raises ``RunFolderError``."""
        if self.claim() is not None:
            raise RunFolderError(f'{self.path} was started already', hint='Make a new run.')
        self._write_config(self.config().model_copy(update={'settings': settings}))

    def reopen(self, *, steps: int | None = None) -> None:
        """Make a run that ended ready to be launched again: it goes on from its last checkpoint.

        ``steps`` raises the number of optimizer steps. Raises ``RunFolderError`` where the run still works, or where
        nothing is left to do, and ``ConfigError``; nothing is changed then.
        """
        claim = self.claim()
        if claim is not None and claim.alive and self.exit() is None:
            raise RunFolderError(f'{self.path} is being trained now', hint='Stop it first.')
        self._check_unwritten()
        config = self.config()
        if steps is not None:
            parse_settings({'rl': {'maxSteps': steps}})
            rl = config.settings.rl.model_copy(update={'max_steps': steps})
            settings = config.settings.model_copy(update={'rl': rl, 'epochs': None})
            config = config.model_copy(update={'settings': settings})
        self.check_unfinished(config)
        if steps is not None:
            self._write_config(config)
        for path in (self.summary, self.path / 'exit.json', self.path / 'claim.json', self.path / 'control' / STOP):
            path.unlink(missing_ok=True)
        with EventWriter(self.events) as writer:
            writer.write(State(state='queued', reason='continued'))

    def _check_unwritten(self) -> None:
        """Raise ``RunFolderError`` where a process outlives the one that had the claim: a run may have several."""
        EventWriter(self.events).close()

    def check_unfinished(self, config: RunConfig) -> None:
        """Raise ``RunFolderError`` where the run is finished and its configuration asks for no more steps."""
        summary = _read_json(self.summary)
        if not summary or summary.get('state') != 'finished':
            return
        _, plan = resolve(config, len(self.tasks()))
        done = int(summary.get('total') or summary.get('steps') or 0)
        if config.training_type == 'conversationalTraining' or plan.steps <= done:
            raise RunFolderError(
                f'Nothing is left to do: the run has finished its {done} steps', hint='Raise the step count to go on.'
            )

    def config(self) -> RunConfig:
        """Read run.json. Raises ``RunFolderError``."""
        try:
            return RunConfig.model_validate_json((self.path / 'run.json').read_bytes())
        except (OSError, ValueError) as error:
            raise RunFolderError(f'{self.path} is no run folder: {error}') from None

    def tasks(self) -> list[TaskFile]:
        """The frozen training tasks."""
        return read_manifest(self.manifest)

    def held_out_tasks(self) -> list[TaskFile]:
        """The frozen held-out tasks, or none."""
        return read_manifest(self.held_out) if self.held_out.exists() else []

    def claim(self) -> Claim | None:
        """Who runs this folder, if anybody ever did."""
        data = _read_json(self.path / 'claim.json')
        return Claim.model_validate(data) if data is not None else None

    def write_claim(self, claim: Claim) -> None:
        """Say who runs this folder."""
        write_json(self.path / 'claim.json', claim.model_dump())

    def begin(self, claim: Claim) -> None:
        """Say who runs this folder from now on; what was asked of a process that has ended is forgotten.

        Raises ``RunFolderError`` where another process runs it.
        """
        other = self.claim()
        if other is not None and other.pid != claim.pid and other.alive and self.exit() is None:
            raise RunFolderError(f'{self.path} is being trained by process {other.pid}', hint='Stop it first.')
        self._check_unwritten()
        ended = self.path / 'exit.json'
        if ended.exists():
            (self.path / 'control' / STOP).unlink(missing_ok=True)
            ended.unlink()
        self.write_claim(claim)

    def exit(self) -> Exit | None:
        """How the process ended, if that is known."""
        data = _read_json(self.path / 'exit.json')
        return Exit.model_validate(data) if data is not None else None

    def write_exit(self, ended: Exit) -> None:
        """Record how the process ended."""
        write_json(self.path / 'exit.json', ended.model_dump(exclude_none=True))

    def request(self, what: str) -> None:
        """Ask the trainer for something: ``stop`` or ``checkpoint``."""
        (self.path / 'control').mkdir(exist_ok=True)
        (self.path / 'control' / what).touch()

    def requested(self, what: str, *, take: bool = False) -> bool:
        """Whether something was asked for; ``take`` removes the request."""
        path = self.path / 'control' / what
        found = path.exists()
        if found and take:
            path.unlink(missing_ok=True)
        return found

    def log_tail(self, lines: int = 50) -> list[str]:
        """The last lines of the log, read from its end."""
        if not self.log.exists():
            return []
        with self.log.open('rb') as file:
            file.seek(max(0, self.log.stat().st_size - lines * 400))
            return file.read().decode('utf-8', errors='replace').splitlines()[-lines:]

    def rollout(self, offset: int) -> dict[str, Any]:
        """The recorded episode at a byte offset. Raises ``RunFolderError``."""
        try:
            with self.rollouts.open('rb') as file:
                file.seek(offset)
                record = json.loads(file.readline())
        except (OSError, ValueError) as error:
            raise RunFolderError(f'No rollout at {offset}: {error}') from None
        if not isinstance(record, dict):
            raise RunFolderError(f'No rollout at {offset}')
        return record


def state_of(events: Iterable[AnyEvent], ended: Exit | None, claim: Claim | None) -> tuple[RunState, str]:
    """Derive a run's state and its reason: from what was written, how the process ended, and whether it lives.

    What cannot be known is ``interrupted``, never ``finished``.
    """
    last = next((event for event in reversed(list(events)) if isinstance(event, State)), None)
    state: RunState = last.state if last else 'queued'
    reason = last.reason if last else ''
    if state in FINAL_STATES and state != 'interrupted':
        return state, reason
    if claim is not None and ended is None and claim.alive:
        return 'preparing' if state == 'queued' else state, reason
    if ended is not None:
        return 'failed', ended.text if ended.code != 0 else 'the process ended before its work was done'
    if claim is None:
        return state, reason
    return 'interrupted', 'the process is gone and left no exit code'


def write_json(path: Path, data: object) -> None:
    """Write whole or not at all."""
    partial = path.with_name(path.name + f'.{os.getpid()}.tmp')
    try:
        partial.write_text(json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + '\n', encoding='utf-8')
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding='utf-8'))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RunFolderError(f'{path} is damaged: {error}') from None
