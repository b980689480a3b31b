"""Calibration in a real browser: tasks are measured from the library, and the launch page forecasts the signal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import live_server
import pytest
from live_server import Server, serving
from playwright.sync_api import Page, expect
from test_accessibility import faults

pytestmark = pytest.mark.browser

STAND_IN = Path(__file__).parent.parent / 'studio'
SERVE = f"""
import functools
import studio.services as services
from studio.documents.samples import load_tutorial
services.Calibrations = functools.partial(services.Calibrations, module='stub_calibration')
from studio.settings import Settings
opened = services.Studio(Settings())
if not opened.documents.count():
    load_tutorial(opened.documents)
opened.database.close()
{live_server.SERVE}
"""


@pytest.fixture(scope='module')
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A studio with the tutorial tasks, whose calibrations earn 0.5 of the rewards of a third of the tasks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('PYTHONPATH', str(STAND_IN))
        patch.setenv('RLVR_STUB_REWARDS', json.dumps({'rewards': _rewards()}))
        with serving(tmp_path_factory.mktemp('home'), SERVE) as running:
            yield running


def _rewards() -> dict[str, list[float]]:
    from studio.documents.samples import tutorial_files

    kinds = ([1.0, 0.0], [0.0], [1.0])
    return {task.title: kinds[number % 3] for number, task in enumerate(tutorial_files()[0])}


def test_tasks_are_calibrated_and_the_launch_page_forecasts(server: Server, page: Page) -> None:
    page.set_default_timeout(30_000)
    page.goto(f'{server.url}/?without=held-out')
    page.wait_for_function('window.did_handshake')
    expect(page.locator('.tasks')).to_contain_text('Not calibrated')
    page.get_by_role('checkbox', name='Select every task on this page').click()
    page.get_by_role('toolbar').get_by_role('button', name='Calibrate').click()
    dialog = page.get_by_role('dialog')
    expect(dialog).to_contain_text('32 × 8 = 256 attempts')  # noqa: RUF001
    expect(dialog).to_contain_text('Time not known yet')
    assert faults(page, '.q-dialog__inner') == []
    dialog.get_by_label('Attempts a task').fill('4')
    expect(dialog).to_contain_text('= 128 attempts')
    dialog.get_by_role('button', name='Calibrate').click()

    strip = page.get_by_role('group', name='Calibration')
    expect(strip).to_contain_text('32 tasks calibrated with Starter')
    expect(page.get_by_role('button', name='Pass rate of Starter')).to_be_visible()
    expect(page.locator('.tasks .rate b', has_text='2/4').first).to_be_visible()
    assert faults(page) + faults(page, dark=True) == []
    page.get_by_role('button', name='Filter: Tier').click()
    page.get_by_role('menuitemradio', name='Too hard').click()
    expect(page).to_have_url(re.compile('tier=hard'))
    expect(page.locator('.filters')).to_contain_text('11 of 48')
    expect(page.locator('.tasks .tier').first).to_have_text('Too hard')
    strip.get_by_role('button', name='Dismiss').click()
    expect(strip).to_be_hidden()

    # 11 tasks are in band, at 2 of 4: for 8 attempts 99 % of their groups, a third of all.
    page.goto(f'{server.url}/train')
    page.wait_for_function('window.did_handshake')
    forecast = page.get_by_role('region', name='Forecast')
    expect(forecast).to_contain_text('34%')
    expect(forecast).to_contain_text('from 4 attempts a task with Starter')
    expect(forecast).to_contain_text('11 too hard and 10 too easy')
    expect(page.get_by_role('region', name='Tasks')).to_contain_text('11 in band')
    assert faults(page) + faults(page, dark=True) == []
    page.get_by_label('numGenerations', exact=True).fill('4')
    expect(forecast).to_contain_text('30%')
    forecast.get_by_role('button', name='Use 6').click()
    expect(page.get_by_label('numGenerations', exact=True)).to_have_value('6')
    expect(forecast).to_contain_text('33%')
    forecast.get_by_role('button', name='Leave out 21').click()
    expect(page.get_by_role('region', name='Tasks')).to_contain_text('11 selected')
    expect(forecast).to_contain_text('97%')
