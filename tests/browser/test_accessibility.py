"""axe-core on every page, dialog and menu in both themes; focus that comes back; 1024 px, 200 % and reduced motion."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from live_server import Server, serving
from playwright.sync_api import Page, expect

from studio.documents import samples
from studio.launchers import LocalLauncher
from studio.services import Studio
from studio.settings import Settings
from trainer.task import parse_task

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]
Show = Callable[[Page], None]
LEARNER = Path(__file__).parent.parent / 'studio' / 'learner.py'
HOLLOW: dict[str, Any] = {
    'title': 'Hollow',
    'task_spec': {'prompt': 'Anything, {n} times.', 'checker': {'type': 'exit_code', 'config': {'command': 'true'}}},
}
CONFLICT = HOLLOW | {'task_spec': HOLLOW['task_spec'] | {'prompt': 'Something.'}}
RULES: dict[str, Any] = {
    'resultTypes': ['violations'],
    'runOnly': ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
}
COLOURS: dict[str, Any] = {'resultTypes': ['violations'], 'runOnly': ['color-contrast']}
SWITCH = '(theme) => ["light", "dark"].map((one) => document.body.classList.toggle(`body--${one}`, one === theme))'
FOLLOWED = """(theme) => [...document.querySelectorAll('.cm-content')].every((one) =>
    parseInt(getComputedStyle(one).color.match(/\\d+/)) > 127 === (theme === 'dark'))"""
"""Whether the code editors have the theme of the page: the server tells them."""
STILL = '() => document.getAnimations().every((one) => one.playState !== "running" || one.effect.getTiming().iterations > 9)'  # noqa: E501


@pytest.fixture(scope='module')
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tasks in every state, a task with problems, and a finished run with rollouts and an adapter."""
    home = tmp_path_factory.mktemp('home')
    studio = Studio(Settings(home=home), launcher=LocalLauncher((sys.executable, str(LEARNER))))
    train, held_out = samples.load_tutorial(studio.documents)
    studio.documents.create(raw={'prompt': '', 'checker': {'type': 'script', 'config': {}}}, topics=('shell',))
    failing = studio.documents.create(parse_task(HOLLOW)[0], status='published')
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
    with serving(home) as running:
        yield running


@pytest.fixture(scope='module')
def empty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp('empty')) as running:
        yield running


def ready(page: Page, url: str) -> None:
    page.set_default_timeout(30_000)
    page.goto(url)
    page.wait_for_function('window.did_handshake')
    expect(page.get_by_role('heading', level=1)).to_have_count(1)


def faults(page: Page, within: str = '', *, dark: bool = False) -> list[str]:
    """What axe-core calls serious or critical, one line an element; in the dark only colours can differ."""
    theme = 'dark' if dark else 'light'
    page.evaluate(SWITCH, theme)
    page.wait_for_function(FOLLOWED, arg=theme)
    page.wait_for_function(STILL)
    found = Axe().run(page, context=within or None, options=COLOURS if dark else RULES).response['violations']
    return [
        f'{theme} {one["id"]}: {node["target"]} {node["html"][:160]} {node.get("failureSummary", "")[:200]}'
        for one in found
        if one['impact'] in ('serious', 'critical')
        for node in one['nodes'][:4]
    ]


# ------------------------------------------------------------------------------------------- pages and what opens


def nothing(page: Page) -> None:
    page.wait_for_load_state('networkidle')


def bulk_bar(page: Page) -> None:
    page.locator('.tasks .q-checkbox').nth(1).click()
    expect(page.locator('.bulk')).to_be_visible()


def bulk_export(page: Page) -> None:
    page.locator('.bulk').get_by_role('button', name='Export').click()
    expect(page.get_by_role('menuitem', name='Harbor')).to_be_visible()


def topics(page: Page) -> None:
    page.locator('.bulk').get_by_role('button', name='Topics').click()
    expect(page.get_by_label('Topics to add')).to_be_visible()


def filters(page: Page) -> None:
    page.get_by_role('button', name='Filter: Topic').click()
    expect(page.get_by_role('menuitemradio').first).to_be_visible()
    expect(page.get_by_label('Find in Topic')).to_be_focused()


def row_menu(page: Page) -> None:
    page.get_by_role('button', name=re.compile('More actions for')).first.click()
    expect(page.get_by_role('menuitem', name='Duplicate')).to_be_visible()


def exporting(page: Page) -> None:
    row_menu(page)
    page.get_by_role('menuitem', name='Export').click()
    expect(page.get_by_role('dialog', name='Export 1 task')).to_be_visible()


def palette(page: Page) -> None:
    page.keyboard.press('Control+k')
    expect(page.get_by_role('option').first).to_be_visible()


def keys(page: Page) -> None:
    page.keyboard.press('?')
    expect(page.get_by_role('heading', name='Keyboard')).to_be_visible()


def importing(page: Page) -> None:
    page.get_by_role('button', name='Import').first.click()
    expect(page.get_by_role('dialog', name='Import tasks')).to_be_visible()


def import_preview(page: Page) -> None:
    importing(page)
    page.get_by_label('Or paste it').fill('\n'.join([json.dumps(CONFLICT), json.dumps(HOLLOW), '{"prompt": ']))
    page.get_by_role('button', name='Preview').click()
    expect(page.locator('.report tbody tr')).to_have_count(3)


def nothing_found(page: Page) -> None:
    page.get_by_label('Search title, prompt, file name or command').fill('no such task')
    expect(page.locator('.nothing')).to_be_visible()


