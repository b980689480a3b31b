"""Pictures of every page in both themes and two window sizes, for a look beside the designs.

    python tests/browser/screenshots.py [FOLDER] [--only NAMES] [--theme T] [--size N] [--home HOME]

Starts a studio over a data folder of its own with every state in it (``showcase.py``), or over HOME as it is. Says what
is too wide, and what text is cut without a title that holds all of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Literal

import showcase
from live_server import ARGUMENTS, CHROMIUM, Server, start_server, stop_server
from playwright.sync_api import Browser, Page, sync_playwright

Show = Callable[[Page, str], None]
Serve = Callable[[], AbstractContextManager[Server]]
SIZES = {'1440': (1440, 900), '1024': (1024, 768)}
THEMES: tuple[Literal['light', 'dark'], ...] = ('light', 'dark')
DRAWN = """[...document.querySelectorAll(".card.ch")].every((card) => card.getBoundingClientRect().top > innerHeight
    || card.querySelector("[data-none]:not([hidden])") || card.querySelector(".main-svg"))"""
"""Whether the charts in sight are; those below are drawn when they come into it."""


def main() -> None:
    """Take every picture and print where they lie."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', nargs='?', type=Path, default=showcase.ROOT / 'screenshots')
    parser.add_argument('--only', default='', help='names of the pictures to take, separated by commas; * for any end')
    parser.add_argument('--theme', choices=THEMES, help='take one theme only')
    parser.add_argument('--size', choices=tuple(SIZES), help='take one window size only')
    parser.add_argument('--home', type=Path, help='an existing data folder, for pictures of real runs')
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    made = tempfile.TemporaryDirectory(prefix='rlvr-screenshots-', ignore_cleanup_errors=True)
    with made as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for serve, pages in _studios(Path(folder), options.home):
            wanted = {name: show for name, show in pages().items() if _fits(name, options.only)}
            if wanted:
                with serve() as server:
                    _each(browser, server, options, wanted)
        browser.close()
    sys.stdout.write(f'{len(list(options.folder.glob("*.png")))} pictures in {options.folder}\n')


def _fits(name: str, only: str) -> bool:
    return not only or any(re.fullmatch(one.replace('*', '.*'), name) for one in only.split(','))


def _each(browser: Browser, server: Server, options: argparse.Namespace, pages: Mapping[str, Show]) -> None:
    for theme in (options.theme,) if options.theme else THEMES:
        for size in (options.size,) if options.size else SIZES:
            width, height = SIZES[size]
            context = browser.new_context(viewport={'width': width, 'height': height}, color_scheme=theme)
            page = context.new_page()
            page.set_default_timeout(20_000)
            for name, show in pages.items():
                show(page, server.url)
                if name != 'connection-lost':
                    page.wait_for_load_state('networkidle')
                page.wait_for_function(DRAWN)
                page.wait_for_timeout(700)
                page.screenshot(path=options.folder / f'{name}-{theme}-{size}.png')
                if theme == (options.theme or THEMES[0]):
                    _complain(page, name, width)
            context.close()


def _complain(page: Page, name: str, width: int) -> None:
    too_wide = page.evaluate('document.documentElement.scrollWidth') - width
    if too_wide > 0:
        sys.stdout.write(f'{name} at {width} px is {too_wide} px too wide\n')
    for text in dict.fromkeys(page.evaluate(showcase.CUT)):
        sys.stdout.write(f'{name} at {width} px cuts {text!r}\n')


# -------------------------------------------------------------------------------------------- studios and their pages


def _studios(made: Path, home: Path | None) -> Iterator[tuple[Serve, Callable[[], Mapping[str, Show]]]]:
    """How to serve each studio, and what to take of it; a studio is filled only when its pages are asked for."""
    if home is not None:
        yield lambda: _plain(home), lambda: _everywhere() | _newest_run(home)
        return
    yield lambda: _plain(made / 'empty'), _empty
    yield lambda: _wide(made / 'door'), lambda: {'login': _login, 'login-wrong': _wrong_token}
    yield lambda: showcase.showing(made / 'full'), lambda: _everywhere() | _full(made / 'full')


@contextmanager
def _plain(home: Path) -> Iterator[Server]:
    server = start_server(home)
    try:
        yield server
    finally:
        stop_server(server)


@contextmanager
def _wide(home: Path) -> Iterator[Server]:
    """A studio that other machines can reach, so that it asks who one is."""
    os.environ['RLVR_HOST'] = '0.0.0.0'
    try:
        with _plain(home) as server:
            yield server
    finally:
        del os.environ['RLVR_HOST']


def _empty() -> dict[str, Show]:
    paths = {'library': '/', 'runs': '/runs', 'adapters': '/adapters', 'train': '/train', 'try': '/try'}
    return {f'{name}-empty': _open(path) for name, path in paths.items()}


def _everywhere() -> dict[str, Show]:
    """What there is over any data folder."""
    plain = {
        name: _open(f'/{name}') for name in ('templates', 'train', 'runs', 'adapters', 'try', 'models', 'settings')
    }
    return plain | {
        'library': _library,
        'library-nothing-found': _after('/', _nothing_found),
        'import': _after('/', _pressed('Import')),
        'palette': _after('/', lambda page: page.keyboard.press('Control+k')),
        'keys': _after('/', lambda page: page.keyboard.press('?')),
        'settings-new-key': _after('/settings', _pressed('New key')),
        'api': _api,
    }


