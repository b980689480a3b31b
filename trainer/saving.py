"""Saving a transformers trainer while it goes on, and proving that what was loaded is what was saved (case C6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from transformers import TrainerCallback

from trainer.checkpoints import Checkpoint, save
from trainer.errors import RunFolderError
from trainer.journal import Journal, print_exception
from trainer.policy import adapter_checksum, save_weights
from trainer.runfolder import CHECKPOINT, write_json

STANDING: Final = 'standing.json'
"""What a stage itself has to remember, beside what transformers writes."""


class Saver(TrainerCallback):  # type: ignore[misc]
    """Writes whole checkpoints: adapter, optimizer, scheduler, random states, place in the data, and the stage's own.

    It saves every ``every`` steps (0: only when asked), when ``control/checkpoint`` asks, and when ``save`` is called.
    A checkpoint that cannot be written (the disk is full) is said and ends nothing.
    """

    def __init__(
        self,
        journal: Journal,
        root: Path,
        *,
        every: int,
        keep: int,
        standing: Callable[[], Mapping[str, Any]] = dict,
        loaded: Checkpoint | None = None,
        announced: bool = True,
    ) -> None:
        self.trainer: Any = None
        """Set once the trainer is built."""
        self._journal = journal
        self._root = root
        self._every = every
        self._keep = keep
        self._standing = standing
        self._loaded = loaded
        self._announced = announced
        self.saved = loaded.step if loaded else -1
        """The step of the last checkpoint; -1 where there is none."""

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Prove that the weights in memory are those of the checkpoint."""
        if self._loaded is not None and adapter_checksum(self.trainer.model) != self._loaded.adapter:
            raise RunFolderError(f'The weights in memory are not those of checkpoint {self._loaded.path.name}')

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Save where it is time to; the callbacks before have written their row by now."""
        if not logs or 'loss' not in logs:
            return
        if not self.trainer.is_world_process_zero():
            return
        asked = self._journal.folder.requested(CHECKPOINT, take=True)
        if asked or (self._every and state.global_step % self._every == 0):
            self.save()

    def save(self) -> None:
        """Write a checkpoint of the step that was done last, if there is none yet."""
        step = int(self.trainer.state.global_step)
        if step == self.saved or step == 0 or not self.trainer.is_world_process_zero():
            return
        try:
            checkpoint = save(
                self._root, step, self._fill, adapter=adapter_checksum(self.trainer.model), keep=self._keep
            )
        except Exception as error:
            # Libraries name a full disk in many ways. The run can do without: the checkpoint before is still there.
            print_exception()
            self._journal.notice(f'The checkpoint of step {step} could not be written: {said(error)}', level='warning')
            return
        self.saved = step
        if self._announced:
            path = checkpoint.path.relative_to(self._journal.folder.path)
            self._journal.artifact('checkpoint', str(path), checkpoint.adapter)

    def _fill(self, folder: Path) -> None:
        save_weights(self.trainer.model, folder)
        self.trainer._save_optimizer_and_scheduler(str(folder))
        self.trainer._save_scaler(str(folder))
        self.trainer._save_rng_state(str(folder))
        # Every row is in events.jsonl: the copy that transformers keeps would only make checkpoints grow.
        self.trainer.state.log_history.clear()
        self.trainer.state.save_to_json(str(folder / 'trainer_state.json'))
        write_json(folder / STANDING, self._standing())


def said(error: Exception) -> str:
    """The first line of what an error says, or its kind."""
    return next(iter(str(error).splitlines()), type(error).__name__)
