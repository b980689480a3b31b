"""Launch page and queue in a real browser: one start whatever is clicked, drafts that last, an order to change."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import live_server
import pytest
from live_server import Server, serving
from playwright.sync_api import Browser, Page, expect

from trainer.runfolder import RunFolder

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]
STUB = Path(__file__).parent.parent / 'studio' / 'stub_trainer.py'
SERVE = f"""
import functools, sys
import studio.services as services
from studio.documents.samples import load_tutorial
services.LocalLauncher = functools.partial(
    services.LocalLauncher, (sys.executable, {str(STUB)!r}, '--steps', '9', '--interval', '0', '--hold', 'training'))
from studio.settings import Settings
opened = services.Studio(Settings())
if not opened.documents.count():
    load_tutorial(opened.documents)
opened.database.close()
{live_server.SERVE}
"""


@pytest.fixture(scope='module')
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A studio with the tutorial tasks, whose trainer stays at its second step until it is stopped."""
    with serving(tmp_path_factory.mktemp('home'), SERVE) as running:
        yield running


def ready(page: Page, server: Server, path: str = '/train') -> None:
    """Open a page and wait until it answers."""
    page.set_default_timeout(40_000)
    expect.set_options(timeout=40_000)
    page.goto(f'{server.url}{path}')
    page.wait_for_function('window.did_handshake')
    if path.startswith('/train'):
        expect(page.get_by_text('Draft saved')).to_be_attached()


def set_to(page: Page, key: str, value: str) -> None:
    page.get_by_label(key, exact=True).fill(value)
    page.get_by_label(key, exact=True).blur()


def test_a_half_filled_form_outlives_a_reload(server: Server, page: Page) -> None:
    """Case E1: also what is still being typed; what is out of bounds is clamped and said."""
    ready(page, server)
    page.get_by_label('Name of the run').fill('A long night')
    page.get_by_role('switch', name='SFT cold start').press('Space')
    expect(page.get_by_text('32 tasks with solutions to learn from')).to_be_visible()
    page.get_by_text('Evaluation and checkpoints').click()
    set_to(page, 'numGenerations', '12')
    set_to(page, 'maxCompletionLength', '5000')
    expect(page.get_by_text('lowered from 5000 · 256 to 4096')).to_be_visible()
    set_to(page, 'saveEvery', '-3')
    expect(page.get_by_role('button', name='Start training')).to_be_disabled()
    set_to(page, 'saveEvery', '5')
    expect(page.get_by_role('button', name='Start training')).to_be_enabled()
    page.get_by_role('radio', name=re.compile('^Qwen3-1.7B')).click()
    expect(page.get_by_text('Download first.')).to_be_visible()
    page.get_by_label('entropyCoef', exact=True).press_sequentially('0.07')
    expect(page.get_by_label('entropyCoef', exact=True)).to_have_value('0.07')
    page.wait_for_timeout(500)
    page.reload()
    page.wait_for_function('window.did_handshake')
    expect(page.get_by_label('Name of the run')).to_have_value('A long night')
    for key, value in (
        ('numGenerations', '12'),
        ('maxCompletionLength', '4096'),
        ('saveEvery', '5'),
        ('entropyCoef', '0.07'),
    ):
        expect(page.get_by_label(key, exact=True)).to_have_value(value)
    expect(page.get_by_role('radio', name=re.compile('^Qwen3-1.7B'))).to_have_attribute('aria-checked', 'true')
    expect(page.get_by_role('switch', name='SFT cold start')).to_have_attribute('aria-checked', 'true')
    expect(page.get_by_role('group', name='Memory')).to_contain_text('GB')


def test_one_step_can_be_measured_and_given_up(server: Server, page: Page) -> None:
    """A real run of one step; it stays in the list."""
    ready(page, server)
    page.get_by_role('button', name='Measure one step').click()
    expect(page.get_by_text('Measuring: training')).to_be_visible()
    page.get_by_role('group', name='Time').get_by_role('button', name='Cancel').click()
    expect(page.get_by_role('button', name='Measure one step')).to_be_enabled()
    assert names(server) == ['Measure Starter']


def names(server: Server) -> list[str]:
    """Names of the runs there are."""
    return sorted(RunFolder(path).config().name for path in (server.home / 'runs').iterdir())


