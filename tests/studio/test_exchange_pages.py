"""The import dialog without a browser: rows, choices, storing, and taking it back."""

import asyncio
import json
from collections.abc import Callable

import pytest
from nicegui import ui
from nicegui.testing import User
from nicegui.testing.user_interaction import UserInteraction
from stand_in import SPEC, task

from studio.services import Studio


@pytest.fixture
def studio(open_studio: Callable[..., Studio]) -> Studio:
    return open_studio(watch=False)


def press(user: User, text: str) -> None:
    """Click the first button that has a text: simulated clicks do not bubble."""
    buttons = [found.parent_slot.parent for found in user.find(text).elements if found.parent_slot]
    first = min((button for button in buttons if button.tag == 'button'), key=lambda button: button.id)
    UserInteraction(user, {first}, text).click()


async def test_pasted_rows_are_shown_decided_stored_and_taken_back(user: User, studio: Studio) -> None:
    studio.documents.create(task(1))
    await user.open('/')
    await user.should_see('Import', retries=200)
    press(user, 'Import')
    await user.should_see('Or paste it', retries=200)
    rows = [
        {'title': 'New one', 'task_spec': {**SPEC, 'prompt': 'New', 'max_steps': 100}},
        {'title': 'Task 1', 'task_spec': {**SPEC, 'prompt': 'Changed'}},
        {**SPEC, 'promt': ''},
    ]
    user.find(kind=ui.textarea).type('\n'.join(map(json.dumps, rows)))
    press(user, 'Preview')
    await user.should_see('Import 1 task?', retries=200)
    for text in ('Here as “Task 1” (v1); prompt differs', 'max_steps lowered from 100 to 64', "did you mean 'prompt'"):
        await user.should_see(text, retries=200)
    assert studio.documents.list().total == 1
    press(user, 'New version')
    await user.should_see('Import 2 tasks', retries=200)
    press(user, 'Import 2 tasks')
    await user.should_see('2 tasks imported', retries=200)
    assert {row.title for row in studio.documents.list().rows} == {'New one', 'Task 1'}
    assert studio.documents.list().rows[0].version in (1, 2)
    user.find(kind=ui.notification).trigger('undo')
    for _ in range(100):
        if studio.documents.list().total == 1:
            break
        await asyncio.sleep(0.05)
    await user.should_see('Import undone', retries=200)
    (row,) = studio.documents.list().rows
    assert studio.documents.get(row.id).draft['prompt'] == f'{SPEC["prompt"]} 1'


async def test_an_empty_paste_is_nothing_to_import(user: User, studio: Studio) -> None:
    studio.documents.create(task(1))
    await user.open('/')
    await user.should_see('Import', retries=200)
    press(user, 'Import')
    await user.should_see('Or paste it', retries=200)
    press(user, 'Preview')
    await user.should_see('There is nothing to import', retries=200)
