"""Templates and variants in a real browser: from the gallery to a draft, from one task to many that are certified."""

from __future__ import annotations

import json
from typing import Any

import pytest
from live_server import Server
from playwright.sync_api import Locator, Page, expect

from studio.documents.service import DocumentQuery
from studio.services import Studio
from studio.settings import Settings
from trainer.task import parse_task

pytestmark = pytest.mark.browser

TASK: dict[str, Any] = {
    'title': 'Write a number',
    'task_spec': {
        'prompt': 'Write {n} to out.txt. Keep {{n}} and {"answer": 1} as they are.',
        'setup_files': {'show.py': 'print(f"{total}")\n'},
        'checker': {'type': 'exit_code', 'config': {'command': 'grep -qx {n} out.txt'}},
    },
    'solutions': [
        {
            'kind': 'reference',
            'steps': [{'tool': 'run_command', 'args': {'command': 'echo {n} | sed s/7/8/ > out.txt'}}],
        }
    ],
}
"""Its reference is wrong for 7."""


def stored(server: Server, topic: str = '') -> list[tuple[str, str]]:
    """Title and status of the documents in the store."""
    studio = Studio(Settings(home=server.home))
    try:
        page = studio.documents.list(DocumentQuery(topics=(topic,) if topic else (), per_page=100))
        return sorted((row.title, row.status) for row in page.rows)
    finally:
        studio.database.close()


def new_task(server: Server) -> str:
    studio = Studio(Settings(home=server.home))
    try:
        return studio.documents.create(parse_task(TASK)[0]).id
    finally:
        studio.database.close()


def ready(page: Page, url: str) -> None:
    page.goto(url, timeout=60_000)
    page.wait_for_function('window.did_handshake', timeout=60_000)


def make_button(page: Page) -> Locator:
    return page.locator('header').get_by_role('button', name='Make ')


def test_a_template_becomes_a_draft(server: Server, page: Page) -> None:
    ready(page, f'{server.url}/templates')
    expect(page.locator('section.sample')).to_have_count(32)
    page.get_by_role('radio', name='pytest').click()
    expect(page.locator('section.sample')).to_have_count(8)
    page.get_by_role('button', name='Filter: Skill').click()
    page.get_by_role('menuitemradio', name='Refactor').click()
    expect(page.locator('section.sample')).to_have_count(1)
    page.wait_for_url('**/templates?checker=pytest&skill=Refactor')
    page.reload()
    expect(page.locator('section.sample')).to_have_count(1)
    page.get_by_role('button', name='Preview: Extract duplicated validation').click()
    dialog = page.get_by_role('dialog')
    dialog.get_by_role('button', name='tests/test_shop.py').click()
    expect(dialog.locator('.whole')).to_contain_text('import')
    dialog.get_by_role('button', name='New from template').click()
    page.wait_for_url('**/tasks/*')
    expect(page.get_by_label('Title', exact=True)).to_have_value('Extract duplicated validation into one module')
    assert stored(server) == [('Extract duplicated validation into one module', 'draft')]


