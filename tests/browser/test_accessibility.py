"""axe-core on every page, dialog and menu in both themes; focus that comes back; 1024 px, 200 % and reduced motion."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from live_server import Server, start_server, stop_server
from playwright.sync_api import Page, expect

from studio import samples
from studio.launchers import LocalLauncher
from studio.services import Studio
from studio.settings import Settings
from trainer.task import parse_task

pytestmark = pytest.mark.browser
expect.set_options(timeout=20_000)

NewPage = Callable[..., Page]
Show = Callable[[Page], None]
LEARNER = Path(__file__).parent.parent / 'studio' / 'learner.py'
RULES: dict[str, Any] = {
    'resultTypes': ['violations'],
    'runOnly': ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
}
STILL = '() => document.getAnimations().every((one) => one.playState !== "running" || one.effect.getTiming().iterations > 9)'  # noqa: E501


@pytest.fixture(scope='module')
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tasks in every state, a task with problems, and a finished run with rollouts and an adapter."""
    home = tmp_path_factory.mktemp('home')
    studio = Studio(Settings(home=home), launcher=LocalLauncher((sys.executable, str(LEARNER))))
    train, held_out = samples.load_tutorial(studio.documents)
    studio.documents.create(raw={'prompt': '', 'checker': {'type': 'script', 'config': {}}}, topics=('shell',))
    hollow = {'prompt': 'Anything.', 'checker': {'type': 'exit_code', 'config': {'command': 'true'}}}
    failing = studio.documents.create(parse_task({'title': 'Hollow', 'task_spec': hollow})[0], status='published')
    for id in (train[0], failing.id):
        studio.certificates.run(id)
    studio.start()
    run = studio.runs.create('quick tour', 'starter', {}, train[:4], held_out[:2])
    studio.runs.start(run.id)
    deadline = time.monotonic() + 60
    while not studio.runs.get(run.id).is_final:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    studio.stop()
    return home


@pytest.fixture(scope='module')
def server(home: Path) -> Iterator[Server]:
    running = start_server(home)
    yield running
    stop_server(running)
    log = (home / 'server.log').read_text(encoding='utf-8', errors='replace')
    assert 'Traceback' not in log, log


@pytest.fixture(scope='module')
def empty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = start_server(tmp_path_factory.mktemp('empty'))
    yield running
    stop_server(running)


def ready(page: Page, url: str) -> None:
    page.set_default_timeout(30_000)
    page.goto(url)
    page.wait_for_function('window.did_handshake')
    expect(page.get_by_role('heading', level=1)).to_have_count(1)


def faults(page: Page) -> list[str]:
    """What axe-core calls serious or critical, one line a rule; the page has come to rest before."""
    page.wait_for_function(STILL)
    found = Axe().run(page, options=RULES).response['violations']
    return [
        f'{one["id"]}: {node["target"]} {node["html"][:160]} {node.get("failureSummary", "")[:200]}'
        for one in found
        if one['impact'] in ('serious', 'critical')
        for node in one['nodes'][:4]
    ]


# ------------------------------------------------------------------------------------------- pages and what opens


def nothing(page: Page) -> None:
    page.wait_for_timeout(300)


def table(page: Page) -> None:
    page.locator('.tasks .q-checkbox').nth(1).click()
    expect(page.locator('.bulk')).to_be_visible()


def filters(page: Page) -> None:
    page.get_by_role('button', name='Filter: Topic').click()
    expect(page.get_by_role('menuitemradio').first).to_be_visible()


def row_menu(page: Page) -> None:
    page.get_by_role('button', name=re.compile('More actions for')).first.click()
    expect(page.get_by_role('menuitem', name='Duplicate')).to_be_visible()


def palette(page: Page) -> None:
    page.keyboard.press('Control+k')
    expect(page.get_by_role('option').first).to_be_visible()


def keys(page: Page) -> None:
    page.keyboard.press('?')
    expect(page.get_by_role('heading', name='Keyboard')).to_be_visible()


