"""What tests of the studio share: tasks, a launcher of the stand-in for the trainer, runs, and waiting."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from studio.launchers import LocalLauncher
from studio.runs.service import RunView
from studio.services import Studio
from trainer.task import TaskFile, parse_task

STUB = Path(__file__).with_name('stub_trainer.py')
SPEC: dict[str, Any] = {
    'prompt': 'Write add(a, b) in solution.py.',
    'setup_files': {'test_add.py': 'from solution import add\n\ndef test_small():\n    assert add(1, 2) == 3\n'},
    'checker': {'type': 'pytest', 'config': {'test_paths': ['test_add.py']}},
}


def task(number: int = 0, **fields: Any) -> TaskFile:
    """A valid task; the number makes it another one."""
    spec = {**SPEC, 'prompt': f'{SPEC["prompt"]} {number}'}
    return parse_task({'title': f'Task {number}', 'task_spec': spec, **fields})[0]


def stub(*options: str) -> LocalLauncher:
    """A launcher of the stand-in."""
    return LocalLauncher((sys.executable, str(STUB), *options), term_s=0.5)


def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait for a condition and return what it said."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, 'it did not happen in time'
        time.sleep(0.05)
    return value


def grandchildren(folder: Path) -> list[int]:
    """Process numbers of the two that ``--children`` starts, once both run."""
    path = folder / 'children.txt'
    until(lambda: path.exists() and path.read_text(encoding='utf-8').count('\n') == 2)
    return [int(line) for line in path.read_text(encoding='utf-8').split()]


def ended(studio: Studio, run_id: str, seconds: float = 60) -> RunView:
    """Wait for the end of a run."""
    until(lambda: studio.runs.get(run_id).is_final, seconds)
    return studio.runs.get(run_id)


def new_run(studio: Studio, name: str = 'a run', tasks: int = 2, **more: Any) -> RunView:
    """A run over fresh published tasks, not started."""
    ids = [studio.documents.create(task(number), status='published').id for number in range(tasks)]
    return studio.runs.create(name, 'starter', {}, ids, **more)
