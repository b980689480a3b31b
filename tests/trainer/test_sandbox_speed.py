"""The bars of a sandbox's speed. Generous: they catch a change of design, not a busy machine."""

import statistics
import subprocess
import time

from trainer.sandbox import open_sandbox


def median(call, times):
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def test_a_command_costs_at_most_twice_a_bare_process():
    with open_sandbox() as sandbox:
        ratios = []
        for _ in range(3):
            bare = median(lambda: subprocess.run(['sh', '-c', 'true'], check=True), 40)
            ratios.append(median(lambda: sandbox.run('true'), 40) / bare)
    assert min(ratios) <= 2.0, ratios


def test_a_sandbox_lives_and_dies_quickly():
    assert min(median(lambda: open_sandbox().close(), 5) for _ in range(3)) < 0.5


def test_a_file_tool_costs_no_process():
    with open_sandbox() as sandbox:
        sandbox.write_file('a', b'x')
        assert min(median(lambda: sandbox.read_file('a'), 20) for _ in range(3)) < 0.003
