"""The library in a real browser: found as it is typed, picked over pages, done by keys alone, and the way back."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from live_server import Server, serving, start_server, stop_server
from playwright.sync_api import Locator, Page, expect

from studio.services import Studio
from studio.settings import Settings
from trainer.task import parse_task

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]
COUNT = 120
MADE_MS = 60_000


@pytest.fixture(scope='module')
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One studio with more tasks than fit on two pages."""
    home = tmp_path_factory.mktemp('home')
    studio = Studio(Settings(home=home))
    for number in range(COUNT):
        checker = {'type': 'exit_code', 'config': {'command': f'test -s out-{number}.txt'}}
        spec: dict[str, Any] = {'prompt': f'Écris le fichier {number}.', 'checker': checker}
        steps = [{'tool': 'write_file', 'args': {'path': f'out-{number}.txt', 'content': 'x'}}]
        raw = {'title': f'Task {number:03}', 'task_spec': spec, 'solutions': [{'kind': 'reference', 'steps': steps}]}
        topics = ['network'] if number % 2 else ['files', 'odd names, with commas']
        studio.documents.create(parse_task(raw)[0], topics=topics, status='published')
    studio.database.close()
    with serving(home) as running:
        yield running


def library(page: Page, server: Server, query: str = '') -> None:
    page.set_default_timeout(30_000)
    page.goto(f'{server.url}/{query}')
    page.wait_for_function('window.did_handshake')
    expect(titles(page).first).to_be_visible()


def titles(page: Page) -> Locator:
    return page.locator('.tasks [data-row]')


def tick(page: Page, title: str) -> None:
    page.get_by_role('checkbox', name=f'Select {title}').click()


def stored(server: Server, query: str) -> Any:
    with sqlite3.connect(f'file:{server.home}/studio.db?mode=ro', uri=True) as database:
        return database.execute(query).fetchone()[0]


def test_what_is_typed_is_found_and_the_address_keeps_it(server: Server, page: Page) -> None:
    library(page, server)
    expect(page.locator('.stat')).to_contain_text(f'1 to 50 of {COUNT}')
    page.keyboard.press('/')
    page.keyboard.type('ECRIS fichier 11', delay=15)
    expect(titles(page)).to_have_count(11)
    expect(page.locator('.filters')).to_contain_text(f'11 of {COUNT}')
    expect(page).to_have_url(re.compile(r'search=ECRIS\+fichier\+11$'))
    page.keyboard.type('9')
    expect(titles(page)).to_have_text(['Task 119'])
    page.keyboard.type(' "nothing" OR (')
    expect(page.get_by_text('No task fits the search and the filters.')).to_be_visible()
    expect(page.locator('[data-search] input')).to_be_focused()
    page.locator('.nothing').get_by_role('button', name='Clear search and filters').click()
    expect(titles(page)).to_have_count(50)
    expect(page.locator('[data-search] input')).to_have_value('')
    expect(page).to_have_url(server.url + '/')


def test_filters_pages_and_sorting_are_steps_to_go_back_over(server: Server, page: Page) -> None:
    library(page, server)
    page.get_by_role('button', name='Filter: Topic').click()
    page.get_by_role('menuitemradio', name='network').click()
    expect(page.locator('.filters')).to_contain_text(f'60 of {COUNT}')
    expect(titles(page).first).to_have_text('Task 119')
    page.get_by_role('button', name='Topic is network').click()
    page.get_by_role('menuitem', name='is not').click()
    expect(titles(page).first).to_have_text('Task 118')
    page.keyboard.press('Escape')
    page.get_by_role('button', name='Next page').click()
    expect(titles(page)).to_have_count(10)
    page.get_by_role('button', name='Task', exact=True).click()
    expect(titles(page).first).to_have_text('Task 000')
    expect(page.locator('th[aria-sort=ascending]')).to_have_text(re.compile('Task'))

    page.reload()
    expect(titles(page).first).to_have_text('Task 000')
    expect(page.locator('.filters')).to_contain_text('Topic is not')
    page.go_back()
    expect(titles(page)).to_have_count(10)
    expect(page.locator('.stat')).to_contain_text('51 to 60 of 60')
    titles(page).first.click()
    expect(page.get_by_label('Title', exact=True)).to_be_visible()
    page.go_back()
    expect(page.locator('.stat')).to_contain_text('51 to 60 of 60')
    page.go_back()
    page.go_back()
    expect(page.get_by_role('button', name='Topic is network')).to_be_visible()
    expect(titles(page).first).to_have_text('Task 119')
    page.get_by_role('button', name='Remove the filter Topic: network').click()
    expect(page.locator('.stat')).to_contain_text(f'of {COUNT}')


