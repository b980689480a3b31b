"""Try it in a real browser, with the starter model in real sandboxes: side by side, again, the next seed, stop (G5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_server import Server
from playwright.sync_api import Page, expect

from studio.services import Studio
from studio.settings import Settings
from trainer.task import parse_task

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]
HOSTILE = '</script><img src=x onerror="document.title=\'pwned\'">'
TASK: dict[str, Any] = {
    'title': f'Write it {HOSTILE}',
    'task_spec': {
        'prompt': f'Create the file pear.txt with the word plum in it. {HOSTILE}',
        'checker': {'type': 'exit_code', 'config': {'command': 'grep -qx plum pear.txt'}},
    },
}
PATIENCE = 120_000


def new_task(server: Server, **spec: Any) -> str:
    studio = Studio(Settings(home=server.home))
    try:
        task = parse_task({**TASK, 'task_spec': {**TASK['task_spec'], **spec}})[0]
        return studio.documents.create(task, status='published').id
    finally:
        studio.database.close()


def open_page(page: Page, server: Server, query: str) -> None:
    page.goto(f'{server.url}/try?{query}')
    page.wait_for_function('window.did_handshake')
    expect(page.get_by_role('heading', name='Try it')).to_be_visible()


def test_an_episode_is_played_again_and_with_the_next_seed(server: Server, page: Page) -> None:
    open_page(page, server, f'task={new_task(server)}&seed=3')
    expect(page.get_by_label('Seed', exact=True)).to_have_value('3')
    page.get_by_label('Attempts', exact=True).fill('9')
    page.get_by_role('button', name='Run', exact=True).click()
    expect(page.get_by_role('alert').filter(has_text='1 to 8')).to_be_visible()
    page.get_by_label('Attempts', exact=True).fill('2')
    page.get_by_role('button', name='Run', exact=True).click()
    status = page.locator('.trybar [role=status]')
    expect(status).to_have_text(re.compile(r'Solved: base \d of 2'), timeout=PATIENCE)
    column = page.get_by_role('region', name='Starter', exact=True).first
    expect(column.get_by_role('article').first).to_contain_text('Model, turn 1')
    first = column.locator('.tr').inner_text()
    assert page.title().startswith('Try it')
    # The address names the try: a reload shows the same, nothing is played twice.
    page.reload()
    expect(status).to_have_text(re.compile(r'Solved: base \d of 2'), timeout=PATIENCE)
    expect(page.get_by_label('Attempts', exact=True)).to_have_value('2')
    page.get_by_role('button', name='Next seed').click()
    expect(page.get_by_label('Seed', exact=True)).to_have_value('4')
    expect(page.get_by_role('button', name='Run again')).to_be_visible(timeout=PATIENCE)
    page.get_by_role('radio', name=re.compile('#2')).click()
    expect(page.get_by_role('radio', name=re.compile('#2'))).to_have_attribute('aria-checked', 'true')
    assert first


def test_what_hangs_can_be_stopped(server: Server, page: Page) -> None:
    open_page(page, server, f'task={new_task(server, setup_commands=["sleep 40"])}')
    page.get_by_role('button', name='Run', exact=True).click()
    expect(page.get_by_label(re.compile('turn 1')).first).to_be_visible(timeout=PATIENCE)
    page.get_by_role('button', name='Stop').click()
    expect(page.get_by_role('button', name='Run again')).to_be_visible(timeout=PATIENCE)
    expect(page.locator('.trybar [role=status]')).to_contain_text('Stopped')


def test_what_cannot_be_loaded_says_what_to_do(server: Server, page: Page, tmp_path: Path) -> None:
    (tmp_path / 'config.json').write_text(json.dumps({'model_type': 'qwen3'}))
    open_page(page, server, f'task={new_task(server)}&model={tmp_path}')
    page.get_by_role('button', name='Run', exact=True).click()
    alert = page.locator('.fail')
    expect(alert).to_contain_text('could not be loaded', timeout=PATIENCE)
    expect(alert.get_by_role('button', name='Try again')).to_be_visible()
