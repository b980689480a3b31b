"""The progress of a run on stderr: a bar on a terminal, a line a step elsewhere."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from trainer.events import AnyEvent, Metrics, Notice, State
from trainer.events import Progress as Step

REWARD: Final = 'rewards/TfcodeEnv/mean'
LEVELS: Final = {'info': 'dim', 'warning': 'yellow', 'error': 'red'}


class Display:
    """Shows events as they come."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn('{task.description}'),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn('{task.fields[facts]}'),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._row = self._bar.add_task('starting', total=None, facts='')
        self._reward = ''

    def show(self, event: AnyEvent) -> None:
        """Show one event."""
        match event:
            case State():
                self._bar.update(self._row, description=event.state.replace('_', ' '))
                self._line(f'{event.state}' + (f': {event.reason}' if event.reason else ''))
            case Metrics() if REWARD in event.values:
                self._reward = f'reward {event.values[REWARD]:.2f}'
            case Step():
                facts = ', '.join(filter(None, (self._reward, _eta(event.eta_s))))
                self._bar.update(self._row, completed=event.step, total=event.total or None, facts=facts)
                self._line(f'step {event.step}/{event.total}' + (f', {facts}' if facts else ''))
            case Notice():
                self._console.print(Text(event.text, style=LEVELS[event.level]))

    def _line(self, text: str) -> None:
        if not self._console.is_terminal:
            self._console.print(Text(text), soft_wrap=True)

    def __enter__(self) -> Self:
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing."""
        self._bar.stop()


def _eta(seconds: float | None) -> str:
    return '' if seconds is None else f'{timedelta(seconds=round(seconds))} left'
