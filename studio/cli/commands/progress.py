"""Progress on stderr: of a run, of a program that counts, of work that is counted; lines where there is no terminal."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from trainer.events import AnyEvent, Metrics, Notice, Resumed, State
from trainer.events import Progress as Step

REWARD: Final = 'rewards/TfcodeEnv/mean'
LEVELS: Final = {'info': 'dim', 'warning': 'yellow', 'error': 'red'}
COUNT: Final = re.compile(rb'\s*(\d+)/(\d+)\s*')
Counted = Callable[..., object]
"""Told what is done, of how many, and what is done now."""


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
            case Resumed():
                self._console.print(Text(event.words, style=LEVELS['info']))

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


@contextmanager
def working(what: str) -> Iterator[None]:
    """A sign of life on a terminal while something takes seconds; nothing elsewhere."""
    with Console(stderr=True).status(what):
        yield


@contextmanager
def counting(title: str, *, quiet: bool = False) -> Iterator[Counted]:
    """A bar on a terminal while something is counted; nothing elsewhere."""
    console = Console(stderr=True)
    with Progress(
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn('{task.fields[now]}', markup=False),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    ) as bar:
        row = bar.add_task('', total=None, now='')
        yield lambda done, total, now='': bar.update(row, completed=done, total=total, now=now)


def run_counted(command: Sequence[str], title: str, *, environment: Mapping[str, str]) -> int:
    """Run a program, its exit code; ``done/total`` on its stderr is a bar, what else it writes there is shown."""
    with (
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process,
        counting(title) as count,
    ):
        for said in _pieces(process):
            if (found := COUNT.fullmatch(said)) is not None:
                count(int(found[1]), int(found[2]))
            elif said.strip():
                Console(stderr=True).print(Text(said.decode('utf-8', 'replace')), soft_wrap=True)
    return process.returncode


def _pieces(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """What a program writes to stderr, cut where a line ends or is begun anew."""
    assert process.stderr is not None
    left = b''
    while chunk := process.stderr.read1(65_536):  # type: ignore[attr-defined]
        *whole, left = re.split(rb'[\r\n]', left + chunk)
        yield from whole
        # A count is written before the next one begins: it need not be waited for.
        if COUNT.fullmatch(left):
            yield left
            left = b''
    if left:
        yield left
