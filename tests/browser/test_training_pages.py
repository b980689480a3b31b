"""The training pages in a real browser: start once, watch live, stop, read rollouts, take the adapter (E1, E2, G5)."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import live_server
import pytest
from live_server import Server, serving
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]

LEARNER = Path(__file__).parent.parent / 'studio' / 'learner.py'
HOSTILE = '</script><img src=x onerror="document.title=\'pwned\'">[x](javascript:alert(1))'
SERVE = f"""
import functools, sys
import studio.services as services
services.LocalLauncher = functools.partial(
    services.LocalLauncher, (sys.executable, {str(LEARNER)!r}, '--interval', '0.25', '--steps', '2000'))
{live_server.SERVE}
"""
POINTS = 'document.querySelector(".hero .js-plotly-plot").data[1].x.length'
AT_REST = """async () => {
    const size = () => `${document.body.innerHTML.length} ${document.documentElement.scrollHeight}`;
    for (let same = 0, left = 100, before = ''; same < 5 && left > 0; left--, same = size() === before ? same + 1 : 0) {
        before = size();
        await new Promise((done) => setTimeout(done, 100));
    }
}"""
"""Waits until nothing has been drawn for half a second."""
RANGE = 'document.querySelector(".hero .js-plotly-plot")._fullLayout.xaxis.range.map((x) => Math.round(x))'


@pytest.fixture(scope='module')
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A studio whose trainer is the stand-in that learns on paper."""
    with serving(tmp_path_factory.mktemp('home'), SERVE) as running:
        yield running


def ready(page: Page, server: Server, path: str) -> None:
    page.goto(f'{server.url}{path}')
    page.wait_for_function('window.did_handshake')


def start_run(page: Page, server: Server, name: str) -> str:
    """Fill the launch page, press Start three times, and return the path of the run page that opens."""
    ready(page, server, '/train')
    expect(page.get_by_role('heading', name='Tasks', exact=True)).to_be_visible()
    expect(page.get_by_text('Draft saved')).to_be_visible()
    if page.get_by_role('button', name='Load the tutorial tasks').is_visible():
        page.get_by_role('button', name='Load the tutorial tasks').click()
        expect(page.get_by_text('32 selected')).to_be_visible()
    page.get_by_label('Name of the run').fill(name)
    start = page.get_by_role('button', name='Start training')
    expect(start).to_be_enabled()
    start.evaluate('(button) => { button.click(); button.click(); button.click(); }')
    page.wait_for_url(re.compile(r'/runs/\w+$'))
    return page.url.removeprefix(server.url)


def points(page: Page) -> int:
    """How many points the reward line has; 0 while the chart is being drawn."""
    return int(page.evaluate(f'(() => {{ try {{ return {POINTS}; }} catch {{ return 0; }} }})()'))


def wait_for_points(page: Page, count: int, seconds: float = 60) -> None:
    page.wait_for_function(
        f'() => {{ try {{ return {POINTS} >= {count}; }} catch {{ return false; }} }}', timeout=1000 * seconds
    )


def test_a_run_starts_once_and_its_charts_grow_without_a_reload(server: Server, new_page: NewPage) -> None:
    page = new_page()
    path = start_run(page, server, HOSTILE)
    page.evaluate('window.marker = 1')
    wait_for_points(page, 3)
    before = points(page)
    wait_for_points(page, before + 3)
    assert page.evaluate('window.marker') == 1, 'the page was reloaded'
    assert page.title() != 'pwned' and HOSTILE in page.locator('h1').inner_text()

    # Zoom by dragging: new points do not move it, a reload does not lose it.
    box = page.locator('.hero .plot').bounding_box()
    assert box is not None
    page.mouse.move(box['x'] + 120, box['y'] + 80)
    page.mouse.down()
    page.mouse.move(box['x'] + 260, box['y'] + 80, steps=5)
    page.mouse.up()
    page.wait_for_function(f'() => {RANGE}[0] > 0')
    zoomed, drawn = page.evaluate(RANGE), points(page)
    wait_for_points(page, drawn + 3)
    assert page.evaluate(RANGE) == zoomed
    expect(page.get_by_role('radio', name='Follow')).to_have_attribute('aria-checked', 'false')

    page.reload()
    page.wait_for_function('window.did_handshake')
    wait_for_points(page, drawn + 3)
    assert page.evaluate(RANGE) == zoomed
    page.get_by_role('radio', name='Full run').click()
    page.wait_for_function(f'() => {RANGE}[0] === 0')

    # A second tab agrees; the list knows one run.
    other = new_page()
    ready(other, server, path)
    wait_for_points(other, drawn + 3)
    ready(other, server, '/runs')
    expect(other.locator('.runlist tbody tr')).to_have_count(1)
    expect(other.locator('.runlist tbody tr')).to_contain_text('<img src=x')
    assert other.title() != 'pwned'

    drawn = points(page)
    page.get_by_role('radio', name='Smoothed').click()
    page.wait_for_function('document.querySelector(".hero .js-plotly-plot").data.length === 6')
    page.get_by_role('button', name='Switch theme').click()
    page.wait_for_function(
        'document.querySelector(".hero .js-plotly-plot").data[2].line.color ==='
        ' getComputedStyle(document.body).getPropertyValue("--c1").trim()'
    )
    wait_for_points(page, drawn + 8)

    page.get_by_role('button', name='Stop', exact=True).click()
    expect(page.get_by_role('dialog')).to_contain_text('Stop the run at step')
    page.get_by_role('button', name='Keep training').click()
    page.get_by_role('button', name='Stop', exact=True).click()
    page.get_by_role('button', name='Stop the run').click()
    expect(page.get_by_text(re.compile(r'Stopped at \d+'))).to_be_visible(timeout=60_000)
    expect(page.get_by_role('link', name='Download adapter')).to_be_visible()


