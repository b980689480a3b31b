"""Grading a run again in a real browser: the library's checker is corrected, what flipped is seen and opened."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_server import Server, serving
from playwright.sync_api import Page, expect
from test_accessibility import faults

sys.path.insert(0, str(Path(__file__).parent.parent / 'studio'))
from kept_run import LENIENT, kept_run, spec

from studio.services import Studio
from studio.settings import Settings

pytestmark = pytest.mark.browser


@pytest.fixture(scope='module')
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A data folder with a run that kept its workspaces, and one of its two checkers corrected since."""
    home = tmp_path_factory.mktemp('home')
    studio = Studio(Settings(home=home))
    run_id = kept_run(studio)
    task = studio.runs.tasks(run_id)[0]
    studio.documents.save_draft(task.id, spec(LENIENT), revision=studio.documents.get(task.id).revision)
    studio.stop()
    return {'home': str(home), 'run': run_id, 'task': task.id}


@pytest.fixture(scope='module')
def server(run: dict[str, str]) -> Iterator[Server]:
    with serving(Path(run['home'])) as running:
        yield running


def test_a_corrected_checker_is_tried_on_what_was_kept(page: Page, server: Server, run: dict[str, str]) -> None:
    page.goto(f'{server.url}/runs/{run["run"]}')
    page.get_by_role('button', name='More', exact=True).click()
    page.get_by_text('Re-grade', exact=True).click()
    expect(page.get_by_text('16 of 16 rollouts still have their final workspace')).to_be_visible()
    expect(page.get_by_text('Not graded again yet.')).to_be_visible()
    page.get_by_role('radio', name='Of the library').click()
    expect(page.get_by_text('1 of 2 tasks changed since the run was made.')).to_be_visible()
    page.get_by_role('button', name='Filter: Task').click()
    page.get_by_role('menuitemradio', name='Count the words').click()
    difference = page.get_by_role('region', name='Changes of checker.config.command')
    expect(difference).to_contain_text('tr -d')
    page.get_by_role('button', name='Re-grade').click()
    expect(page.get_by_role('status').filter(has_text='8 rollouts graded again, 2 flipped')).to_be_visible()
    expect(page.locator('.flips tbody tr')).to_have_count(8)
    only = page.get_by_role('button', name='2 failed, now pass')
    only.focus()
    page.keyboard.press('Enter')
    expect(page.locator('.flips tbody tr')).to_have_count(2)
    page.reload()
    expect(page.get_by_role('status').filter(has_text='8 rollouts graded again, 2 flipped')).to_be_visible()
    assert not [fault for dark in (False, True) for fault in faults(page, dark=dark)]
    page.locator('.flips tbody a').first.click()
    _look_at_the_workspace(page)


def _look_at_the_workspace(page: Page) -> None:
    card = page.get_by_role('region', name='Final workspace')
    expect(card).to_contain_text('5 files')
    assert not faults(page)
    card.get_by_role('button', name='answer.txt').click()
    dialog = page.get_by_role('dialog', name='answer.txt')
    expect(dialog).to_contain_text('42')
    page.keyboard.press('Escape')
    expect(dialog).to_have_count(0)
    with page.expect_download() as waited:
        card.get_by_role('link', name='Download as zip').click()
    assert waited.value.suggested_filename.startswith('workspace-')
    page.get_by_role('button', name='Re-grade').click()
    expect(page.get_by_text('4 rollouts picked')).to_be_visible()
    page.get_by_role('button', name='All rollouts').click()
    expect(page.get_by_text('4 rollouts picked')).to_be_hidden()
