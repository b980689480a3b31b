"""Certificates in a real browser: made, gone stale, failed with the reason, and asked for where a run starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from live_server import Server, serving
from passing import watch_for
from playwright.sync_api import Locator, Page, expect

from studio.services import Studio
from studio.settings import Settings
from trainer.task import parse_task

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]
REFERENCE: dict[str, Any] = {
    'kind': 'reference',
    'steps': [{'tool': 'run_command', 'args': {'command': 'echo granite > answer.txt'}}],
}
COMMANDS = {'Write the answer': 'grep -qx granite answer.txt', 'Anything goes': 'true', 'Never tried': 'test -s x.txt'}
MADE_MS = 90_000


@pytest.fixture(scope='module')
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One studio with three published tasks; the last has no reference solution."""
    home = tmp_path_factory.mktemp('home')
    studio = Studio(Settings(home=home))
    for title, command in COMMANDS.items():
        checker = {'type': 'exit_code', 'config': {'command': command}}
        raw: dict[str, Any] = {'title': title, 'task_spec': {'prompt': f'{title}.', 'checker': checker}}
        if title != 'Never tried':
            raw['solutions'] = [REFERENCE]
        studio.documents.create(parse_task(raw)[0], status='published')
    studio.database.close()
    with serving(home) as running:
        yield running


def library(page: Page, server: Server, query: str = '') -> None:
    page.goto(server.url + '/' + query)
    page.wait_for_function('window.did_handshake')
    expect(page.locator('.tasks tbody tr').first).to_be_visible()


def row(page: Page, title: str) -> Locator:
    return page.locator('.tasks tbody tr', has_text=title)


def editor(page: Page, server: Server, title: str) -> Locator:
    """Open a task from the library and return its certificate card."""
    library(page, server)
    row(page, title).get_by_role('link').click()
    expect(page.get_by_label('Title', exact=True)).to_have_value(title)
    return page.locator('section[aria-label="Certificate"]')


def test_a_certificate_is_made_shown_and_goes_stale(server: Server, page: Page) -> None:
    card = editor(page, server, 'Write the answer')
    expect(card).to_contain_text('Uncertified')
    page.get_by_label('Prompt', exact=True).click()
    page.keyboard.press('End')
    page.keyboard.type('c')  # typed, not pressed: nothing starts
    expect(page.locator('.saved')).to_contain_text('Saved v2')
    expect(card).to_contain_text('Uncertified')
    page.locator('body').click(position={'x': 700, 'y': 880})
    page.evaluate('document.activeElement.blur()')
    said_so = watch_for(page, 'header [aria-busy=true]', 'Certifying')
    page.keyboard.press('c')
    said_so()
    expect(card).to_contain_text('Certified for v2', timeout=MADE_MS)
    expect(page.locator('header [aria-busy=true]')).to_have_count(0)
    for line in ('Untouched workspace fails0.00', 'Reference passes1.00', 'Repeats identical5/5'):
        expect(card).to_contain_text(line)
    expect(card).to_contain_text('hash ')
    expect(card).to_contain_text('just now')
    library(page, server)
    expect(row(page, 'Write the answer').locator('.seal')).to_have_text('Certified')

    card = editor(page, server, 'Write the answer')
    expect(card).to_contain_text('Certified for v2')
    page.get_by_label('Prompt', exact=True).fill('Write granite into answer.txt.')
    expect(card).to_contain_text('Stale: certified for v2')
    expect(card).to_contain_text('Run it again for v3')
    library(page, server)
    expect(row(page, 'Write the answer').locator('.seal')).to_have_text('Stale')


def test_a_checker_that_lets_everything_pass_fails_with_the_reason(server: Server, page: Page) -> None:
    card = editor(page, server, 'Anything goes')
    page.get_by_role('button', name='Certify now').click()
    expect(card).to_contain_text('Failed for v1', timeout=MADE_MS)
    expect(card.get_by_label('What failed')).to_contain_text('Untouched workspace fails')
    expect(card.get_by_label('What failed')).to_contain_text('a model that does nothing earns the reward')
    expect(card.get_by_role('button', name='Run again')).to_be_visible()
    library(page, server, '?certificate=failed')
    expect(page.locator('.tasks tbody tr')).to_have_count(1)
    expect(row(page, 'Anything goes').locator('.seal')).to_have_text('Failed')


def test_what_stops_a_certificate_is_said_in_place(server: Server, page: Page) -> None:
    card = editor(page, server, 'Never tried')
    expect(card).to_contain_text('A certificate needs a reference solution')
    page.get_by_label('Prompt', exact=True).fill('')
    expect(page.locator('.saved')).to_contain_text('1 problem')
    page.get_by_role('button', name='Certify', exact=False).first.click()
    expect(card).to_contain_text('Only a valid version can be certified')
    page.get_by_label('Prompt', exact=True).fill('Never tried.')
    expect(page.locator('.saved')).to_contain_text('Saved v1')
    cancelled = watch_for(page, 'section[aria-label="Certificate"] button', 'Cancel', press=True)
    page.get_by_role('button', name='Certify now').click()
    cancelled()
    expect(card).to_contain_text('ancelled', timeout=MADE_MS)
    expect(card).to_contain_text('Uncertified')


def test_the_library_certifies_what_is_picked_and_a_run_asks(server: Server, page: Page) -> None:
    library(page, server)
    row(page, 'Write the answer').locator('.q-checkbox').click()
    expect(page.locator('.bulk')).to_contain_text('1selected')
    page.evaluate('document.activeElement.blur()')
    said_so = watch_for(page, '.bulk [aria-busy=true]', 'Certifying')
    page.keyboard.press('c')
    said_so()
    expect(row(page, 'Write the answer').locator('.seal')).to_have_text('Certified', timeout=MADE_MS)
    page.goto(server.url + '/train')
    tasks = page.locator('section[aria-label="Tasks"]')
    expect(tasks).to_contain_text('1 certified')
    expect(tasks).to_contain_text('1 task has no certificate, 1 failed its certificate.')
    expect(tasks.locator('.note')).to_contain_text('Anything goes')
    counted = watch_for(page, 'section[aria-label="Tasks"] .note', 'Certifying 1 of 2')
    tasks.get_by_role('button', name='Certify both').click()
    counted()
    expect(tasks).to_contain_text('2 tasks failed their certificates.', timeout=MADE_MS)
    tasks.get_by_role('button', name='Leave out').click()
    expect(tasks.locator('.note')).to_have_count(0)
    expect(tasks).to_contain_text('1 selected')
