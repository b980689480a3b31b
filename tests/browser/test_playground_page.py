"""The playground in a real browser: what changed, earlier dry runs, replay by steps, cancel, and tabs of their own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_server import Server
from playwright.sync_api import Locator, Page, expect

from studio.services import Studio
from studio.settings import Settings
from trainer.task import parse_task

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]
TASK: dict[str, Any] = {
    'title': 'Fix the sum',
    'task_spec': {
        'prompt': 'Make total() add.',
        'setup_files': {'src/total.py': 'def total(a, b):\n    return a - b\n', 'notes.txt': 'old\n'},
        'setup_commands': ["printf 'a\\0b' > blob.bin"],
        'checker': {'type': 'exit_code', 'config': {'command': 'grep -q "a + b" src/total.py', 'protect': []}},
    },
    'solutions': [
        {
            'kind': 'reference',
            'steps': [
                {'tool': 'read_file', 'args': {'path': 'src/total.py'}},
                {'tool': 'run_command', 'args': {'command': 'sed -i "s/a - b/a + b/" src/total.py'}},
            ],
        }
    ],
}


def new_task(server: Server, **spec: Any) -> str:
    """Store the task and return its id; the studio sees it in the store."""
    studio = Studio(Settings(home=server.home))
    try:
        return studio.documents.create(parse_task({**TASK, 'task_spec': {**TASK['task_spec'], **spec}})[0]).id
    finally:
        studio.database.close()


def open_task(page: Page, server: Server, task_id: str) -> Locator:
    page.goto(f'{server.url}/tasks/{task_id}', timeout=60_000)
    page.wait_for_function('window.did_handshake', timeout=60_000)
    playground = page.get_by_label('Playground')
    expect(playground).to_be_visible()
    return playground


def call(page: Page, command: str) -> None:
    """Run a command and wait for its answer."""
    before = page.locator('.term .entry').count()
    page.get_by_label('Command or path').fill(command)
    page.get_by_label('Command or path').press('Enter')
    expect(page.locator('.term .entry')).to_have_count(before + 1)
    expect(page.locator('.term .entry').last).to_contain_text('exit')


def grade(page: Page, expected: str) -> None:
    page.get_by_role('button', name='Run checker').click()
    expect(page.locator('.verd .vb')).to_have_text(expected, timeout=60_000)


def programs(argument: str) -> int:
    """How many processes on this machine have an argument, those in sandboxes too."""
    found = 0
    for path in Path('/proc').glob('[0-9]*/cmdline'):
        with contextlib.suppress(OSError):
            found += argument.encode() in path.read_bytes().split(b'\0')
    return found


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_changed_file_shows_its_difference(server: Server, page: Page) -> None:
    playground = open_task(page, server, new_task(server))
    call(page, 'sed -i "s/a - b/a + b/" src/total.py; rm notes.txt; printf "c\\0" > blob.bin; seq 60000 > long.txt')
    tree = playground.locator('.tree')
    tree.get_by_role('button', name='src/total.py: modified').click()
    dialog = page.get_by_role('dialog', name='Changes since the start')
    expect(dialog.locator('.picked .d')).to_have_text('-    return a - b')
    expect(dialog.locator('.picked .a')).to_have_text('+    return a + b')
    for name, said in (
        ('blob.bin', 'Binary: 3 bytes → 2 bytes'),
        ('long.txt', 'Too large to show'),
        ('notes.txt', 'Deleted'),
    ):
        dialog.get_by_role('list').get_by_role('button', name=name).click()
        expect(dialog.locator('.picked')).to_contain_text(said)
    page.keyboard.press('Escape')
    expect(dialog).to_be_hidden()
    page.get_by_role('button', name='4 changed').click()
    expect(dialog).to_be_visible()
    dialog.get_by_role('button', name='Close').click()

    page.get_by_label('Tool', exact=True).click()
    page.get_by_role('option', name='write_file').click()
    page.get_by_label('Command or path').fill('src/total.py')
    page.get_by_label('Content', exact=True).fill('def total(a, b):\n    return sum((a, b))\n')
    page.locator('.toolbar button').click()
    expect(page.locator('.term .entry').last.locator('summary')).to_have_text('+1 −1')  # noqa: RUF001


def test_earlier_dry_runs_can_be_opened_again(server: Server, page: Page) -> None:
    task_id = new_task(server)
    open_task(page, server, task_id)
    call(page, 'echo more >> notes.txt')
    grade(page, 'Failed0.00')
    call(page, 'sed -i "s/a - b/a + b/" src/total.py')
    grade(page, 'Passed1.00')
    page.get_by_role('button', name='All 2 dry runs').click()
    dialog = page.get_by_role('dialog', name='Dry runs')
    expect(dialog.locator('.picked')).to_contain_text('Changed since the dry run before')
    expect(dialog.locator('.picked')).to_contain_text('src/total.py')
    expect(dialog.locator('.picked')).not_to_contain_text('notes.txt')
    dialog.get_by_role('list').get_by_role('button', name='#1').click()
    expect(dialog.locator('.picked .vb')).to_have_text('Failed0.00')
    expect(dialog.locator('.picked')).to_contain_text('notes.txt')
    page.keyboard.press('Escape')
    page.reload()
    page.get_by_role('button', name='Dry run 1').click()
    expect(dialog.locator('.picked .vb')).to_have_text('Failed0.00')


def test_a_solution_is_replayed_step_by_step_or_at_once(server: Server, page: Page) -> None:
    open_task(page, server, new_task(server))
    page.get_by_role('button', name='Replay').click()
    bar = page.get_by_role('group', name='Replay of a solution')
    expect(bar).to_contain_text('0 of 2 steps done')
    expect(bar).to_contain_text('Next: read_file src/total.py')
    expect(page.locator('.term .entry')).to_have_count(0)
    bar.get_by_role('button', name='Next step').click()
    expect(bar).to_contain_text('1 of 2 steps done')
    expect(page.locator('.term .entry')).to_have_count(1)
    expect(page.locator('.term .entry').last).to_contain_text('return a - b')
    bar.get_by_role('button', name='Stop').click()
    expect(bar).to_be_hidden()
    page.get_by_role('button', name='Replay').click()
    expect(bar).to_contain_text('0 of 2 steps done')
    bar.get_by_role('button', name='Run all').click()
    expect(page.locator('.verd .vb')).to_have_text('Passed1.00', timeout=60_000)
    expect(page.locator('.term .entry')).to_have_count(2)
    expect(bar).to_be_hidden()


def test_a_cancelled_check_ends_what_it_runs_and_the_work_goes_on(server: Server, page: Page) -> None:
    slow = {'type': 'exit_code', 'config': {'command': 'sleep 16.1803'}}
    open_task(page, server, new_task(server, checker=slow))
    call(page, 'echo kept > mine.txt')
    page.get_by_role('button', name='Run checker').click()
    until(lambda: programs('16.1803'))
    page.get_by_label('Playground').get_by_role('button', name='Cancel').click()
    expect(page.locator('.term')).to_contain_text('The check was cancelled')
    assert programs('16.1803') == 0
    call(page, 'cat mine.txt')
    expect(page.locator('.term .entry').last).to_contain_text('kept')
    call(page, 'sleep 0.1')
    page.get_by_label('Command or path').fill('sleep 17.3205')
    page.get_by_label('Command or path').press('Enter')
    until(lambda: programs('17.3205'))
    page.get_by_label('Playground').get_by_role('button', name='Cancel').click()
    expect(page.locator('.term')).to_contain_text('Cancelled: the workspace was closed.')
    assert programs('17.3205') == 0
    call(page, 'ls mine.txt')
    expect(page.locator('.term .entry').last).to_contain_text('exit 2')


def test_two_tabs_have_workspaces_of_their_own_and_leave_nothing(server: Server, new_page: NewPage) -> None:
    task_id = new_task(server)
    one, two = new_page(), new_page()
    for tab, text in ((one, 'first'), (two, 'second')):
        open_task(tab, server, task_id)
        call(tab, f'echo {text} > who.txt')
    for tab, text in ((one, 'first'), (two, 'second')):
        call(tab, 'cat who.txt')
        expect(tab.locator('.term .entry').last).to_contain_text(text)
        tab.goto(f'{server.url}/models', timeout=60_000)
