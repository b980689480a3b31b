"""Try it and the panel of an adapter, without a browser: what they offer and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from nicegui import ui
from nicegui.testing import User
from nicegui.testing.user_interaction import UserInteraction
from test_adapters import trained

from studio.adapters.tryout_views import Attempt, TryView
from studio.services import Studio
from studio.settings import Settings
from studio.ui.components.elements import Button, Text
from studio.ui.components.try_words import said
from studio.ui.pages.try_choices import limits_of, packages_of, read_choices, task_of
from trainer.errors import TaskError
from trainer.task import parse_task

TOKEN = 'hf_' + 'x' * 34


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    opened = Studio(Settings(home=tmp_path / 'home'))
    yield opened
    opened.stop()


@pytest.fixture
def version(studio: Studio) -> str:
    trained(studio, 'my run')
    studio.adapters.keep_up()
    return studio.adapters.list()[0].versions[0].id


def press(user: User, name: str) -> None:
    parents = {text.parent_slot.parent for text in user.find(content=name, kind=Text).elements if text.parent_slot}
    UserInteraction(user, {one for one in parents if isinstance(one, Button)}, None).click()


def test_tasks_of_the_library_and_frozen_ones_can_be_tried(studio: Studio, version: str) -> None:
    view = studio.adapters.get(version)
    run = view.run_id or ''
    choices = read_choices(studio, task='', adapter='', run=run, model='')
    assert (choices.adapter, choices.model) == (version, 'starter')
    frozen = [key for key in choices.tasks if key.startswith(f'{run}/')]
    assert choices.task == frozen[0]
    assert task_of(studio, frozen[0]).hash == studio.runs.tasks(run)[0].hash
    assert packages_of(studio, frozen[0]) == ()
    assert read_choices(studio, task='', adapter='', run='', model='').adapter == ''
    draft = studio.documents.create(title='Not yet')
    assert draft.id in read_choices(studio, task=draft.id, adapter='', run='', model='').tasks
    with pytest.raises(TaskError, match='no valid version'):
        task_of(studio, draft.id)
    limits = limits_of('starter', view.model_copy(update={'lineage': {'plan': {'max_turns': 900}}}))
    assert (limits.tokens, limits.turns) == (384, 64)


async def test_the_page_says_what_is_wrong_with_a_number(user: User, studio: Studio) -> None:
    await user.open('/try')
    await user.should_see('No published tasks yet')
    spec = {'prompt': 'Do it.', 'checker': {'type': 'exit_code', 'config': {'command': 'true'}}}
    studio.documents.create(parse_task({'title': 'A task', 'task_spec': spec})[0], status='published')
    await user.open('/try?model=nothing-here&seed=7')
    await user.should_see('Run it to see what it does.', retries=60)
    user.find(marker='try-temperature').clear().type('warm')
    user.find(marker='try-run').click()
    await user.should_see('0 to 2')
    user.find(marker='try-temperature').clear().type('0.5')
    user.find(marker='try-run').click()
    await user.should_see('no known model', retries=60)


async def test_what_can_be_done_opens_below_the_row_one_at_a_time(user: User, studio: Studio, version: str) -> None:
    await user.open(f'/adapters/{version}')
    await user.should_see('Try it', retries=60)
    await user.should_not_see('--lora-modules')
    for section, text in (
        ('Serve', '--lora-modules'),
        ('GGUF', 'convert_hf_to_gguf.py'),
        ('Merge', 'Needs 75.4 MB'),
        ('Push to hub', 'Used for this push, then forgotten.'),
    ):
        press(user, section)
        await user.should_see(text, retries=60)
    await user.should_not_see('convert_hf_to_gguf.py')
    user.find(marker='push-token').type(TOKEN)
    user.find(marker='push-repository').clear().type('a/b/c')
    user.find(marker='push').click()
    await user.should_see('Write owner/name', retries=60)
    boxes = [element for element in user.find(kind=ui.input).elements if TOKEN in str(element.value)]
    assert boxes == []
    press(user, 'Push to hub')
    await user.should_not_see('Write owner/name', retries=60)


def test_where_a_try_stands() -> None:
    attempts = (Attempt(side='base', number=0), Attempt(side='adapter', number=0))
    view = TryView(id='x', phase='playing', device='CPU', attempts=attempts)
    assert said(view) == 'Playing on CPU · 0 of 2 episodes over'
    assert said(view.model_copy(update={'phase': 'finished'})) == 'Solved: base no verdict, adapter no verdict'