def editor(page: Page) -> None:
    page.get_by_label('Search title, prompt, file name or command').fill('Hollow')
    expect(page.locator('.tasks [data-row]')).to_have_count(1)
    page.locator('.tasks [data-row]').click()
    expect(page.locator('section[aria-label="Certificate"]')).to_contain_text('Failed')


def editor_menu(page: Page) -> None:
    page.get_by_role('button', name='More actions').click()
    expect(page.get_by_role('menuitem').first).to_be_visible()


def editor_with_problems(page: Page) -> None:
    page.get_by_role('link', name='Untitled task').click()
    expect(page.locator('.problems')).to_be_visible()


def editor_as_json(page: Page) -> None:
    page.get_by_role('button', name='JSON').click()
    expect(page.get_by_label('task_spec as JSON')).to_be_visible()


def playground(page: Page) -> None:
    box = page.get_by_label('Command or path')
    box.fill('echo hello > a.txt; ls')
    box.press('Enter')
    expect(page.locator('.term .entry').last).to_contain_text('exit')
    page.keyboard.press('Control+Enter')
    expect(page.locator('.verd .vb')).to_be_visible()


def variants(page: Page) -> None:
    editor(page)
    page.goto(f'{page.url.rstrip("/")}/variants')
    page.wait_for_function('window.did_handshake')
    page.get_by_label('Values of n', exact=True).fill('6..8')
    expect(page.get_by_role('list', name='Variants').get_by_role('button')).to_have_count(3)


def run(page: Page) -> None:
    page.get_by_role('link', name='quick tour').first.click()
    expect(page.locator('.js-plotly-plot').first).to_be_visible()
    page.wait_for_timeout(500)


def rollouts(page: Page) -> None:
    page.get_by_title('Search the rollouts of this run').click()
    expect(page.locator('.rolls [data-row]').first).to_be_visible()


def rollout(page: Page) -> None:
    page.locator('.rolls [data-row]').first.click()
    page.wait_for_url(re.compile(r'/rollouts/\d+$'))
    expect(page.get_by_text('Ended because').first).to_be_visible()


def no_such_page(page: Page) -> None:
    # Asked for within the studio: a browser complains of an answer of 404.
    page.evaluate("history.pushState({page: '/none'}, '', '/none'); dispatchEvent(new PopStateEvent('popstate'))")
    expect(page.get_by_role('heading', name='Page not found')).to_be_visible()


POPUP, DIALOG = '.q-menu', '.q-dialog__inner'
PLACES: dict[str, tuple[str, list[tuple[Show, str]]]] = {
    'library': ('/', [
        (filters, POPUP), (row_menu, POPUP), (exporting, DIALOG), (importing, DIALOG), (import_preview, DIALOG),
        (palette, DIALOG), (keys, DIALOG), (bulk_bar, ''), (bulk_export, POPUP), (topics, DIALOG), (nothing_found, ''),
    ]),
    'editor': ('/', [(editor, ''), (editor_menu, POPUP), (playground, ''), (editor_as_json, '')]),
    'editor with problems': ('/?status=draft', [(editor_with_problems, '')]),
    'variants': ('/', [(variants, '')]),
    'templates': ('/templates', [(nothing, '')]),
    'launch': ('/train', [(nothing, '')]),
    'runs': ('/runs', [(nothing, '')]),
    'run': ('/runs', [(run, ''), (rollouts, ''), (rollout, '')]),
    'adapters': ('/adapters', [(nothing, '')]),
    'try it': ('/try', [(nothing, '')]),
    'models': ('/models', [(nothing, '')]),
    'settings': ('/settings', [(nothing, '')]),
    'no such page': ('/', [(no_such_page, '')]),
}  # fmt: skip
"""A page, what opens on it one after another, and the part to look at where the rest was looked at already."""


@pytest.mark.parametrize('name', PLACES)
def test_axe_finds_nothing_serious(server: Server, tab: Page, name: str) -> None:
    path, shows = PLACES[name]
    ready(tab, server.url + path)
    found = []
    for show, within in shows:
        show(tab)
        found += [f'{show.__name__} {fault}' for dark in (False, True) for fault in faults(tab, within, dark=dark)]
        close(tab, within)
    assert not found, '\n'.join(found)


def close(page: Page, popup: str) -> None:
    """Close what was opened by the key that closes everything."""
    if popup:
        page.keyboard.press('Escape')
        expect(page.locator(popup)).to_have_count(0)
        expect(page.locator('.q-dialog')).to_have_count(0)  # one that is closing has its name still


@pytest.mark.parametrize('path', ['/', '/runs', '/adapters', '/train'])
def test_axe_finds_nothing_serious_where_there_is_nothing(empty_server: Server, tab: Page, path: str) -> None:
    ready(tab, empty_server.url + path)
    nothing(tab)
    assert faults(tab) + faults(tab, dark=True) == []


# -------------------------------------------------------------------------------------------------------- by keys


@pytest.mark.parametrize('name', ['library', 'editor', 'launch', 'run', 'adapters', 'try it', 'settings'])
def test_everything_fits_in_1024_px_and_at_200_percent(server: Server, tab: Page, name: str) -> None:
    path, shows = PLACES[name]
    tab.set_viewport_size({'width': 1024, 'height': 768})
    ready(tab, server.url + path)
    (bulk_bar if name == 'library' else shows[0][0])(tab)
    assert tab.evaluate('document.documentElement.scrollWidth') <= 1024
    tab.set_viewport_size({'width': 720, 'height': 450})
    expect(tab.get_by_role('heading', level=1)).to_have_count(1)
    assert tab.get_by_role('heading', level=1).first.is_visible() or name == 'editor'


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
        page.wait_for_function("document.activeElement.closest('.q-dialog') !== null")
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
