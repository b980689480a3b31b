"""The base model of a run: what the launch page says of its tokenizer, before anything is started."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from nicegui import ui
from nicegui.testing import User

from studio.documents.samples import load_tutorial
from studio.runs import preflight
from studio.services import Studio
from studio.settings import Settings
from studio.ui.components.elements import Button
from trainer.models import Preflight


@pytest.fixture(scope='module')
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    opened = Studio(Settings(home=tmp_path_factory.mktemp('home')))
    load_tutorial(opened.documents)
    yield opened
    opened.stop()


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


async def test_what_is_refused_as_another_model_starts_nothing_else(
    user: User, asked: list[str], tmp_path: Path
) -> None:
    await user.open('/train?model=starter')
    await user.should_see('A step', retries=60)
    await startable(user, True)
    name = 'Another model: folder or hub id'
    box = next(one for one in user.find(ui.input).elements if one.props.get('aria-label') == name)
    box.value = 'no such model'
    await startable(user, False, 'is looked at when you press Enter there')
    left(user, box)
    await startable(user, False, '"Another model" is refused: correct it, or empty it to train Starter.')
    box.value = str(folder(tmp_path / 'bad'))
    left(user, box)
    await startable(user, False, 'No chat template. Choose an instruct model.')
    box.value = str(folder(tmp_path / 'good'))
    left(user, box)
    await startable(user, True)
    assert asked == [str(tmp_path / 'bad'), str(tmp_path / 'good')]
    box.value = 'Starter'
    left(user, box)
    await startable(user, True)
    assert box.value == '', 'the card says it'
    box.value = str(tmp_path / 'good')
    left(user, box)
    await startable(user, True)
    box.value = ''
    await startable(user, True)


async def startable(user: User, can: bool, why: str = '') -> None:
    """Wait until Start is on or off, and says why."""
    for _ in range(200):
        if (
            (go := start_button(user))
            and go.props.get('disabled', False) is not can
            and why in go.props.get('title', '')
        ):
            return
        await asyncio.sleep(0.05)
    pytest.fail(f'Start: {go.props if go else "not there"}')


def start_button(user: User) -> Button | None:
    return next((one for one in user.find(Button).elements if one.props.get('data-key') == 'mod+enter'), None)


def left(user: User, box: ui.input) -> None:
    """Leave a field, as a browser would tell it."""
    interaction = user.find(ui.input)
    interaction.elements = {box}
    interaction.trigger('blur')