def test_a_short_gap_of_the_network_reloads_nothing_and_loses_nothing(server: Server, browser: Browser) -> None:
    page = browser.new_context().new_page()
    start_run(page, server, 'gap')
    wait_for_points(page, 3)
    page.evaluate('window.marker = 2')
    drawn = points(page)
    page.context.set_offline(True)
    page.wait_for_timeout(2000)
    page.context.set_offline(False)
    wait_for_points(page, drawn + 8)
    assert page.evaluate('window.marker') == 2
    steps = page.evaluate('document.querySelector(".hero .js-plotly-plot").data[1].x')
    assert steps == list(range(1, len(steps) + 1))
    page.get_by_role('button', name='Stop', exact=True).click()
    page.get_by_role('button', name='Stop the run').click()
    expect(page.get_by_text(re.compile(r'Stopped at \d+'))).to_be_visible(timeout=60_000)
    page.context.close()


def test_a_finished_run_shows_what_it_gained_and_gives_its_adapter_away(
    server: Server, new_page: NewPage, tmp_path: Path
) -> None:
    page = new_page()
    path = start_run(page, server, 'quick run')
    expect(page.get_by_role('status').filter(has_text='Finished')).to_be_visible(timeout=60_000)
    expect(page.get_by_text('Held-out success')).to_be_visible()
    expect(page.get_by_role('log')).to_contain_text('step 12 done')
    with page.expect_download() as download:
        page.get_by_role('link', name='Download adapter').click()
    saved = tmp_path / 'adapter.zip'
    download.value.save_as(saved)
    with zipfile.ZipFile(saved) as archive:
        assert {'adapter_model.safetensors', 'adapter_config.json'} <= set(archive.namelist())

    ready(page, server, f'/adapters?run={path.rpartition("/")[2]}')
    expect(page.get_by_role('heading', name='quick run').first).to_be_visible()
    expect(page.get_by_role('region', name='Held-out success').locator('.rw')).to_have_count(16)
    page.get_by_role('button', name='Serve').click()
    expect(page.get_by_text('PeftModel.from_pretrained').first).to_be_visible()


