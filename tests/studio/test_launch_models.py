"""The base model of a run: what the launch page says of its tokenizer, before anything is started."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from nicegui.testing import User
from nicegui.testing.user_simulation import user_simulation

from studio.documents.samples import load_tutorial
from studio.runs import preflight
from studio.services import Studio
from studio.settings import Settings
from studio.ui import layout
from studio.ui.pages import PAGES
from trainer.models import Preflight


@pytest.fixture(scope='module')
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    opened = Studio(Settings(home=tmp_path_factory.mktemp('home')))
    load_tutorial(opened.documents)
    yield opened
    opened.stop()


@pytest.fixture
async def user(studio: Studio) -> AsyncIterator[User]:
    async with user_simulation(lambda: layout.root(studio, PAGES)) as simulated:
        yield simulated


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answers of the pre-flight by the name of the folder; returns what was asked."""
    questions: list[str] = []

    def answer(reference: str, **_: object) -> Preflight:
        questions.append(reference)
        if reference.endswith('good'):
            return Preflight(model=reference, ok=True, family='Qwen3', note='Both render the same.')
        return Preflight(model=reference, ok=False, problem='No chat template', hint='Choose an instruct model.')

    monkeypatch.setattr(preflight, 'preflight', answer)
    preflight._PASSED.clear()
    return questions


def folder(path: Path) -> Path:
    path.mkdir()
    (path / 'config.json').write_text('{}', encoding='utf-8')
    return path


async def test_a_model_that_can_be_trained_on_tools(user: User, asked: list[str], tmp_path: Path) -> None:
    """Case C4."""
    good = folder(tmp_path / 'good')
    for _ in range(2):
        await user.open(f'/train?model={good}')
        await user.should_see('Tool calls can be read: yes (Qwen3). Both render the same.', retries=60)
    assert asked == [str(good)], 'a yes is not asked for again'


async def test_a_model_that_cannot(user: User, asked: list[str], tmp_path: Path) -> None:
    await user.open(f'/train?model={folder(tmp_path / "bad")}')
    await user.should_see('Tool calls can be read: no.', retries=60)
    await user.should_see('No chat template. Choose an instruct model.')


async def test_the_starter_is_known(user: User, asked: list[str]) -> None:
    await user.open('/train?model=starter')
    await user.should_see('Base model', retries=60)
    assert asked == []
