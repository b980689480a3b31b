"""A studio in a process of its own whose trainer is the stand-in, and a plain way to talk to its API."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SERVE = """
import sys
sys.path.insert(0, sys.argv[1])
import stand_in, studio.services
studio.services.LocalLauncher = lambda: stand_in.stub(*sys.argv[2:])
from studio.app import run
from studio.settings import Settings
run(Settings())
"""


@dataclass(frozen=True)
class Served:
    """A running studio: where it answers, where its data lie."""

    port: int
    home: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f'http://127.0.0.1:{self.port}'

    @property
    def log(self) -> str:
        return (self.home / 'server.log').read_text(encoding='utf-8', errors='replace')

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """One request as it stands: nothing is added, and no path is tidied up."""
        connection = HTTPConnection('127.0.0.1', self.port, timeout=30)
        headers = {**(headers or {})}
        if isinstance(body, dict):
            body, headers['Content-Type'] = json.dumps(body), 'application/json'
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        read = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, read


def serve(home: Path, *options: str) -> Served:
    """Start a studio over a data folder, with options for the stand-in, and wait until it answers."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = int(probe.getsockname()[1])
    home.mkdir(parents=True, exist_ok=True)
    ours = {name: value for name, value in os.environ.items() if not name.startswith(('PYTEST_', 'NICEGUI_', 'RLVR_'))}
    environment = ours | {'RLVR_HOME': str(home), 'RLVR_PORT': str(port), 'RLVR_OPEN_BROWSER': '0'}
    with (home / 'server.log').open('ab') as log:
        process = subprocess.Popen(
            [sys.executable, '-c', SERVE, str(HERE), *options],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=HERE.parents[1],
        )
    served = Served(port, home, process)
    deadline = time.monotonic() + 180
    while True:
        try:
            served.ask('GET', '/healthz')
            return served
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, served.log
            time.sleep(0.05)


def end(served: Served) -> None:
    """End a studio and wait for it."""
    served.process.terminate()
    try:
        served.process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        served.process.kill()
        served.process.wait(timeout=15)