def test_variants_are_looked_at_made_certified_and_taken_back(server: Server, page: Page) -> None:
    task_id = new_task(server)
    ready(page, f'{server.url}/tasks/{task_id}')
    page.get_by_role('button', name='More actions').click()
    page.get_by_text('Make variants').click()
    page.wait_for_url('**/variants')
    expect(make_button(page)).to_be_disabled()
    page.get_by_label('Values of n', exact=True).fill('6..8')
    expect(page.get_by_text('Give it values, or keep it as text')).to_be_visible()
    expect(make_button(page)).to_be_disabled()
    page.get_by_role('button', name='Keep {total} as text').click()
    rows = page.get_by_role('list', name='Variants').get_by_role('button')
    expect(rows).to_have_count(3)
    page.get_by_label('Values of n', exact=True).fill('6, 7, 6')
    expect(rows.nth(2)).to_contain_text('the same task as row 1')
    expect(make_button(page)).to_have_text('Make 2 variants')
    page.reload()
    expect(page.get_by_label('Values of n', exact=True)).to_have_value('6, 7, 6')
    rows.first.click()
    dialog = page.get_by_role('dialog', name='Write a number (6)')
    expect(dialog.locator('.whole')).to_have_text('Write 6 to out.txt. Keep {n} and {"answer": 1} as they are.')
    dialog.get_by_role('button', name='show.py').click()
    expect(dialog.locator('.whole')).to_have_text('print(f"{total}")\n')
    dialog.get_by_role('button', name='Close').click()
    topic = 'variants of Write a number'
    assert stored(server, topic) == [], 'nothing is made before it is asked for'

    make_button(page).click()
    job = page.get_by_label('Variants being made')
    expect(job).to_contain_text('2 variants made, 1 certified, 1 failed', timeout=120_000)
    assert stored(server, topic) == [('Write a number (6)', 'published'), ('Write a number (7)', 'draft')]
    made = job.get_by_role('link')
    expect(made.filter(has_text='Write a number (7)')).to_contain_text('reference passes')
    expect(rows.first).to_contain_text('here already')
    page.reload()
    expect(job).to_contain_text('2 variants made, 1 certified, 1 failed')
    job.get_by_role('button', name='Undo').click()
    expect(page.get_by_text('2 variants deleted')).to_be_visible()
    assert stored(server, topic) == []
    page.get_by_role('button', name='Undo').last.click()
    expect(job).to_be_visible()
    assert len(stored(server, topic)) == 2


def test_a_pasted_table_names_its_bad_lines(server: Server, page: Page) -> None:
    task_id = new_task(server)
    ready(page, f'{server.url}/tasks/{task_id}/variants')
    page.get_by_role('radio', name='Table').click()
    box = page.get_by_label('Table', exact=True)
    box.fill('n\ttotal\n1\tx\n2\n3\ty\n')
    rows = page.get_by_role('list', name='Variants').get_by_role('button')
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text('line 3: 1 value for 2 columns')
    page.get_by_role('button', name='Only problems').click()
    expect(rows).to_have_count(1)
    box.fill('n;total')
    expect(page.get_by_text('Give values to the placeholders')).to_be_visible()
    box.fill('1,2\n3,4\n')
    expect(page.get_by_text("'1' cannot be a name")).to_be_visible()
    box.fill('\n'.join(json.dumps({'n': number, 'total': 't'}) for number in range(40)))
    expect(rows).to_have_count(25)
    page.get_by_role('button', name='Next page').click()
    expect(rows).to_have_count(15)
    expect(make_button(page)).to_have_text('Make 40 variants')


def test_making_can_be_cancelled(server: Server, page: Page) -> None:
    slow = parse_task(TASK)[0]
    studio = Studio(Settings(home=server.home))
    try:
        config = slow.task_spec.checker.config.model_copy(update={'command': 'sleep 20; grep -qx {n} out.txt'})
        checker = slow.task_spec.checker.model_copy(update={'config': config})
        spec = slow.task_spec.model_copy(update={'checker': checker, 'setup_files': {}})
        task_id = studio.documents.create(slow.model_copy(update={'task_spec': spec, 'title': 'Slow'})).id
    finally:
        studio.database.close()
    ready(page, f'{server.url}/tasks/{task_id}/variants')
    page.get_by_label('Values of n', exact=True).fill('1..3')
    expect(make_button(page)).to_have_text('Make 3 variants')
    make_button(page).click()
    job = page.get_by_label('Variants being made')
    expect(job.get_by_role('link', name='Slow (1)')).to_be_visible(timeout=30_000)
    job.get_by_role('button', name='Cancel').click()
    expect(job).to_contain_text('Cancelled: 1 variant made, 0 certified, 0 failed')
    expect(job).to_contain_text('3 not tried')
    assert stored(server, 'variants of Slow') == [('Slow (1)', 'draft')]