def test_rollouts_open_from_the_heatmap_and_show_hostile_text_as_text(server: Server, new_page: NewPage) -> None:
    page = new_page()
    start_run(page, server, 'quick look')
    expect(page.get_by_role('status').filter(has_text='Finished')).to_be_visible(timeout=60_000)
    grid = page.get_by_role('application')
    expect(grid).to_be_visible()
    grid.focus()
    page.keyboard.press('ArrowLeft')
    for key in ('ArrowDown', 'ArrowUp', 'ArrowLeft'):
        page.keyboard.press(key)
    expect(page.locator('.hm-read')).not_to_be_empty()
    cell = page.evaluate(
        """() => { const canvas = document.querySelector('.hm-svg canvas'), box = canvas.getBoundingClientRect();
        const context = canvas.getContext('2d'), scale = canvas.width / box.width;
        for (let y = 6; y < box.height; y += 15.5) for (let x = 3; x < box.width; x += 4)
          if ([0, 3].every((by) => context.getImageData((x + by) * scale, y * scale, 1, 1).data[3] === 255))
            return [x + 3, y]; }"""
    )
    page.locator('.hm-svg').click(position={'x': cell[0], 'y': cell[1]})
    page.wait_for_url('**/rollouts/*')
    expect(page.get_by_text('Ended because').first).to_be_visible()
    shown = page.locator('.tr').inner_text()
    assert HOSTILE in shown, 'the text of the model stands there as it is'
    assert page.title() != 'pwned'
    assert page.locator('.tr img').count() == 0

    first = page.url
    page.keyboard.press('j')
    page.wait_for_url(lambda url: url != first)
    expect(page.get_by_role('heading', name='Rollout 2')).to_be_visible()
    page.keyboard.press('k')
    page.wait_for_url(first)
    page.get_by_role('radio', name='Raw').click()
    expect(page.locator('.tr')).to_contain_text('<tool_call>')

    link = new_page()
    ready(link, server, first.removeprefix(server.url))
    expect(link.get_by_text('Ended because').first).to_be_visible()


def test_a_failed_run_says_why_and_what_to_do(server: Server, new_page: NewPage) -> None:
    page = new_page()
    start_run(page, server, 'quick fail')
    alert = page.get_by_role('alert').filter(has_text='The run failed')
    expect(alert).to_contain_text('likely out of memory', timeout=60_000)
    expect(alert).to_contain_text('Lower numGenerations')
    expect(alert).to_contain_text('torch.OutOfMemoryError: CUDA out of memory')
    page.get_by_role('button', name='Start again').click()
    page.wait_for_url('**/train?copy=*')
    expect(page.get_by_label('Name of the run')).to_have_value('quick fail')


def test_the_form_clamps_in_sight_and_keeps_what_was_typed(server: Server, new_page: NewPage) -> None:
    page = new_page()
    ready(page, server, '/train')
    expect(page.get_by_text('Draft saved')).to_be_visible()
    length = page.get_by_label('maxCompletionLength')
    length.fill('5000')
    length.blur()
    expect(length).to_have_value('4096')
    expect(page.get_by_text('lowered from 5000 · 256 to 4096')).to_be_visible()

    page.get_by_label('numGenerations').fill('eight')
    page.get_by_label('numGenerations').blur()
    expect(page.get_by_text('A whole number is needed').first).to_be_visible()
    expect(page.get_by_role('button', name='Start training')).to_be_disabled()
    page.get_by_label('numGenerations').fill('4')

    packages = page.get_by_label('Add packages, one a line')
    packages.fill('tomli==2.2.1\npandas=2.2\ngit+https://example.invalid/a.git')
    packages.blur()
    expect(page.get_by_role('button', name='Remove tomli==2.2.1')).to_be_visible()
    expect(page.get_by_text('pin with two equals signs: pandas==2.2')).to_be_visible()
    expect(page.get_by_role('button', name='Start training')).to_be_disabled()
    packages.fill('')
    packages.blur()
    page.get_by_text('More: learning rate').click()
    rate = page.get_by_label('learningRate')
    rate.press_sequentially('0.0000125', delay=20)
    rate.blur()
    expect(rate).to_have_value('0.0000125')
    expect(page.get_by_role('button', name='Start training')).to_be_enabled()
    rate.fill('0.5')
    rate.blur()
    expect(rate).to_have_value('0.002')

    page.reload()
    page.wait_for_function('window.did_handshake')
    expect(page.get_by_label('maxCompletionLength')).to_have_value('4096')
    expect(page.get_by_label('numGenerations')).to_have_value('4')
    expect(page.get_by_role('button', name='Remove tomli==2.2.1')).to_be_visible()
    page.get_by_role('button', name='Reset').click()
    expect(page.get_by_label('maxCompletionLength')).to_have_value('')


@pytest.mark.parametrize('dark', [False, True])
def test_no_page_scrolls_sideways(server: Server, new_page: NewPage, dark: bool) -> None:
    page = new_page(width=1024, height=768, dark=dark)
    ready(page, server, '/runs')
    expect(page.locator('.runlist tbody tr').first).to_be_visible()
    hrefs = [link.get_attribute('href') or '' for link in page.locator('.runlist tbody a').all()]
    for path in ('/train', '/runs', '/adapters', *hrefs[:2]):
        ready(page, server, path)
        page.evaluate(AT_REST)
        assert page.evaluate('document.documentElement.scrollWidth') <= 1024, path
