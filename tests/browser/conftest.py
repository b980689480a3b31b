"""A real studio in a process of its own, and Debian's Chromium to look at it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

CHROMIUM = '/usr/bin/chromium'
ARGUMENTS = ['--no-sandbox', '--disable-gpu', '--disable-background-networking']
SERVE = 'from studio.app import run; from studio.settings import Settings; run(Settings())'


@dataclass(frozen=True)
class Server:
    """A running studio: where it answers and where its data lie."""

    url: str
    home: Path
    process: subprocess.Popen[bytes]
    started_in_s: float


def start_server(home: Path, port: int | None = None) -> Server:
    """Start a studio over a data folder and wait until it answers."""
    port = port or free_port()
    home.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {'RLVR_HOME': str(home), 'RLVR_PORT': str(port), 'RLVR_OPEN_BROWSER': '0'}
    began = time.monotonic()
    with (home / 'server.log').open('ab') as log:
        process = subprocess.Popen(
            [sys.executable, '-c', SERVE], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    url = f'http://127.0.0.1:{port}'
    while True:
        try:
            with urlopen(f'{url}/healthz', timeout=5):
                break
        except OSError:
            log_text = (home / 'server.log').read_text(encoding='utf-8', errors='replace')
            assert process.poll() is None, log_text
            assert time.monotonic() - began < 60, log_text
            time.sleep(0.05)
    return Server(url, home, process, time.monotonic() - began)


def stop_server(server: Server) -> None:
    """End a studio and wait for it."""
    server.process.terminate()
    try:
        server.process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait(timeout=15)


def free_port() -> int:
    """A loopback port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope='module')
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One studio over an empty data folder for the tests of a module."""
    running = start_server(tmp_path_factory.mktemp('home'))
    yield running
    stop_server(running)
    log = (running.home / 'server.log').read_text(encoding='utf-8', errors='replace')
    assert 'Traceback' not in log, log


@pytest.fixture(scope='module')
def browser() -> Iterator[Browser]:
    """Chromium; per module, because its event loop must not outlive the tests that are not asynchronous."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


NewPage = Callable[..., Page]


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
        page = context.new_page()
        page.set_default_timeout(10_000)
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
    assert not complaints, complaints


@pytest.fixture
def page(new_page: NewPage) -> Page:
    """One tab at 1440 x 900."""
    return new_page()
