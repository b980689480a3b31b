"""The page of a run in a real browser: long and live runs, what is hidden or zoomed to, paging, search (E1, E4, G5)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import live_server
import pytest
from live_server import Server, serving
from playwright.sync_api import Page, expect

from studio.documents.samples import load_tutorial
from studio.ingest import ingest
from studio.launchers import LocalLauncher
from studio.services import Studio
from studio.settings import Settings
from studio.store.tables import RunTable
from trainer.events import EventWriter, Metrics, Notice, RolloutEvent, State
from trainer.line_file import LineFile
from trainer.recording import Rollout, ToolRecord, Turn
from trainer.runfolder import RunFolder
from trainer.verdict import Verdict

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
STEPS = 3000
PLOT = 'document.querySelector(".hero .js-plotly-plot")'
X = f'({PLOT}?.data?.[1]?.x ?? [])'
HOSTILE = '\x1b[31m</script><img src=x onerror="document.title=\'pwned\'">\x00' + 'x' * 100_000 + '\u202e end'


@pytest.fixture(scope='module')
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A data folder with a long run that ended and one that waits to be started; ids by name, and the folder."""
    home = tmp_path_factory.mktemp('home')
    studio = Studio(Settings(home=home), launcher=LocalLauncher((sys.executable, str(LEARNER))))
    train, held_out = load_tutorial(studio.documents)
    long = studio.runs.create('a long run', 'starter', {}, train, held_out[:4])
    live = studio.runs.create('a live run', 'starter', {}, train[:8], held_out[:4])
    folder = studio.runs.folder(long.id)
    write_long(folder, [task.id for task in studio.runs.tasks(long.id) if task.role == 'train'])
    ingest(studio.database, long.id, folder)
    with studio.database.write() as session:
        row = session.get(RunTable, long.id)
        assert row is not None
        row.state, row.started_at, row.ended_at = 'finished', row.created_at, row.created_at
    studio.stop()
    return {'home': str(home), 'long': long.id, 'live': live.id}


