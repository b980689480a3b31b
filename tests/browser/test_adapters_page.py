"""The adapters in a real browser: brought in by a file, refused by name, annotated, renamed, compared, deleted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from live_server import Server
from playwright.sync_api import Page, expect

sys.path.insert(0, str(Path(__file__).parents[1] / 'studio'))
from adapter_files import files, zipped

pytestmark = pytest.mark.browser


def bring(page: Page, path: Path) -> None:
    page.locator('input[type=file]').first.set_input_files(path)


def test_an_adapter_of_somebody_else_comes_in_and_goes(page: Page, server: Server, tmp_path: Path) -> None:
    page.goto(f'{server.url}/adapters')
    expect(page.get_by_text('No adapters yet')).to_be_visible()
    bring(page, zipped(tmp_path / 'bad.zip', files() | {'training_args.bin': b'x'}))
    expect(page.get_by_text('training_args.bin is a pickle')).to_be_visible()
    page.get_by_role('button', name='Dismiss').click()
    bring(page, zipped(tmp_path / 'gift.zip', files()))
    expect(page.get_by_role('heading', name='gift v1')).to_be_visible()
    expect(page.get_by_text('there is no training of it here to compare with')).to_be_visible()
    notes = page.get_by_role('textbox', name='Notes')
    notes.fill('<b>keep</b>')
    notes.blur()
    page.get_by_role('button', name='More').click()
    page.get_by_role('menuitem', name='Rename…').click()
    page.get_by_role('textbox', name='Name', exact=True).fill('a <i>gift</i>')
    page.get_by_role('button', name='Rename', exact=True).click()
    expect(page.get_by_role('heading', name='a <i>gift</i> v1')).to_be_visible()
    page.reload()
    expect(page.get_by_role('textbox', name='Notes')).to_have_value('<b>keep</b>')

    bring(page, zipped(tmp_path / 'other.zip', files()))
    expect(page.get_by_role('heading', name='other v1')).to_be_visible()
    page.get_by_role('button', name='Compare versions').click()
    page.get_by_role('button', name='Compare', exact=True).click()
    expect(page.get_by_text('Neither was measured.')).to_be_visible()
    expect(page.get_by_text('Nothing that is recorded.')).to_be_visible()
    page.go_back()
    for name in ('other v1', 'a <i>gift</i> v1'):
        expect(page.get_by_role('heading', name=name)).to_be_visible()
        page.get_by_role('button', name='More').click()
        page.get_by_role('menuitem', name='Delete…').click()
        page.get_by_role('button', name='Delete the adapter').click()
    expect(page.get_by_text('No adapters yet')).to_be_visible()
