"""The trackers of a stage: transformers' own callbacks, which get our numbers and never end a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from transformers import TrainerCallback
from transformers.integrations import get_reporting_integration_callbacks

from trainer.journal import Journal
from trainer.preparation import Run

FOLDER: Final = 'tensorboard-log'
"""In the run folder. Not ``tensorboard``: a folder of that name would pass for the package."""
PROJECT: Final = 'rlvr-studio'

Numbers = Callable[[Mapping[str, float]], Mapping[str, float]]
"""Gets TRL's log of a step, returns what is reported of it."""


def arguments(run: Run, stage: str) -> dict[str, Any]:
    """What TRL's configuration of a stage takes for the trackers of a run; TensorBoard writes into the run folder."""
    trackers = list(run.config.settings.report_to)
    if 'tensorboard' in trackers:
        os.environ['TENSORBOARD_LOGGING_DIR'] = str(run.folder.path / FOLDER / stage)
    if 'wandb' in trackers:
        os.environ.setdefault('WANDB_PROJECT', PROJECT)
        os.environ.setdefault('WANDB_DIR', str(run.folder.path))
    named = {'run_name': f'{run.config.name or run.config.id} · {stage}', 'project': PROJECT} if trackers else {}
    return {'report_to': trackers, **named}


def connect(trainer: Any, run: Run, numbers: Numbers) -> None:
    """Give the trackers of a trainer our numbers, and let none of them end the run."""
    trackers = run.config.settings.report_to
    if not trackers:
        return
    theirs = tuple(get_reporting_integration_callbacks(list(trackers)))
    handler = trainer.callback_handler
    handler.callbacks = [
        _Guarded(callback, numbers, run.journal) if isinstance(callback, theirs) else callback
        for callback in handler.callbacks
    ]


def disconnect(run: Run) -> None:
    """End what a stage reported, so that the next one begins a line of its own: its steps are counted anew."""
    if 'wandb' in run.config.settings.report_to:
        import_module('wandb').finish()


class _Guarded(TrainerCallback):  # type: ignore[misc]
    """A tracker that gets our numbers in the place of TRL's, some of which are over the whole batch (spec section 6).

    It may break (no network, a full disk, a wrong key): that is said once, and the run goes on.
    """

    def __init__(self, tracker: Any, numbers: Numbers, journal: Journal) -> None:
        self._tracker, self._numbers, self._journal, self._broken = tracker, numbers, journal, False

    def _call(self, event: str, *args: Any, **kwargs: Any) -> None:
        if self._broken:
            return
        try:
            getattr(self._tracker, event)(*args, **kwargs)
        except Exception as error:
            self._broken = True
            name = type(self._tracker).__name__.removesuffix('Callback')
            said = (str(error).splitlines() or [''])[0][:300]
            self._journal.notice(
                f'{name} broke, the run goes on without it: {type(error).__name__}: {said}',
                level='warning',
                setting='reportTo',
            )

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        """Hand on."""
        self._call('on_train_begin', *args, **kwargs)

    def on_log(self, *args: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        """Hand on our numbers of a step; what TRL logs at the end of training is none."""
        shown = self._numbers(logs) if logs and 'loss' in logs else logs
        self._call('on_log', *args, logs=shown, **kwargs)

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        """Hand on."""
        self._call('on_train_end', *args, **kwargs)
