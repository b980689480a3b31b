"""A real studio over a data folder of its own, with a stand-in for the trainer."""

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from studio.documents import Documents
from studio.launchers import LocalLauncher
from studio.runs import RunView
from studio.services import Studio
from studio.settings import Settings
from studio.store.database import Database
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


def until(condition: Callable[[], Any], seconds: float = 20) -> Any:
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


def ended(studio: Studio, run_id: str, seconds: float = 20) -> RunView:
    """Wait for the end of a run."""
    until(lambda: studio.runs.get(run_id).is_final, seconds)
    return studio.runs.get(run_id)


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('studio.supervisor.TICK_S', 0.1)


@pytest.fixture(scope='session')
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with all tables and no rows, to be copied."""
    path = tmp_path_factory.mktemp('store') / 'studio.db'
    database = Database(f'sqlite:///{path}')
    database.migrate()
    database.close()
    return path


@pytest.fixture
def database(tmp_path: Path, empty_store: Path) -> Iterator[Database]:
    shutil.copy(empty_store, tmp_path / 'studio.db')
    opened = Database(f'sqlite:///{tmp_path / "studio.db"}', busy_s=2)
    yield opened
    opened.close()


@pytest.fixture
def documents(database: Database) -> Documents:
    return Documents(database)


@pytest.fixture
def open_studio(tmp_path: Path, empty_store: Path) -> Iterator[Callable[..., Studio]]:
    """Opens studios over one data folder, with options for the stand-in; runs that still go on are ended."""
    opened: list[Studio] = []

    def start(*options: str, watch: bool = True, **settings: Any) -> Studio:
        home = tmp_path / 'home'
        if not home.exists():
            home.mkdir()
            shutil.copy(empty_store, home / 'studio.db')
        studio = Studio(Settings(home=home, **settings), launcher=stub(*options))
        opened.append(studio)
        if watch:
            studio.start()
        return studio

    yield start
    for studio in opened:
        for run in studio.runs.list().rows:
            claim = studio.runs.folder(run.id).claim()
            if claim is not None:
                stub().end(claim)
        studio.stop()


def new_run(studio: Studio, name: str = 'a run', tasks: int = 2, **more: Any) -> RunView:
    """A run over fresh published tasks, not started."""
    ids = [studio.documents.create(task(number), status='published').id for number in range(tasks)]
    return studio.runs.create(name, 'starter', {}, ids, **more)