def importing(page: Page) -> None:
    page.get_by_role('button', name='Import').first.click()
    expect(page.locator('.q-dialog__inner')).to_be_visible()


def topics(page: Page) -> None:
    table(page)
    page.locator('.bulk').get_by_role('button', name='Topics').click()
    expect(page.get_by_label('Topics to add')).to_be_visible()


def nothing_found(page: Page) -> None:
    page.get_by_label('Search title, prompt, file name or command').fill('no such task')
    expect(page.locator('.nothing')).to_be_visible()


def task(page: Page, title: str) -> None:
    page.get_by_label('Search title, prompt, file name or command').fill(title)
    expect(page.locator('.tasks [data-row]')).to_have_count(1)
    page.locator('.tasks [data-row]').click()
    expect(page.get_by_label('Title', exact=True)).to_be_visible()
    page.wait_for_timeout(500)


def editor(page: Page) -> None:
    task(page, 'Hollow')
    expect(page.locator('section[aria-label="Certificate"]')).to_contain_text('Failed')


def editor_with_problems(page: Page) -> None:
    page.get_by_role('link', name='Untitled task').click()
    expect(page.get_by_label('Title', exact=True)).to_be_visible()
    expect(page.locator('.problems')).to_be_visible()


def editor_as_json(page: Page) -> None:
    editor(page)
    page.get_by_role('button', name='JSON').click()
    expect(page.get_by_label('task_spec as JSON')).to_be_visible()


def playground(page: Page) -> None:
    editor(page)
    box = page.get_by_label('Command or path')
    box.fill('echo hello > a.txt; ls')
    box.press('Enter')
    expect(page.locator('.term .entry').last).to_contain_text('exit', timeout=20_000)
    page.keyboard.press('Control+Enter')
    expect(page.locator('.verd .vb')).to_be_visible(timeout=30_000)


def run(page: Page) -> None:
    page.get_by_role('link', name='quick tour').first.click()
    expect(page.locator('.js-plotly-plot').first).to_be_visible()
    page.wait_for_timeout(500)


def rollout(page: Page) -> None:
    run(page)
    page.get_by_role('link', name=re.compile('rollout', re.IGNORECASE)).first.click()
    page.wait_for_url('**/rollouts/*')
    expect(page.get_by_text('Ended because').first).to_be_visible()


VIEWS: dict[str, tuple[str, Show]] = {
    'library': ('/', table),
    'filter menu': ('/', filters),
    'row menu': ('/', row_menu),
    'nothing found': ('/', nothing_found),
    'palette': ('/', palette),
    'keys': ('/', keys),
    'import': ('/', importing),
    'topics': ('/', topics),
    'editor': ('/', editor),
    'editor with problems': ('/?status=draft', editor_with_problems),
    'editor as JSON': ('/', editor_as_json),
    'playground': ('/', playground),
    'templates': ('/templates', nothing),
    'launch': ('/train', nothing),
    'runs': ('/runs', nothing),
    'run': ('/runs', run),
    'rollout': ('/runs', rollout),
    'adapters': ('/adapters', nothing),
    'models': ('/models', nothing),
    'settings': ('/settings', nothing),
    'no such page': ('/none', nothing),
}


@pytest.mark.parametrize('name', VIEWS)
def test_axe_finds_nothing_serious(server: Server, new_page: NewPage, name: str) -> None:
    path, show = VIEWS[name]
    page = new_page()
    ready(page, server.url + path)
    show(page)
    found = {'light': faults(page)}
    # One page in both themes: the themes differ in colours alone.
    page.evaluate('document.body.classList.replace("body--light", "body--dark")')
    page.wait_for_timeout(400)
    found['dark'] = faults(page)
    assert found == {'light': [], 'dark': []}, '\n'.join(found['light'] + found['dark'])


