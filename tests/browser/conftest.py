"""A real studio in a process of its own, and Debian's Chromium to look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from live_server import ARGUMENTS, CHROMIUM, Server, serving
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

NewPage = Callable[..., Page]
PATIENCE_MS = 30_000
ANSWERS = 'window.did_handshake || !document.querySelector("script[type=importmap]")'
"""Whether a page of the studio hears what is clicked; one that is plain HTML always does."""


@pytest.fixture(autouse=True)
def _patience() -> None:
    """Wait long enough for a machine with more to do than cores to do it; no test waits for a moment."""
    expect.set_options(timeout=PATIENCE_MS)


def answering(page: Page) -> Page:
    """The page, which is ready for clicks and keys whenever it has been opened or reloaded: sooner they are lost."""
    page.set_default_timeout(PATIENCE_MS)
    for name in ('goto', 'reload'):
        setattr(page, name, _then_ready(page, getattr(page, name)))
    return page


def _then_ready(page: Page, move: Callable[..., Any]) -> Callable[..., Any]:
    def moved(*args: Any, **options: Any) -> Any:
        response = move(*args, **options)
        page.wait_for_function(ANSWERS, timeout=2 * PATIENCE_MS)
        return response

    return moved


@pytest.fixture(scope='module')
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One studio over an empty data folder for the tests of a module."""
    with serving(tmp_path_factory.mktemp('home')) as running:
        yield running


@pytest.fixture(scope='module')
def browser() -> Iterator[Browser]:
    """Chromium; per module, because its event loop must not outlive the tests that are not asynchronous."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Open tabs, each in a browser profile of its own unless ``context`` is given; none may log an error."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_page(*, context: BrowserContext | None = None, width: int = 1440, height: int = 900, dark: bool = False):  # type: ignore[no-untyped-def]
        if context is None:
            scheme = 'dark' if dark else 'light'
            context = browser.new_context(viewport={'width': width, 'height': height}, color_scheme=scheme)
            contexts.append(context)
        page = answering(context.new_page())
        page.on('pageerror', lambda error: complaints.append(str(error)))
        page.on('console', lambda message: complaints.append(message.text) if message.type == 'error' else None)
        page.on(
            'request',
            lambda request: (
                None
                if request.url.startswith(('http://127.0.0.1', 'ws://127.0.0.1', 'data:', 'blob:'))
                else complaints.append(f'left the machine: {request.url}')
            ),
        )
        return page

    yield open_page
    for context in contexts:
        context.close()
    # What the browser says of a connection that a test took away is no fault of the page.
    real = [text for text in complaints if 'ERR_INTERNET_DISCONNECTED' not in text]
    assert not real, real


@pytest.fixture
def page(new_page: NewPage) -> Page:
    """One tab at 1440 x 900."""
    return new_page()


@pytest.fixture(scope='module')
def profile(browser: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """One browser profile for a module, of its ``SIZE``: scripts and styles are fetched and compiled once."""
    width, height = getattr(request.module, 'SIZE', (1440, 900))
    context = browser.new_context(viewport={'width': width, 'height': height}, reduced_motion='reduce')
    yield context
    context.close()


@pytest.fixture
def tab(new_page: NewPage, profile: BrowserContext) -> Iterator[Page]:
    """A tab in the profile of the module."""
    page = new_page(context=profile)
    yield page
    page.close()
