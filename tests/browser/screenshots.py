"""Pictures of every page in both themes and two window sizes, for a look beside the designs.

    python tests/browser/screenshots.py [FOLDER] [--home HOME]

Starts a studio over a data folder of its own with the tutorial tasks in it, or over HOME as it is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from live_server import ARGUMENTS, CHROMIUM, Server, start_server, stop_server  # noqa: E402
from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402

if TYPE_CHECKING:
    from studio.services import Studio

SIZES = {'1440': (1440, 900), '1024': (1024, 768)}
THEMES = ('light', 'dark')


def main() -> None:
    """Take every picture and print where they lie."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', nargs='?', type=Path, default=ROOT / 'screenshots')
    parser.add_argument('--only', default='', help='names of the pages to take, separated by commas')
    parser.add_argument('--home', type=Path, help='an existing data folder, for pictures of real runs')
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with _home(options.home) as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        if options.home is None:
            empty = start_server(home / 'empty')
            _each(browser, empty, options.folder, {'library-empty': _open('/')})
            stop_server(empty)
            _fill(home)
        server = start_server(home)
        wanted = options.only.split(',') if options.only else ()
        pages = {name: show for name, show in _pages(home).items() if not wanted or name in wanted}
        _each(browser, server, options.folder, pages)
        stop_server(server)
        browser.close()
    sys.stdout.write(f'{len(list(options.folder.glob("*.png")))} pictures in {options.folder}\n')


def _each(browser: Browser, server: Server, folder: Path, pages: dict[str, Callable[[Page, str], None]]) -> None:
    for theme in THEMES:
        for size, (width, height) in SIZES.items():
            context = browser.new_context(viewport={'width': width, 'height': height}, color_scheme=theme)
            page = context.new_page()
            page.set_default_timeout(20_000)
            for name, show in pages.items():
                show(page, server.url)
                page.wait_for_timeout(900)
                page.screenshot(path=folder / f'{name}-{theme}-{size}.png')
                too_wide = page.evaluate('document.documentElement.scrollWidth') - width
                if too_wide > 0:
                    sys.stdout.write(f'{name} at {width} px is {too_wide} px too wide\n')
            context.close()


def _pages(home: Path) -> dict[str, Callable[[Page, str], None]]:
    from studio.documents import DocumentQuery
    from studio.services import Studio
    from studio.settings import Settings

    studio = Studio(Settings(home=home))
    failed = next(iter(studio.documents.list(DocumentQuery(certificate='failed', per_page=1)).rows), None)
    task = next(iter(studio.documents.list(DocumentQuery(checker='pytest', per_page=1)).rows), None)
    runs = studio.runs.list().rows
    studio.database.close()
    pages = {
        'library': _library,
        'templates': _open('/templates'),
        'train': _open('/train'),
        'runs': _open('/runs'),
        'adapters': _open('/adapters'),
        'try': _open('/try'),
        'models': _open('/models'),
        'settings': _open('/settings'),
    }
    if task is not None:
        pages |= {'editor': _editor(task.id), 'editor-script': _new_script}
        pages['variants'] = _open(f'/tasks/{task.id}/variants')
    if failed is not None:
        pages['editor-failed'] = _open(f'/tasks/{failed.id}')
    if runs:
        pages['run'] = _open(f'/runs/{runs[0].id}')
    return pages


def _open(path: str) -> Callable[[Page, str], None]:
    def show(page: Page, url: str) -> None:
        page.goto(url + path)
        page.wait_for_function('window.did_handshake')

    return show


def _library(page: Page, url: str) -> None:
    _open('/')(page, url)
    for row in (1, 2, 4):
        page.locator('.tasks .q-checkbox').nth(row).click()
    page.locator('.tasks tbody tr').nth(2).hover()


def _editor(task_id: str) -> Callable[[Page, str], None]:
    def show(page: Page, url: str) -> None:
        _open(f'/tasks/{task_id}')(page, url)
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


def _fill(home: Path) -> None:
    from studio.samples import load_tutorial
    from studio.services import Studio
    from studio.settings import Settings

    studio = Studio(Settings(home=home))
    load_tutorial(studio.documents)
    studio.documents.create(title='A draft that nobody finished', topics=('shell',))
    _certify(studio)
    studio.database.close()


def _certify(studio: Studio) -> None:
    """Have every state of a certificate in the pictures."""
    from studio.documents import DocumentQuery
    from trainer.task import parse_task

    tasks = studio.documents.list(DocumentQuery(checker='pytest', per_page=1)).rows
    tasks += studio.documents.list(DocumentQuery(checker='exit_code', status='published', per_page=2)).rows
    raw = {'prompt': 'Tidy the workspace.', 'checker': {'type': 'exit_code', 'config': {'command': 'true'}}}
    failing = studio.documents.create(parse_task({'title': 'Anything goes', 'task_spec': raw})[0], status='published')
    for id in [*(row.id for row in tasks), failing.id]:
        studio.certificates.run(id)
    stale = studio.documents.get(tasks[-1].id)
    spec = {**stale.draft, 'prompt': f'{stale.draft["prompt"]} Keep the rest.'}
    studio.documents.save_draft(stale.id, spec, revision=stale.revision)


@contextmanager
def _home(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix='rlvr-screenshots-', ignore_cleanup_errors=True) as folder:
        yield Path(folder)


if __name__ == '__main__':
    main()
