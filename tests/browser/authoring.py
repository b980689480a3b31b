"""What browser tests of authoring share: a new task, its parts on the page, what is stored, a dry run."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any

from live_server import Server
from playwright.sync_api import Locator, Page, expect


def stored(server: Server, task_id: str) -> dict[str, Any]:
    """The document as it lies in the database."""
    with sqlite3.connect(f'file:{server.home}/studio.db?mode=ro', uri=True) as database:
        database.row_factory = sqlite3.Row
        row = dict(database.execute('select * from document where id = ?', (task_id,)).fetchone())
    return row | {'draft': json.loads(row['draft']), 'solutions': json.loads(row['solutions'])}


def until_stored(server: Server, task_id: str, **fields: Any) -> dict[str, Any]:
    """Wait until the document has these values (``prompt`` is looked up in its draft) and return it."""
    deadline = time.monotonic() + 60
    while True:
        document = stored(server, task_id)
        found = {name: document['draft'].get(name) if name == 'prompt' else document[name] for name in fields}
        if found == fields:
            return document
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def new_task(page: Page, server: Server) -> str:
    """Press N in the library and return the id of the task that opens."""
    page.goto(server.url)
    expect(page.get_by_role('button', name='New task').first).to_be_visible()
    page.wait_for_function('window.did_handshake')
    page.keyboard.press('n')
    expect(page.get_by_label('Title', exact=True)).to_be_visible()
    page.wait_for_url('**/tasks/*')
    return page.url.rsplit('/', 1)[-1]


def prompt(page: Page) -> Locator:
    return page.get_by_label('Prompt', exact=True)


def status(page: Page) -> Locator:
    return page.locator('.saved')


def checker_code(page: Page) -> Locator:
    return page.locator('section[aria-label="RL Checker"] .cm-content').first


def run_tool(page: Page, command: str) -> None:
    """Run a command in the playground and wait for its answer."""
    before = page.locator('.term .entry').count()
    page.get_by_label('Command or path').fill(command)
    page.get_by_label('Command or path').press('Enter')
    expect(page.locator('.term .entry')).to_have_count(before + 1)
    expect(page.locator('.term .entry').last).to_contain_text('exit')


def check(page: Page) -> Locator:
    """Run the checker by its shortcut, wait for a verdict that was not there before, and return its badge."""
    badge = page.locator('.verd .vb')
    earlier = badge.get_attribute('id') if badge.count() else 'none'
    page.keyboard.press('Control+Enter')
    expect(page.locator(f'.verd .vb:not(#{earlier})')).to_be_visible(timeout=30_000)
    return badge


def tab_to(page: Page, name: str, *, back: bool = False) -> None:
    """Press Tab until something of this name has the focus."""
    seen = []
    for _ in range(150):
        # In a code editor Tab indents; Escape closes its completions, and the next one lets go of the editor.
        if page.locator('.cm-content:focus').count():
            page.keyboard.press('Escape')
            page.keyboard.press('Escape')
        page.keyboard.press('Shift+Tab' if back else 'Tab')
        focused = page.evaluate(
            "(e => e.getAttribute('aria-label') || e.title || e.textContent.trim())(document.activeElement)"
        )
        if focused.startswith(name):
            return
        seen.append(focused[:30])
    raise AssertionError(f'{name!r} was not reached: {seen}')


def menu_pick(page: Page, name: str) -> None:
    """Pick from the open menu by its arrow keys and Enter."""
    page.locator('.q-menu .q-item', has_text=name).wait_for()
    deadline, reached = time.monotonic() + 30, ''
    while not reached.startswith(name):
        assert time.monotonic() < deadline, f'the focus is at {reached!r}'
        page.keyboard.press('ArrowDown')
        reached = page.evaluate('document.activeElement.textContent')[:60]
        time.sleep(0.05)
    page.keyboard.press('Enter')
