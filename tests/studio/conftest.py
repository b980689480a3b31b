"""A real studio over a data folder of its own, with a stand-in for the trainer."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from stand_in import stub

from studio.documents.service import Documents
from studio.services import Studio
from studio.settings import Settings
from studio.store.database import Database

if TYPE_CHECKING:
    from nicegui.testing import User


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('studio.supervisor.TICK_S', 0.1)


@pytest.fixture(autouse=True)
def _patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated tab is looked at until it shows what is waited for, not for a third of a second."""
    if 'user' in request.fixturenames:
        from nicegui.testing import User

        for look in (User.should_see, User.should_not_see):
            monkeypatch.setitem(look.__kwdefaults__, 'retries', 300)


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


@pytest.fixture
async def user(studio: Studio) -> AsyncIterator['User']:
    """A simulated tab on the studio that a test file opens."""
    from nicegui.testing.user_simulation import user_simulation

    from studio.ui import layout
    from studio.ui.pages import PAGES

    async with user_simulation(lambda: layout.root(studio, PAGES)) as simulated:
        yield simulated
