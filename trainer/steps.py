"""The steps of a TRL trainer as rows: how long each took, and whether it was the last."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from transformers import TrainerCallback

ETA_WINDOW: Final = 10
"""Steps whose durations say how long the rest will take."""

Ended = Callable[[int, dict[str, float], Sequence[float]], bool]
"""Gets a step, TRL's log of it and the seconds of the last steps; whether training ends here."""


class Steps(TrainerCallback):  # type: ignore[misc]
    """Times the steps and hands each to ``ended``."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._durations: deque[float] = deque(maxlen=ETA_WINDOW)
        self._began = time.perf_counter()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Begin to time a step."""
        self._began = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Hand a step over; what TRL logs at the end of training is none."""
        if logs and 'loss' in logs:
            self._durations.append(time.perf_counter() - self._began)
            if self._ended(state.global_step, logs, self._durations):
                control.should_training_stop = True
