"""A try-out worker: base and adapter over the same weights, in turns, each as if it were alone."""

from __future__ import annotations

import io
import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
from made_adapters import changed_adapter

from trainer.models import STARTER
from trainer.rollout.streamed import Turnstile
from trainer.side_work import Reporter
from trainer.task import parse_task
from trainer.tryout import Worker
from trainer.tryout_messages import NEWS, Called, Checking, Ended, EpisodeNews, News, Play, Spoke, Writing

TASK, _ = parse_task({
    'id': 'made',
    'title': 'Write it',
    'task_spec': {
        'prompt': 'Create the file pear.txt with the word plum in it.',
        'checker': {'type': 'exit_code', 'config': {'command': 'grep -qx plum pear.txt'}},
    },
})  # fmt: skip


def played(worker: Worker, *, stop: Any = lambda: False, **options: Any) -> tuple[bool, list[News]]:
    out = io.StringIO()
    order = Play(id='x', task=TASK, tokens=160, seed=5, **options)
    done = worker.play(order, Reporter(out), stop)
    return done, [NEWS.validate_json(line) for line in out.getvalue().splitlines()]


def texts(news: list[News], side: str) -> list[list[str]]:
    rollouts = {one.attempt: one.rollout for one in news if isinstance(one, Ended) and one.side == side}
    return [[turn.text for turn in rollouts[number].turns] for number in sorted(rollouts)]


@pytest.fixture(scope='module')
def worker(tmp_path_factory: pytest.TempPathFactory, checker_home: Path) -> Worker:
    adapter = changed_adapter(tmp_path_factory.mktemp('adapter'))
    return Worker(STARTER, adapter, home=checker_home, isolation='bubblewrap')


def test_each_side_plays_as_if_it_were_alone(worker: Worker, checker_home: Path) -> None:
    done, news = played(worker, attempts=2)
    assert done
    alone = Worker(STARTER, None, home=checker_home, isolation='bubblewrap')
    assert texts(news, 'base') == texts(played(alone, attempts=2)[1], 'base')
    assert texts(news, 'adapter') == texts(played(worker, attempts=2, sides=('adapter',))[1], 'adapter')
    assert texts(news, 'adapter') != texts(news, 'base')
    for side in ('base', 'adapter'):
        own: list[EpisodeNews] = [
            one for one in news if isinstance(one, EpisodeNews) and one.side == side and one.attempt == 0
        ]
        kinds = [type(one) for one in own]
        assert kinds[-2:] == [Checking, Ended], kinds
        told = [one for one in own if isinstance(one, Spoke)]
        ended = own[-1]
        assert isinstance(ended, Ended)
        assert [one.text for one in told] == [turn.text for turn in ended.rollout.turns]
        calls = [one.record.name for one in own if isinstance(one, Called)]
        assert calls == [call.name for turn in ended.rollout.turns for call in turn.calls]
        for before, after in itertools.pairwise(own):
            if isinstance(before, Writing) and isinstance(after, Spoke):
                assert after.text.startswith(before.text.rstrip('\ufffd'))


def test_a_try_that_is_given_up_ends_both_sides(worker: Worker) -> None:
    done, news = played(worker, stop=lambda: True)
    assert not done
    assert not [one for one in news if isinstance(one, Ended)]


def test_a_turnstile_lets_pass_in_the_order_of_arrival() -> None:
    turnstile, passed, arrived = Turnstile(), [], threading.Event()

    def come(number: int) -> None:
        arrived.set()
        with turnstile.passed():
            passed.append(number)

    threads = [threading.Thread(target=come, args=(number,)) for number in range(3)]
    with turnstile.passed():
        for number, thread in enumerate(threads):
            arrived.clear()
            thread.start()
            arrived.wait()
            while turnstile.waiting < number + 1:
                pass
    for thread in threads:
        thread.join()
    assert passed == [0, 1, 2]
