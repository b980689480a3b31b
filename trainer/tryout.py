"""A worker that keeps a model and an adapter in memory and plays single tasks with both, telling all that happens.

``python -m trainer.tryout --model M [--adapter DIR] --home DIR`` reads orders from stdin and writes news to stdout
(``tryout_messages``). It ends when its stdin closes. The weights are there once: the base is the model with the
adapter switched off, so both sides decode in turns.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from queue import SimpleQueue
from typing import Any, get_args

import torch
from pydantic import ValidationError

from trainer.engines import open_engine
from trainer.engines.policy import SMALL
from trainer.hardware import detect
from trainer.models import ModelInfo, find_model
from trainer.policy import load_model, load_tokenizer, without_warnings
from trainer.recording import Ending, Rollout, ToolRecord
from trainer.requirements import parse_requirements
from trainer.rollout.chat import Call, Chat, ParsedTurn
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import EpisodeLimits, Stopped
from trainer.rollout.streamed import SharedEngine, StreamedPlayer, Turnstile
from trainer.sandbox import Isolation
from trainer.sandbox.python_env import PythonEnvironment, package_environment
from trainer.side_work import Reporter, failure, reporting
from trainer.tryout_messages import (
    ORDER,
    Broken,
    Called,
    Calling,
    Checking,
    Ended,
    Failed,
    Finished,
    Loading,
    Play,
    Ready,
    Side,
    Spoke,
    Stop,
    Writing,
)


class Worker:
    """The weights of a model, and of an adapter where one is given; plays one order after the other."""

    def __init__(self, model: ModelInfo, adapter: Path | None, *, home: Path, isolation: Isolation) -> None:
        self.hardware = detect()
        with without_warnings():
            self._policy = load_model(model, self.hardware, adapter=adapter)
        if self._policy.num_parameters() < SMALL:
            # Two sides decode in two threads: neither may bring back what the other has changed.
            torch.set_num_threads(1)
        # A fast tokenizer must not be shared by threads.
        self._chats: dict[Side, Chat] = {side: Chat(load_tokenizer(model)) for side in get_args(Side)}
        self._has_adapter = adapter is not None
        self._home = home
        self._isolation = isolation

    def play(self, order: Play, report: Reporter, stop: Callable[[], bool]) -> bool:
        """Play the episodes of an order, telling what happens; False when they were given up."""
        sides = [side for side in order.sides if self._has_adapter or side == 'base']
        python = package_environment(self._home, parse_requirements(order.packages))
        failures: list[BaseException] = []
        turnstile = Turnstile()

        def play(side: Side) -> None:
            try:
                self._play_side(side, order, python, turnstile, report, lambda: stop() or bool(failures))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=play, args=(side,), name=f'try-{side}') for side in sides]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        real = next((error for error in failures if not isinstance(error, Stopped)), None)
        if real is not None:
            raise real
        return not failures

    def _play_side(
        self,
        side: Side,
        order: Play,
        python: PythonEnvironment,
        turnstile: Turnstile,
        report: Reporter,
        stop: Callable[[], bool],
    ) -> None:
        chat = self._chats[side]
        teller = _Teller(report, order.id, side)
        engine = SharedEngine(
            open_engine('plain', self._policy, chat.tokenizer),
            turnstile,
            lambda: self._mode(side),
            chat.tokenizer,
            seed=order.seed,
            on_text=teller.writing,
        )
        limits = EpisodeLimits(
            tokens=order.tokens, turns=order.turns, temperature=order.temperature, answer_tokens=order.tokens // 2
        )
        player = StreamedPlayer(
            chat, engine, limits, lambda: TfcodeEnv(self._home, self._isolation, python), listener=teller
        )
        try:
            player.play([order.task] * order.attempts, stop=stop)
        finally:
            player.close()

    def _mode(self, side: Side) -> Any:
        return self._policy.disable_adapter() if self._has_adapter and side == 'base' else nullcontext()


class _Teller:
    """Puts what happens in the episodes of one side into news."""

    def __init__(self, report: Reporter, id: str, side: Side) -> None:
        self._report = report
        self._id, self._side = id, side

    def writing(self, row: int, text: str) -> None:
        self._report.write(Writing(**self._of(row), text=text))

    def spoke(self, row: int, turn: ParsedTurn, seconds: float) -> None:
        self._report.write(
            Spoke(
                **self._of(row),
                text=turn.text,
                tokens=turn.tokens,
                seconds=round(seconds, 4),
                unreadable=turn.unreadable,
            )
        )

    def calling(self, row: int, call: Call) -> None:
        self._report.write(Calling(**self._of(row), name=call.name, args=call.args))

    def called(self, row: int, answer: ToolRecord) -> None:
        self._report.write(Called(**self._of(row), record=answer))

    def checking(self, row: int, ending: Ending) -> None:
        self._report.write(Checking(**self._of(row), ending=ending))

    def ended(self, row: int, rollout: Rollout) -> None:
        self._report.write(Ended(**self._of(row), rollout=rollout))

    def _of(self, row: int) -> dict[str, Any]:
        return {'id': self._id, 'side': self._side, 'attempt': row}


class _Orders:
    """Orders as they come in; ``stopped`` says of each whether it is to be given up."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Play | None] = SimpleQueue()
        self._given_up: set[str] = set()
        self._closed = False
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> Play | None:
        """The next order; ``None`` when nobody will give one any more."""
        return self._queue.get()

    def stopped(self, id: str) -> bool:
        """Whether an order is to be given up."""
        return self._closed or id in self._given_up

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            try:
                order = ORDER.validate_json(line)
            except ValidationError as error:
                print(f'not an order: {error}', file=sys.stderr)  # noqa: T201
                continue
            if isinstance(order, Stop):
                self._given_up.add(order.id)
            else:
                self._queue.put(order)
        self._closed = True
        self._queue.put(None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Load the weights, then carry out orders until stdin closes; returns the exit code."""
    parser = argparse.ArgumentParser(prog='python -m trainer.tryout', description='Play tasks with base and adapter.')
    parser.add_argument('--model', required=True)
    parser.add_argument('--adapter', type=Path)
    parser.add_argument('--home', type=Path, required=True)
    parser.add_argument('--isolation', choices=get_args(Isolation), default='bubblewrap')
    options = parser.parse_args(arguments)
    orders = _Orders()
    with reporting() as report:
        try:
            began = time.monotonic()
            model = find_model(options.model)
            report.write(Loading(text=f'Loading {model.title}'))
            worker = Worker(model, options.adapter, home=options.home, isolation=options.isolation)
        except Exception as error:
            said = failure(error)
            report.write(Failed(message=said.message, hint=said.hint))
            sys.excepthook(type(error), error, error.__traceback__)
            return 1
        report.write(Ready(device=worker.hardware.name, seconds=round(time.monotonic() - began, 2)))
        while (order := orders.next()) is not None:
            _carry_out(worker, order, orders, report)
    return 0


def _carry_out(worker: Worker, order: Play, orders: _Orders, report: Reporter) -> None:
    try:
        played = not orders.stopped(order.id) and worker.play(order, report, lambda: orders.stopped(order.id))
        report.write(Finished(id=order.id, stopped=not played))
    except Exception as error:
        said = failure(error)
        sys.excepthook(type(error), error, error.__traceback__)
        report.write(Broken(id=order.id, message=said.message, hint=said.hint))


if __name__ == '__main__':
    sys.exit(main())
