"""A studio in a process of its own, as a user starts it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from studio.launchers import LocalLauncher
from trainer.runfolder import RunFolder

SERVE = """
import studio.ui.theme as theme
from studio.app import run
from studio.settings import Settings
theme.TOAST_S = theme.UNDO_S = 15.0  # who looks may be late
run(Settings())
"""
CHROMIUM = '/usr/bin/chromium'
ARGUMENTS = ['--no-sandbox', '--disable-gpu', '--disable-background-networking']


@dataclass(frozen=True)
class Server:
    """A running studio: where it answers and where its data lie."""

    url: str
    home: Path
    process: subprocess.Popen[bytes]
    started_in_s: float


@contextmanager
def serving(home: Path, program: str | None = None) -> Iterator[Server]:
    """A studio over a data folder for a block; then the runs it left are ended, and its log must hold no traceback."""
    server = start_server(home, program=program)
    try:
        yield server
    finally:
        stop_server(server)
        for path in (home / 'runs').glob('*/claim.json'):
            claim = RunFolder(path.parent).claim()
            if claim is not None:
                LocalLauncher().end(claim)
    log = (home / 'server.log').read_text(encoding='utf-8', errors='replace')
    assert 'Traceback' not in log, log


def start_server(home: Path, port: int | None = None, *, program: str | None = None) -> Server:
    """Start a studio over a data folder and wait until it answers; ``program`` is what runs instead of ``SERVE``."""
    port = port or free_port()
    home.mkdir(parents=True, exist_ok=True)
    # Inside pytest NiceGUI takes itself for a page under test; this one is the real program.
    ours = {name: value for name, value in os.environ.items() if not name.startswith(('PYTEST_', 'NICEGUI_'))}
    environment = ours | {'RLVR_HOME': str(home), 'RLVR_PORT': str(port), 'RLVR_OPEN_BROWSER': '0'}
    began = time.monotonic()
    with (home / 'server.log').open('ab') as log:
        process = subprocess.Popen(
            [sys.executable, '-c', program or SERVE], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    url = f'http://127.0.0.1:{port}'
    while True:
        try:
            with urlopen(f'{url}/healthz', timeout=5):
                break
        except OSError:
            log_text = (home / 'server.log').read_text(encoding='utf-8', errors='replace')
            assert process.poll() is None, log_text
            assert time.monotonic() - began < 180, log_text
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