def test_all_that_match_are_picked_changed_and_changed_back(server: Server, page: Page) -> None:
    library(page, server, '?topic=network')
    page.get_by_role('checkbox', name='Select every task on this page').click()
    expect(page.locator('.bulk')).to_contain_text('50selected')
    page.get_by_role('button', name='Select all 60 that match').click()
    expect(page.locator('.bulk')).to_contain_text('60selected')
    page.get_by_role('button', name='Next page').click()
    expect(page.locator('.tasks tbody tr.selected')).to_have_count(10)

    page.get_by_role('button', name='More for the selected tasks').click()
    page.get_by_text('Unpublish', exact=True).click()
    expect(page.get_by_text('60 tasks made drafts')).to_be_visible()
    assert stored(server, "select count(*) from document where status = 'draft'") == 60
    page.get_by_role('button', name='Undo').click()
    expect(page.get_by_role('radio', name='Draft')).to_have_text('Draft0')

    page.locator('.bulk').get_by_role('button', name='Topics').click()
    page.get_by_label('Topics to add').fill('new one, files')
    page.get_by_role('button', name='Remove network, which 60 of 60 have').click()
    page.get_by_role('button', name='Change 60 tasks').click()
    expect(page.get_by_text('60 tasks changed')).to_be_visible()
    page.goto(f'{server.url}/?topic=new+one')
    expect(page.locator('.stat')).to_contain_text('of 60')
    assert stored(server, "select count(*) from document where topics like '%network%'") == 0

    page.get_by_role('checkbox', name='Select every task on this page').click()
    with page.expect_download() as download:
        page.locator('.bulk').get_by_role('button', name='Export').click()
        page.get_by_text('JSONL', exact=False).last.click()
    assert len(download.value.path().read_text(encoding='utf-8').splitlines()) == 50
    # The keys of the page rest until the menu is gone.
    expect(page.locator('.q-menu')).to_have_count(0)
    page.evaluate('document.activeElement.blur()')
    page.keyboard.press('Delete')
    expect(page.get_by_text('50 tasks deleted')).to_be_visible()
    expect(titles(page)).to_have_count(10)
    page.get_by_role('button', name='Undo').click()
    expect(page.locator('.stat')).to_contain_text('of 60')
    assert stored(server, 'select count(*) from document where deleted_at is not null') == 0