def _full(home: Path) -> dict[str, Show]:
    """What only the filled data folder has."""
    found = showcase.fill(home)
    pages = {name: _open(path) for name, path in found.items() if not name.startswith('key ')}
    return pages | {
        'library-export': _after('/', _bulk_export),
        'library-calibrate': _after('/', _calibrate),
        'editor': _editor(found['editor']),
        'editor-script': _new_script,
        'editor-versions': _after(found['editor-stale'], _versions),
        'runs-compare': _after('/runs', _two_runs),
        'adapter-menu': _after(found['adapter'], _pressed('More')),
        'adapter-delete': _after(found['adapter'], _chosen('More', 'Delete…')),
        'proof-base': _after(found['proof-error'], _pressed('Name the base…')),
        'broken': _after('/', _broken),
        'connection-lost': _after('/runs', _offline),
    }


def _newest_run(home: Path) -> dict[str, Show]:
    from studio.services import Studio
    from studio.settings import Settings

    studio = Studio(Settings(home=home))
    runs = studio.runs.list().rows
    studio.database.close()
    return {'run': _open(f'/runs/{runs[0].id}')} if runs else {}


# ------------------------------------------------------------------------------------------------- how to get there


def _open(path: str) -> Show:
    def show(page: Page, url: str) -> None:
        page.goto(url + path)
        page.wait_for_function('window.did_handshake')

    return show


def _after(path: str, then: Callable[[Page], object]) -> Show:
    def show(page: Page, url: str) -> None:
        _open(path)(page, url)
        page.wait_for_load_state('networkidle')
        then(page)

    return show


def _pressed(name: str) -> Callable[[Page], object]:
    return lambda page: page.get_by_role('button', name=name, exact=True).last.click()


def _chosen(menu: str, name: str) -> Callable[[Page], object]:
    def choose(page: Page) -> None:
        _pressed(menu)(page)
        page.get_by_role('menuitem', name=name).click()

    return choose


def _api(page: Page, url: str) -> None:
    page.goto(f'{url}/docs')
    page.locator('.opblock').first.wait_for()


def _login(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_label('Token').wait_for()


def _wrong_token(page: Page, url: str) -> None:
    _login(page, url)
    page.get_by_label('Token').fill('not it')
    page.get_by_role('button', name='Log in').click()
    page.get_by_role('alert').wait_for()


def _library(page: Page, url: str) -> None:
    _open('/')(page, url)
    for row in (1, 2, 4):
        page.locator('.tasks .q-checkbox').nth(row).click()
    page.locator('.tasks tbody tr').nth(2).hover()


def _nothing_found(page: Page) -> None:
    page.get_by_label('Search title, prompt, file name or command').fill('no such task')
    page.locator('.nothing').wait_for()


def _bulk_export(page: Page) -> None:
    page.locator('.tasks .q-checkbox').nth(1).click()
    page.locator('.bulk').get_by_role('button', name='Export').click()


def _calibrate(page: Page) -> None:
    page.locator('.tasks .q-checkbox').nth(1).click()
    page.locator('.bulk').get_by_role('button', name='Calibrate').click()


def _two_runs(page: Page) -> None:
    for row in (4, 5):
        page.locator('.q-checkbox').nth(row).click()


def _editor(path: str) -> Show:
    def show(page: Page, url: str) -> None:
        _open(path)(page, url)
        for command in ('ls -la', 'python3 -m pytest -q 2>&1 | tail -2'):
            box = page.get_by_label('Command or path')
            box.fill(command)
            before = page.locator('.term .entry').count()
            box.press('Enter')
            page.wait_for_function(f'document.querySelectorAll(".term .entry").length > {before}')
            page.wait_for_function('![...document.querySelectorAll(".term .x")].some(e => e.textContent === "…")')
        page.keyboard.press('Control+Enter')
        page.locator('.verd .vb').wait_for()

    return show


def _new_script(page: Page, url: str) -> None:
    _open('/')(page, url)
    page.keyboard.press('n')
    page.get_by_label('Title', exact=True).fill('Partial credit from a script')
    page.get_by_role('radio', name='script').click()
    page.locator('section[aria-label="RL Checker"]').scroll_into_view_if_needed()


def _versions(page: Page) -> None:
    """By its button, or by the menu that takes it in where there is little room."""
    button = page.get_by_role('button', name='Version history', exact=True)
    if button.is_visible():
        button.click()
    else:
        _chosen('More actions', 'Version history')(page)
    page.get_by_role('dialog').wait_for()


def _broken(page: Page) -> None:
    """What is said where something failed: a toast, from a paste that is too large."""
    page.evaluate(f'emitEvent("rlvr_too_large", {json.dumps(1_200_000)})')


def _offline(page: Page) -> None:
    page.context.set_offline(True)
    page.evaluate('window.socket?.disconnect()')
    page.wait_for_timeout(1500)


if __name__ == '__main__':
    main()