def test_two_tabs_start_one_run(server: Server, browser: Browser, new_page: NewPage) -> None:
    """Case C5: clicks in both at once make one run, the second is told which; another waits behind it."""
    context = browser.new_context(viewport={'width': 1440, 'height': 900})
    first, second = new_page(context=context), new_page(context=context)
    ready(first, server)
    ready(second, server)
    for tab in (first, second):
        expect(tab.get_by_role('button', name='Start training')).to_be_enabled()
        start = tab.get_by_role('button', name='Start training')
        start.evaluate('(button) => { button.click(); button.click(); button.click(); }')
    # Either may be served first; the other is told.
    deadline = time.monotonic() + 40
    while not any(tab.get_by_text('was started already').is_visible() for tab in (first, second)):
        assert time.monotonic() < deadline, 'neither tab was told'
        first.wait_for_timeout(100)
    for tab in (first, second):
        tab.wait_for_url(re.compile(r'/runs/\w+$'))
    assert first.url == second.url
    assert len(names(server)) == 2, 'one, and the measured step'

    for name in ('Two', 'Three', 'Four'):
        ready(first, server)
        expect(first.get_by_text('It will wait.')).to_be_visible()
        first.get_by_label('Name of the run').fill(name)
        first.get_by_role('button', name='Start training').click()
        first.wait_for_url(re.compile(r'/runs/\w+$'))
    ready(first, server, '/runs')
    rows = first.locator('.queue li')
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text('Two')
    first.get_by_role('button', name='Earlier: Four').focus()
    first.keyboard.press('ArrowUp')
    expect(rows.nth(1)).to_contain_text('Four')
    expect(first.get_by_role('button', name='Earlier: Four')).to_be_focused()
    first.keyboard.press('ArrowUp')
    expect(rows.nth(0)).to_contain_text('Four')
    first.get_by_role('button', name='Undo').last.click()
    expect(rows.nth(0)).to_contain_text('Two')
    first.get_by_role('button', name='Take out: Three').click()
    expect(first.get_by_role('dialog')).to_contain_text('Nothing is lost but its place in the queue.')
    first.get_by_role('button', name='Take it out').click()
    expect(rows).to_have_count(2)
    context.close()


def test_a_run_is_stopped_resumed_copied_and_deleted(server: Server, page: Page) -> None:
    """From the list: each says what is kept."""
    ready(page, server, '/runs')
    menu = page.get_by_role('button', name=re.compile('^Menu of Starter'))
    line = page.locator('.runlist tbody tr').filter(has=menu)
    expect(line).to_contain_text('Training')
    menu.click()
    page.get_by_role('menuitem', name='Checkpoint now').or_(page.get_by_text('Checkpoint now')).first.click()
    expect(page.get_by_text('A checkpoint of step 3 is written')).to_be_visible()
    menu.click()
    page.locator('.mi', has_text='Stop').click()
    expect(page.get_by_role('dialog')).to_contain_text('saves the adapter and a checkpoint of step 2')
    page.get_by_role('button', name='Stop the run').click()
    expect(line).to_contain_text('Stopped at 2')
    expect(page.locator('.queue li')).to_have_count(1)

    menu.click()
    page.locator('.mi', has_text='Resume').click()
    expect(page.get_by_text('waits for its turn')).to_be_visible()
    expect(page.locator('.queue li')).to_have_count(2)

    ready(page, server)
    page.get_by_role('button', name='Copy from a run').click()
    page.get_by_role('button', name='Copy Three').click()
    expect(page.get_by_label('Name of the run')).to_have_value('Three')
    page.wait_for_url(re.compile('/train$'))
    set_to(page, 'numGenerations', '6')
    expect(page.get_by_text('1 changed from defaults')).to_be_visible()
    page.reload()
    page.wait_for_function('window.did_handshake')
    expect(page.get_by_label('numGenerations', exact=True)).to_have_value('6')
    expect(page.get_by_label('Name of the run')).to_have_value('Three')

    ready(page, server, '/runs')
    page.get_by_role('button', name='Menu of Three').click()
    page.locator('.mi', has_text='Delete').click()
    expect(page.get_by_role('dialog')).to_contain_text(re.compile(r'Frees [\d.]+ k?B'))
    page.get_by_role('button', name='Delete the run').click()
    expect(page.get_by_role('link', name='Three')).to_have_count(0)