def write_long(folder: RunFolder, tasks: list[str]) -> None:
    """What a trainer would have written: one spike, one hostile transcript, 32 tasks in turn."""
    records = LineFile(folder.rollouts)
    with EventWriter(folder.events) as events:
        events.write(State(state='training'))
        for step in range(1, STEPS + 1):
            reward = 1.0 if step == 1777 else 0.2 + 0.3 * step / STEPS
            values = {'rewards/TfcodeEnv/mean': reward, 'rewards/TfcodeEnv/std': 0.1, 'entropy': 1 - step / 2 / STEPS}
            events.write(Metrics(step=step, values=values))
            if step % 10 == 0:
                task = tasks[step // 10 % len(tasks)]
                record = one_rollout(step, task)
                offset = records.append(json.dumps(record.model_dump(mode='json'), ensure_ascii=False).encode())
                events.write(RolloutEvent(step=step, task=task, index=0, outcome='passed', reward=1.0, offset=offset))
        events.write(Notice(text=HOSTILE[:200]))
        events.write(State(state='finished'))
    records.close()
    folder.log.write_text(f'{HOSTILE}\nthe end\n', encoding='utf-8')


def one_rollout(step: int, task: str) -> Rollout:
    said = HOSTILE if step == 100 else f'I fix the paginator, step {step}.'
    call = ToolRecord(name='run_command', args={'command': 'ls'}, result=said, exit_code=0)
    return Rollout(
        step=step, task=task, prompt='p', turns=(Turn(text=said, calls=(call,)),), verdict=Verdict.scored(1.0), tokens=9
    )


@pytest.fixture(scope='module')
def server(runs: dict[str, str]) -> Iterator[Server]:
    """A studio over it, whose trainer writes five rows a second."""
    with serving(Path(runs['home']), SERVE) as running:
        yield running


def ready(page: Page, server: Server, path: str) -> None:
    page.goto(f'{server.url}{path}')
    page.wait_for_function('window.did_handshake')


def wait_for(page: Page, condition: str) -> None:
    page.wait_for_function(condition, timeout=60_000)


def drag_over_the_reward(page: Page) -> None:
    box = page.locator('.hero .plot').bounding_box()
    assert box is not None
    page.mouse.move(box['x'] + 200, box['y'] + 80)
    page.mouse.down()
    page.mouse.move(box['x'] + 240, box['y'] + 80, steps=5)
    page.mouse.up()
    wait_for(page, 'document.querySelector("[aria-label=Range] [aria-checked=true]") === null')


def test_a_long_run_keeps_its_spike_and_is_read_finer_where_one_looks(
    server: Server, new_page: NewPage, runs: dict[str, str]
) -> None:
    page = new_page()
    ready(page, server, f'/runs/{runs["long"]}')
    wait_for(page, f'{X}.length > 100')
    assert page.evaluate(f'{X}.length') < 1000, 'thinned'
    assert page.evaluate(f'Math.max(...{PLOT}.data[1].y.filter((y) => y != null))') == 1
    drag_over_the_reward(page)
    shown = f'{X}.filter((x) => x > {PLOT}._fullLayout.xaxis.range[0] && x < {PLOT}._fullLayout.xaxis.range[1]).length'
    every = f'Math.floor({PLOT}._fullLayout.xaxis.range[1] - {PLOT}._fullLayout.xaxis.range[0])'
    wait_for(page, f'{shown} >= {every} - 1')
    wanted = page.evaluate(f'{PLOT}._fullLayout.xaxis.range')
    page.get_by_role('button', name='mean', exact=True).click()
    wait_for(page, f'{X}.length === 0')

    page.reload()
    wait_for(page, f'{PLOT}?._fullLayout?.xaxis.range[0] > 10')
    assert page.evaluate(f'{PLOT}._fullLayout.xaxis.range') == pytest.approx(wanted)
    button = page.get_by_role('button', name='mean', exact=True)
    expect(button).to_have_attribute('aria-pressed', 'false')
    button.click()
    wait_for(page, f'{shown} >= {every} - 1')
    page.get_by_role('radio', name='Full run').click()
    wait_for(page, f'{PLOT}._fullLayout.xaxis.range[0] < 1 && {X}.length < 1000')


def test_a_heatmap_of_many_tasks_is_paged_and_searched(server: Server, new_page: NewPage, runs: dict[str, str]) -> None:
    page = new_page()
    ready(page, server, f'/runs/{runs["long"]}')
    expect(page.get_by_text('1 to 24 of 32 tasks')).to_be_visible()
    expect(page.locator('.heat ul').first.locator('li')).to_have_count(24)
    page.get_by_role('button', name='Tasks after').click()
    expect(page.get_by_text('25 to 32 of 32 tasks')).to_be_visible()
    expect(page.locator('.heat ul').first.locator('li')).to_have_count(8)
    page.get_by_label('Find a task in the heatmap').fill('write a file')
    expect(page.get_by_text(re.compile(r'1 to \d+ of \d+ tasks'))).to_be_visible()
    expect(page.locator('.heat ul').first.locator('li').first).to_contain_text('Write a file')
    grid = page.get_by_role('application')
    grid.focus()
    page.keyboard.press('ArrowLeft')
    page.keyboard.press('Home')
    expect(page.locator('.hm-read')).to_contain_text(re.compile('^Steps? '))


def test_a_live_run_costs_little_and_loses_nothing(server: Server, new_page: NewPage, runs: dict[str, str]) -> None:
    page = new_page()
    sizes: list[int] = []
    page.on('websocket', lambda socket: socket.on('framereceived', lambda data: sizes.append(len(data))))
    ready(page, server, f'/runs/{runs["live"]}')
    page.get_by_role('button', name='Start', exact=True).click()
    wait_for(page, f'{X}.length > 10')
    sizes.clear()
    drawn = page.evaluate(f'{X}.length')
    wait_for(page, f'{X}.length > {drawn} + 20')
    # An additional step costs some hundred bytes for all charts together, whatever was drawn before.
    assert sum(sizes) / 20 < 2_000 and max(sizes) < 20_000, sizes
    page.get_by_role('button', name='± std', exact=True).click()
    other = page.context.new_page()
    ready(other, server, f'/runs/{runs["live"]}')
    wait_for(other, f'{X}.length > {drawn}')
    page.evaluate('window.marker = 1')
    page.context.set_offline(True)
    page.wait_for_timeout(3000)
    page.context.set_offline(False)
    drawn = page.evaluate(f'{X}.length')
    for tab in (page, other):
        wait_for(tab, f'{X}.length > {drawn} + 10')
        steps = tab.evaluate(X)
        assert steps == list(range(1, len(steps) + 1))
    assert page.evaluate('window.marker') == 1, 'the page was reloaded'
    assert page.evaluate(f'{PLOT}.data[0].x.length') == 0, 'what was hidden stays hidden while points come'
    log = page.get_by_role('log')
    assert log.evaluate('(e) => e.scrollHeight - e.scrollTop - e.clientHeight < 30'), 'it follows at its end'
    log.evaluate('(e) => { e.scrollTop = 0; }')
    drawn = page.evaluate(f'{X}.length')
    wait_for(page, f'{X}.length > {drawn} + 10')
    assert log.evaluate('(e) => e.scrollTop') == 0, 'it does not follow while one reads'
    page.get_by_role('button', name='Stop', exact=True).click()
    page.get_by_role('button', name='Stop the run').click()
    expect(page.get_by_text(re.compile(r'Stopped at \d+'))).to_be_visible(timeout=60_000)


def test_rollouts_are_searched_and_the_address_can_be_sent(
    server: Server, new_page: NewPage, runs: dict[str, str]
) -> None:
    page = new_page()
    ready(page, server, f'/runs/{runs["long"]}')
    expect(page.get_by_title('Search the rollouts of this run')).to_be_visible()
    page.keyboard.press('Control+k')
    expect(page.get_by_role('combobox', name='Do something')).to_be_focused()
    page.keyboard.type('rollouts')
    page.keyboard.press('Enter')
    expect(page.get_by_text('1 to 40 of 300')).to_be_visible()
    page.get_by_label('Search what was said and done').fill('paginator 1230')
    expect(page.get_by_text('1 to 1 of 1')).to_be_visible()
    expect(page.locator('.rolls tbody')).to_contain_text('I fix the paginator, step 1230.')
    wait_for(page, 'location.search.includes("paginator")')
    address = page.url
    page.get_by_role('radio', name='Failed').click()
    expect(page.get_by_text('No rollout fits')).to_be_visible()
    page.get_by_role('button', name='Clear search and filters').click()
    expect(page.get_by_text('1 to 40 of 300')).to_be_visible()

    other = new_page()
    ready(other, server, address.removeprefix(server.url))
    expect(other.get_by_text('1 to 1 of 1')).to_be_visible()
    other.locator('h1').click()
    other.keyboard.press('j')
    other.keyboard.press('Enter')
    other.wait_for_url(re.compile(r'/rollouts/\d+$'))
    expect(other.get_by_text('Ended because').first).to_be_visible()
    other.keyboard.press(']')
    expect(other.get_by_text('Step 1550', exact=True)).to_be_visible()


def test_what_a_model_wrote_stays_text_and_is_copied_as_it_was(
    server: Server, new_page: NewPage, runs: dict[str, str]
) -> None:
    page = new_page()
    page.context.grant_permissions(['clipboard-read', 'clipboard-write'], origin=server.url)
    ready(page, server, f'/runs/{runs["long"]}')
    expect(page.get_by_role('log')).to_contain_text('the end')
    expect(page.locator('.ev')).to_contain_text('<img src=x')
    ready(page, server, f'/runs/{runs["long"]}/rollouts?text=onerror')
    page.locator('.rolls tbody a').first.click()
    shown = page.locator('.tr')
    expect(shown).to_contain_text('␛[31m</script><img src=x')
    page.get_by_role('button', name='Show all').first.click()
    expect(shown).to_contain_text('⟨U+202E⟩ end')
    assert page.title() != 'pwned' and shown.locator('img').count() == 0
    assert page.evaluate('document.documentElement.scrollWidth') <= 1440
    page.locator('.turn').nth(1).hover()
    page.get_by_role('button', name='Copy turn 1').click()
    wait_for(page, f'navigator.clipboard.readText().then((text) => text.length === {len(HOSTILE)})')
    copied: Any = page.evaluate('navigator.clipboard.readText()')
    assert copied == HOSTILE