def test_keys_alone_find_pick_certify_train_and_open(server: Server, page: Page) -> None:
    library(page, server)
    page.keyboard.press('/')
    page.keyboard.type('fichier 7', delay=15)
    expect(titles(page)).to_have_count(21)
    page.keyboard.press('ArrowDown')
    expect(titles(page).first).to_be_focused()
    page.keyboard.press('j')
    page.keyboard.press('ArrowDown')
    page.keyboard.press('k')
    expect(titles(page).nth(1)).to_be_focused()
    page.keyboard.press('x')
    expect(page.locator('.bulk')).to_contain_text('1selected')
    page.keyboard.press('j')
    page.keyboard.press('j')
    page.keyboard.press('Shift+X')
    expect(page.locator('.bulk')).to_contain_text('3selected')
    expect(page.locator('.tasks tbody tr.selected')).to_have_count(3)
    page.keyboard.press('Escape')
    expect(page.locator('.bulk')).to_be_hidden()
    expect(titles(page).nth(3)).to_be_focused()
    page.keyboard.press('c')
    seal = page.locator('.tasks tbody tr').nth(3).locator('.seal')
    expect(seal).not_to_have_text('Uncertified', timeout=2 * MADE_MS)
    expect(titles(page).nth(3)).to_be_focused()
    page.keyboard.press('x')
    expect(page.locator('.bulk')).to_contain_text('1selected')
    page.keyboard.press('Control+Enter')
    page.wait_for_url(re.compile('/train'))
    expect(page.locator('section[aria-label="Tasks"]')).to_contain_text('1 selected')
    page.go_back()
    expect(titles(page)).to_have_count(21)
    expect(page.locator('.bulk')).to_be_hidden()
    page.keyboard.press('j')
    focused = page.locator('.tasks [data-row]:focus').inner_text().strip()
    page.keyboard.press('Enter')
    expect(page.get_by_label('Title', exact=True)).to_have_value(focused)
    page.evaluate('document.activeElement.blur()')
    page.keyboard.press('n')
    expect(page.get_by_label('Title', exact=True)).to_have_value('')
    page.goto(server.url)
    tick(page, 'Untitled task')
    expect(page.locator('.bulk')).to_contain_text('1selected')
    page.keyboard.press('Delete')
    expect(page.get_by_text('1 task deleted')).to_be_visible()


def test_the_palette_does_what_the_page_can_do(server: Server, page: Page) -> None:
    library(page, server)
    page.get_by_role('checkbox', name='Select Task').first.click()
    expect(page.locator('.bulk')).to_contain_text('1selected')
    box = page.get_by_role('combobox', name='Do something')
    options = page.get_by_role('option')
    page.keyboard.press('Control+k')
    expect(box).to_be_focused()
    for action in ('Certify', 'Publish', 'Import', 'New task', 'Templates', 'Clear selection', 'Train on 1'):
        expect(options.filter(has_text=action).first).to_be_visible()
    expect(options.filter(has_text='Previous page')).to_have_attribute('aria-disabled', 'true')
    page.keyboard.type('clear sel')
    expect(options).to_have_count(1)
    expect(box).to_have_attribute('aria-activedescendant', re.compile('.'))
    page.keyboard.press('Enter')
    expect(page.locator('.bulk')).to_be_hidden()

    titles(page).nth(2).focus()
    page.keyboard.press('Control+k')
    expect(box).to_be_focused()
    page.keyboard.press('Escape')
    expect(page.locator('.q-dialog__inner')).to_have_count(0)
    expect(titles(page).nth(2)).to_be_focused()

    page.keyboard.press('Control+k')
    expect(box).to_be_focused()
    page.keyboard.type('uncertified')
    page.keyboard.press('Enter')
    expect(page).to_have_url(re.compile('certificate=uncertified'))
    titles(page).filter(has_text=re.compile(r'^\s*Task \d')).first.click()
    expect(page.get_by_label('Title', exact=True)).to_be_visible()
    page.keyboard.press('Control+k')
    expect(box).to_be_focused()
    page.keyboard.type('certify')
    expect(options.first).to_contain_text('Certify')
    page.keyboard.press('Enter')
    expect(page.locator('section[aria-label="Certificate"]')).to_contain_text('for v1', timeout=2 * MADE_MS)


def test_the_last_task_leaves_the_three_ways_to_begin(tmp_path_factory: pytest.TempPathFactory, page: Page) -> None:
    running = start_server(tmp_path_factory.mktemp('empty'))
    page.goto(running.url)
    for way in ('Start from a template', 'Import tasks', 'Record a solution'):
        expect(page.get_by_role('heading', name=way)).to_be_visible()
    page.get_by_role('button', name='Open a sandbox').click()
    expect(page.get_by_label('Title', exact=True)).to_be_visible()
    page.get_by_role('link', name='Tasks').first.click()
    tick(page, 'Untitled task')
    page.locator('.bulk').get_by_role('button', name='Delete the selected tasks').click()
    expect(page.get_by_role('heading', name='Write your first task')).to_be_visible()
    page.get_by_role('button', name='Undo').click()
    expect(titles(page)).to_have_count(1)
    stop_server(running)
