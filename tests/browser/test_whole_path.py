"""The main job with nothing stubbed: a task from blank, its verdicts, a run watched live, the adapter taken home."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_server import Server
from playwright.sync_api import Page, expect
from test_authoring import check, checker_code, new_task, prompt, run_tool, status
from test_training_pages import points, ready, wait_for_points

from studio.launchers import LocalLauncher
from trainer.runfolder import RunFolder

pytestmark = [pytest.mark.browser, pytest.mark.train, pytest.mark.slow, pytest.mark.timeout(600)]

STEPS = 5


@pytest.fixture(autouse=True)
def no_run_outlives_the_test(server: Server) -> Iterator[None]:
    yield
    for path in (server.home / 'runs').glob('*/claim.json'):
        claim = RunFolder(path.parent).claim()
        if claim is not None:
            LocalLauncher().end(claim)


def test_from_a_blank_task_to_an_adapter(server: Server, page: Page, tmp_path: Path) -> None:
    write_a_task(server, page)
    folder = train(server, page)
    take_the_adapter(page, folder, tmp_path / 'adapter.zip')


def write_a_task(server: Server, page: Page) -> None:
    """From blank: a wrong candidate earns 0, a right one 1, a broken checker nothing; then publish."""
    new_task(page, server)
    prompt(page).fill('Create a file named answer.txt that contains the word granite.')
    page.get_by_label('Title', exact=True).fill('Write granite')
    checker_code(page).click()
    page.keyboard.type('no_such_program answer.txt')
    run_tool(page, 'echo hello > answer.txt')
    expect(check(page)).to_have_text('Error – not scored')  # noqa: RUF001
    checker_code(page).click()
    page.keyboard.press('Control+a')
    page.keyboard.type('grep -qx granite answer.txt')
    expect(check(page)).to_have_text('Failed0.00')
    run_tool(page, 'echo granite > answer.txt')
    expect(check(page)).to_have_text('Passed1.00')
    expect(status(page)).to_contain_text('Saved v')
    page.get_by_role('button', name='Publish').click()
    expect(page.locator('header .chip')).to_have_text('Published')


def train(server: Server, page: Page) -> RunFolder:
    """The tutorial tasks with the starter model: the chart grows without a reload until the run is finished."""
    ready(page, server, '/templates')
    page.get_by_role('button', name='Load the tutorial tasks').click()
    page.wait_for_url(f'{server.url}/')
    expect(page.locator('.task-row, tbody tr').first).to_be_visible()
    ready(page, server, '/train')
    page.get_by_label('Name of the run').fill('whole path')
    for label, value in (('numGenerations', 4), ('maxSteps', STEPS)):
        page.get_by_label(label, exact=True).fill(str(value))
        page.get_by_label(label, exact=True).press('Tab')
    page.get_by_role('button', name='Start training').click()
    page.wait_for_url(re.compile(r'/runs/\w+$'))
    page.evaluate('window.marker = 1')
    wait_for_points(page, 1, seconds=240)
    assert points(page) < STEPS, 'the chart grows while one looks'
    wait_for_points(page, STEPS, seconds=240)
    expect(page.get_by_role('status').filter(has_text='Finished')).to_be_visible(timeout=240_000)
    assert points(page) == STEPS
    assert page.evaluate('window.marker') == 1, 'the page was reloaded'
    return RunFolder(server.home / 'runs' / page.url.rpartition('/')[2])


def take_the_adapter(page: Page, folder: RunFolder, saved: Path) -> None:
    """The zip holds the adapter that the run saved, in the layout peft loads."""
    with page.expect_download() as download:
        page.get_by_role('link', name='Download adapter').first.click()
    download.value.save_as(saved)
    with zipfile.ZipFile(saved) as archive:
        weights = next(name for name in archive.namelist() if name.endswith('adapter_model.safetensors'))
        assert archive.read(weights) == (folder.adapter / 'adapter_model.safetensors').read_bytes()
        lineage = json.loads(archive.read(weights.replace('adapter_model.safetensors', 'lineage.json')))
    assert lineage['step'] == STEPS
    assert len(lineage['tasks']) == len(folder.tasks())
