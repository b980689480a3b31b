"""The gate before commands: how many run at once, and that those that wait do not hold up the others."""

import threading
from concurrent.futures import ThreadPoolExecutor

from trainer.sandbox.limits import Gate


def test_commands_that_began_a_moment_ago_are_few() -> None:
    gate, inside, most, lock = Gate(2, 8, young_s=60), [0], [0], threading.Lock()

    def command(_: int) -> None:
        with gate:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            threading.Event().wait(0.002)
            with lock:
                inside[0] -= 1

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(command, range(48)))
    assert most == [2]


def test_long_ones_let_others_by_up_to_the_most() -> None:
    gate, entered, leave = Gate(1, 3, young_s=0.01), threading.Semaphore(0), threading.Event()

    def command(_: int) -> None:
        with gate:
            entered.release()
            assert leave.wait(20)

    with ThreadPoolExecutor(5) as pool:
        done = pool.map(command, range(5))
        for _ in range(3):
            assert entered.acquire(timeout=20)
        assert not entered.acquire(timeout=0.1), 'more than the most'
        leave.set()
        list(done)