@pytest.mark.parametrize('path', ['/', '/runs', '/adapters', '/train'])
def test_axe_finds_nothing_serious_where_there_is_nothing(empty_server: Server, new_page: NewPage, path: str) -> None:
    page = new_page(dark=path == '/')
    ready(page, empty_server.url + path)
    page.wait_for_timeout(300)
    assert faults(page) == []


# -------------------------------------------------------------------------------------------------------- by keys


@pytest.mark.parametrize('name', ['library', 'editor', 'launch', 'run', 'adapters', 'settings'])
def test_everything_fits_in_1024_px_and_at_200_percent(server: Server, new_page: NewPage, name: str) -> None:
    path, show = VIEWS[name]
    page = new_page(width=1024, height=768)
    ready(page, server.url + path)
    show(page)
    assert page.evaluate('document.documentElement.scrollWidth') <= 1024
    page.set_viewport_size({'width': 720, 'height': 450})
    page.wait_for_timeout(200)
    assert page.get_by_role('heading', level=1).first.is_visible() or name == 'editor'


def test_focus_is_always_seen_and_tab_reaches_what_can_be_done(server: Server, page: Page) -> None:
    ready(page, server.url)
    expect(page.locator('.tasks [data-row]').first).to_be_visible()
    seen = []
    for _ in range(45):
        page.keyboard.press('Tab')
        seen.append(
            page.evaluate(
                """() => { const e = document.activeElement, s = getComputedStyle(e);
                const shown = e.closest('.srch, .q-checkbox') ?? e;
                const look = getComputedStyle(shown);
                return {name: e.getAttribute('aria-label') ?? e.textContent.trim().slice(0, 40),
                  ring: [s, look].some((one) => one.outlineStyle !== 'none' && one.outlineWidth !== '0px')
                    || look.boxShadow !== 'none'}; }"""
            )
        )
    names = ' | '.join(one['name'] for one in seen)
    for name in ('Skip to content', 'Tasks', 'Search title', 'New task', 'All', 'Filter: Checker', 'Select '):
        assert name in names, names
    assert [one['name'] for one in seen if not one['ring']] == []
    page.keyboard.press('Shift+Tab')
    page.get_by_role('link', name='Skip to content').focus()
    page.keyboard.press('Enter')
    assert page.evaluate("document.activeElement.closest('.content') !== null")


def test_focus_comes_back_after_dialogs_and_menus(server: Server, page: Page) -> None:
    page.emulate_media(reduced_motion='reduce')
    ready(page, server.url)
    opener = page.get_by_role('button', name='Import').first
    for close in ('Escape', 'Cancel'):
        opener.focus()
        page.keyboard.press('Enter')
        dialog = page.locator('.q-dialog__inner')
        expect(dialog).to_be_visible()
        assert page.evaluate("document.activeElement.closest('.q-dialog') !== null")
        page.keyboard.press(close) if close == 'Escape' else page.get_by_role('button', name=close).click()
        expect(dialog).to_have_count(0)
        expect(opener).to_be_focused()
    more = page.get_by_role('button', name=re.compile('More actions for')).nth(2)
    more.focus()
    page.keyboard.press('Enter')
    expect(page.get_by_role('menuitem', name='Open')).to_be_visible()
    page.keyboard.press('ArrowDown')
    expect(page.get_by_role('menuitem', name='Open')).to_be_focused()
    page.keyboard.press('ArrowUp')
    expect(page.get_by_role('menuitem', name='Delete')).to_be_focused()
    page.keyboard.press('Escape')
    expect(page.get_by_role('menuitem', name='Open')).to_have_count(0)
    expect(more).to_be_focused()


def test_reduced_motion_moves_nothing(server: Server, page: Page) -> None:
    page.emulate_media(reduced_motion='reduce')
    ready(page, server.url)
    page.keyboard.press('Control+k')
    expect(page.get_by_role('option').first).to_be_visible()
    assert page.evaluate("document.getAnimations().filter((one) => one.playState === 'running').length") == 0
