"""What isolation and checks cost, side by side in one run: `python tests/bench/sandbox.py [--rollouts N]`.

Each pair is measured in turns, so that a busy machine slows both alike. Exit code 1 when a ratio is above its bar.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from trainer.attempt import attempt, prepare
from trainer.checkers.grading import grade
from trainer.sandbox import open_sandbox
from trainer.sandbox.python_env import base_environment
from trainer.task import Step, TaskSpec, parse_task_spec

TESTS = 'from solution import add\n\n' + ''.join(
    f'def test_{n}():\n    assert add({n}, 1) == {n + 1}\n\n' for n in range(6)
)
ADD = 'def add(a, b):\n    return a + b\n'
PYTEST: dict[str, Any] = {
    'prompt': 'Write add.',
    'setup_files': {'test_add.py': TESTS},
    'checker': {'type': 'pytest', 'config': {'test_paths': ['test_add.py']}},
}
SHORT: dict[str, Any] = {
    'prompt': 'Put 42 into result.txt.',
    'setup_files': {'note.txt': 'forty-two\n'},
    'checker': {'type': 'exit_code', 'config': {'command': 'grep -qx 42 result.txt'}},
}
STEPS = (
    Step(tool='read_file', args={'path': 'note.txt'}),
    Step(tool='write_file', args={'path': 'result.txt', 'content': '42\n'}),
    Step(tool='run_command', args={'command': 'cat result.txt'}),
)
COMMAND_BAR, PYTEST_BAR = 2.0, 1.5


def in_turns(times: int, *what: Callable[[], object]) -> list[float]:
    """Median milliseconds of each, measured in turns after one warm-up."""
    took: list[list[float]] = [[] for _ in what]
    for turn in range(times + 1):
        for index, run in enumerate(what):
            began = time.perf_counter()
            run()
            if turn:
                took[index].append((time.perf_counter() - began) * 1000)
    return [statistics.median(one) for one in took]


def commands(spec: TaskSpec, home: Path) -> float:
    """A command in a live sandbox against the same without one; return the ratio."""
    with prepare(spec, home=home) as sandbox:
        bare, inside = in_turns(
            200, lambda: subprocess.run(['sh', '-c', 'true'], check=True), lambda: sandbox.run('true')
        )
    (made,) = in_turns(20, lambda: open_sandbox().close())
    print(f'bare sh -c true              {bare:8.2f} ms')
    print(f'run_command in a sandbox     {inside:8.2f} ms   {inside / bare:.2f} x (bar {COMMAND_BAR})')
    print(f'create and destroy a sandbox {made:8.2f} ms')
    return inside / bare


def tests(spec: TaskSpec, home: Path, folder: Path) -> float:
    """The pytest checker's verdict against pytest itself on the same six tests; return the ratio."""
    (folder / 'test_add.py').write_text(TESTS, encoding='utf-8')
    (folder / 'solution.py').write_text(ADD, encoding='utf-8')
    command = [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', 'test_add.py']
    env = {'PATH': os.environ['PATH'], 'PYTEST_DISABLE_PLUGIN_AUTOLOAD': '1', 'PYTHONDONTWRITEBYTECODE': '1'}

    def bare() -> None:
        subprocess.run(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, check=True)

    def graded() -> None:
        assert grade(spec.checker, spec.setup_files, folder, home=home).reward == 1.0

    plain, verdict = in_turns(15, bare, graded)
    print(f'bare pytest, 6 tests         {plain:8.1f} ms')
    print(f'verdict of the checker       {verdict:8.1f} ms   {verdict / plain:.2f} x (bar {PYTEST_BAR})')
    return verdict / plain


def rollouts(spec: TaskSpec, home: Path, count: int) -> None:
    """Short rollouts from an empty sandbox to a verdict, some at a time."""
    workers = 2 * (os.cpu_count() or 2)
    with ThreadPoolExecutor(workers) as pool:
        began = time.perf_counter()
        done = list(pool.map(lambda _: attempt(spec, STEPS, home=home).verdict.reward, range(count)))
        took = time.perf_counter() - began
    assert done == [1.0] * count
    print(f'{count} short rollouts, {workers} at once: {count / took:.1f} a second')


def main() -> int:
    """Measure everything once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rollouts', type=int, default=200)
    options = parser.parse_args()
    print(f'{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}')
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        base_environment(Path(home))
        short, by_tests = parse_task_spec(SHORT)[0], parse_task_spec(PYTEST)[0]
        command_ratio = commands(short, Path(home))
        pytest_ratio = tests(by_tests, Path(home), Path(folder))
        rollouts(short, Path(home), options.rollouts)
    return int(command_ratio > COMMAND_BAR or pytest_ratio > PYTEST_BAR)


if __name__ == '__main__':
    sys.exit(main())
