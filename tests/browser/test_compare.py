"""Runs compared in a real browser: picked in their list by keys, drawn over each other, followed while one goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import live_server
import pytest
from live_server import Server, serving
from playwright.sync_api import Page, expect

sys.path.insert(0, str(Path(__file__).parent.parent / 'studio'))

from measured_runs import REWARD, measured, published

from studio.services import Studio
from studio.settings import Settings

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]

LEARNER = Path(__file__).parent.parent / 'studio' / 'learner.py'
SERVE = f"""
import functools, sys
import studio.services as services
services.LocalLauncher = functools.partial(
    services.LocalLauncher, (sys.executable, {str(LEARNER)!r}, '--interval', '0.2', '--steps', '5000'))
{live_server.SERVE}
"""
HERO = 'document.querySelector(".hero .js-plotly-plot")'
LONGEST = f'Math.max(0, ...({HERO}?.data ?? []).map((line) => line.x?.length ?? 0))'


@pytest.fixture(scope='module')
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A data folder with two runs that ended and one that waits to be started; ids by name, and the folder."""
    home = tmp_path_factory.mktemp('home')
    studio = Studio(Settings(home=home))
    task = published(studio, 'Fix the paginator')
    rows = {step: {REWARD: step / 50, 'entropy': 1 - step / 100} for step in range(1, 41)}
    first = measured(studio, 'first', tasks=[task], rows=rows)
    second = measured(studio, 'second', tasks=[task], rows=rows, settings={'seed': 9}, solved=lambda *_: 0.0)
    live = studio.runs.create('live', 'starter', {}, [task])
    studio.stop()
    return {'home': str(home), 'first': first.id, 'second': second.id, 'live': live.id}


@pytest.fixture(scope='module')
def server(runs: dict[str, str]) -> Iterator[Server]:
    """A studio over it, whose trainer writes five rows a second."""
    with serving(Path(runs['home']), SERVE) as running:
        yield running


def test_runs_are_picked_by_keys_compared_and_the_address_says_it_all(
    server: Server, new_page: NewPage, runs: dict[str, str]
) -> None:
    page = new_page()
    page.goto(f'{server.url}/runs')
    page.wait_for_function('window.did_handshake')
    for name in ('second', 'first'):
        page.get_by_role('link', name=name, exact=True).focus()
        page.keyboard.press('x')
        expect(page.get_by_label(f'Select {name}')).to_have_attribute('aria-checked', 'true')
    expect(page.get_by_role('button', name='Compare (2)')).to_be_enabled()
    page.keyboard.press('c')
    page.wait_for_url(f'**/compare?runs={runs["second"]},{runs["first"]}')
    page.wait_for_function(f'{LONGEST} === 40')
    dashes = page.evaluate(
        f'{HERO}.data.filter((line) => line.mode?.startsWith("lines")).map((line) => line.line.dash)'
    )
    assert len(set(dashes)) == 2
    expect(page.locator('.cmpconf')).to_contain_text('seed')
    expect(page.locator('.cmptasks')).to_contain_text('Fix the paginator')
    page.get_by_role('radio', name='Smoothed').click()
    page.wait_for_url('**smooth=1**')
    page.reload()
    page.wait_for_function(f'{LONGEST} === 40')
    expect(page.get_by_role('radio', name='Smoothed')).to_have_attribute('aria-checked', 'true')
    page.get_by_role('button', name='Leave first out').click()
    expect(page.get_by_text('is the only run here')).to_be_visible()
    page.get_by_role('button', name='Add a run').click()
    page.get_by_role('dialog').get_by_role('button', name='first').click()
    page.wait_for_url(f'**/compare?runs={runs["second"]},{runs["first"]}')


def test_a_live_run_is_followed_by_new_points_alone(server: Server, new_page: NewPage, runs: dict[str, str]) -> None:
    page = new_page()
    page.goto(f'{server.url}/runs/{runs["live"]}')
    page.wait_for_function('window.did_handshake')
    page.get_by_role('button', name='Start', exact=True).click()
    expect(page.get_by_role('button', name='Stop', exact=True)).to_be_visible(timeout=60_000)
    sizes: list[int] = []
    page.on('websocket', lambda socket: socket.on('framereceived', lambda payload: sizes.append(len(payload))))
    page.goto(f'{server.url}/compare?runs={runs["first"]},{runs["live"]}')
    page.wait_for_function(f'{LONGEST} >= 40', timeout=90_000)
    page.evaluate('window.marker = 1')
    sizes.clear()
    page.wait_for_function(f'{LONGEST} >= 60', timeout=90_000)
    assert page.evaluate('window.marker') == 1, 'never reloaded'
    assert max(sizes) < 20_000, 'the history is not sent again'
