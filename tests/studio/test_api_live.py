"""The running app from outside: the whole story in plain curl, hostile requests over real sockets, and its schema."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_server import Served, end, serve
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from studio.security.keys import ApiKeys
from studio.settings import Settings
from studio.store.database import Database
from trainer.runfolder import RunFolder

HERE = Path(__file__).parent
BIG = 20 * 1024**2
LARGE = b'{"data": "' + b'a' * BIG + b'"}'


@pytest.fixture(scope='module')
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One studio for the tests of this file; its log must stay free of traces."""
    running = serve(tmp_path_factory.mktemp('api') / 'home', '--steps', '6', '--rollouts', '4', '--interval', '0.01')
    yield running
    end(running)
    assert 'Traceback' not in running.log, running.log


@pytest.fixture
def keys(served: Served) -> Iterator[ApiKeys]:
    """The keys of the running studio, as `rlvr keys` sees them; none are left behind."""
    settings = Settings(home=served.home)
    database = Database(settings.database_url)
    found = ApiKeys(database, settings.secret)
    yield found
    for view in found.list():
        found.remove(view.id)
    database.close()


@pytest.mark.skipif(shutil.which('curl') is None, reason='curl is not installed')
def test_the_whole_story_in_curl(served: Served, keys: ApiKeys, tmp_path: Path) -> None:
    key = keys.create('curl', ['read', 'write', 'run']).key
    out = tmp_path / 'adapter.zip'
    environment = {'PATH': os.environ['PATH'], 'URL': served.url, 'KEY': key, 'OUT': str(out)}
    done = subprocess.run(
        ['sh', str(HERE / 'api_story.sh')], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folder = RunFolder(served.home / 'runs' / done.stdout.strip())
    assert [task.title for task in folder.tasks()] == ['Bonjour', 'Hello', 'Hola']
    rl = folder.config().settings.rl
    assert rl.enabled and rl.num_generations == 4 and rl.max_steps == 6
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None and 'adapter_model.safetensors' in archive.namelist()
    secret = key.rpartition('_')[2].encode()
    assert not [path for path in served.home.rglob('*') if path.is_file() and secret in path.read_bytes()]


def test_a_body_of_20_mb_is_refused_however_it_comes(served: Served) -> None:
    status, headers, body = served.ask('POST', '/doc/create', LARGE, {'Content-Type': 'application/json'})
    assert status == 413 and b'"too_large"' in body and headers['content-type'] == 'application/json'
    pieces = (b'a' * 65536 for _ in range(BIG // 65536))
    assert _chunked(served, '/doc/create', pieces).startswith(b'HTTP/1.1 413')
    assert _declared(served, 10**12).startswith(b'HTTP/1.1 413')
    assert served.ask('GET', '/doc/list')[2].startswith(b'{"data":[')


def test_another_host_or_site_gets_nothing(served: Served) -> None:
    for path in ('/', '/doc/list', '/health', '/docs', '/_nicegui_ws/socket.io/?EIO=4&transport=polling'):
        assert served.ask('GET', path, headers={'Host': 'evil.example'})[0] == 400
        assert served.ask('GET', path, headers={'Origin': 'http://evil.example'})[0] == 403
        status, headers, _ = served.ask('GET', path)
        assert status == 200 and 'access-control-allow-origin' not in headers
    body = {'name': 'x', 'base_model': 'starter'}
    assert served.ask('POST', '/finetuning/create', body, {'Origin': 'http://evil.example'})[0] == 403
    assert served.ask('OPTIONS', '/doc/create', headers={'Origin': 'http://evil.example'})[0] == 403


@pytest.mark.parametrize(
    ('origin', 'host', 'status'),
    [('http://evil.example', None, 403), ('null', None, 403), (None, 'evil.example', 403), (None, None, 101)],
)
def test_a_websocket_of_another_site_is_refused(
    served: Served, origin: str | None, host: str | None, status: int
) -> None:
    url = f'ws://127.0.0.1:{served.port}/_nicegui_ws/socket.io/?EIO=4&transport=websocket'
    own = served.url if status == 101 else origin
    if status == 101:
        with connect(url, origin=own) as socket:  # type: ignore[arg-type]
            assert 'sid' in str(socket.recv())
        return
    sock = None
    if host:
        url, sock = url.replace('127.0.0.1', host), _socket(served)
    with pytest.raises(InvalidStatus) as refused, connect(url, origin=own, sock=sock):  # type: ignore[arg-type]
        pass
    assert refused.value.response.status_code == status


@pytest.mark.parametrize(
    'path',
    [
        '/doc/get/../../etc/passwd',
        '/doc/get/..%2f..%2f..%2fetc%2fpasswd',
        '/finetuning/status/..',
        '/finetuning/download/..%2f..%2fstudio.db',
        '/finetuning/log/%2e%2e%2fsecret',
        '/finetuning/rollouts/../../../etc',
        '/adapter/download/..%2f..%2fsecret',
        '/adapter/download/%00',
        '/docs/files/..%2f..%2f..%2f..%2fetc/passwd',
        '/docs/files/%2e%2e/%2e%2e/METADATA',
        '/assets/css/..%2f..%2f..%2fpyproject.toml',
        '/runs/..%2f..%2fsecret/trainer.log',
        '/finetuning/download/01K0A7Z9E5T3G8W4R6Q2M1N0PX%0d%0aX-Evil:%201',
    ],
)
def test_a_path_is_never_a_way_out(served: Served, path: str) -> None:
    """Case A7 over the API: ids and file names are names, whatever they are spelt like."""
    status, headers, body = served.ask('GET', path)
    secret = (served.home / 'secret').read_bytes()
    assert b'root:' not in body and secret not in body and b'[build-system]' not in body
    assert 'x-evil' not in headers
    if path.startswith(('/doc/', '/finetuning', '/adapter/')):
        assert status == 404 and b'"not_found"' in body


def test_only_loopback_is_listened_on(served: Served) -> None:
    """Case E8."""
    addresses = {entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {'127.0.0.1', '127.0.1.1'}:
        with pytest.raises(OSError):
            socket.create_connection((str(address), served.port), timeout=1).close()


# Their bodies have so many fields that every boundary of each is two thousand requests: chance has to do.
LARGE_BODIES = ('/doc/create', '/doc/update/{id}', '/finetuning/create', '/finetuning/start/{id}')


@pytest.mark.slow
@pytest.mark.parametrize(
    ('with_key', 'options'),
    [
        (True, ('--phases', 'examples,fuzzing', '--max-examples', '10')),
        (True, ('--phases', 'coverage', *(f'--exclude-path={path}' for path in LARGE_BODIES))),
        (False, ('--phases', 'fuzzing', '--max-examples', '1', '--exclude-path=/health')),
    ],
)
def test_the_schema_says_what_the_api_does(
    served: Served, keys: ApiKeys, with_key: bool, options: tuple[str, ...]
) -> None:
    """Every endpoint, with right and wrong input: no 500, and no answer that is not as described."""
    key = keys.create('fuzz', ['read', 'write', 'run']).key
    header = ('--header', f'x-api-key: {key}') if with_key else ()
    command = (
        str(Path(sys.executable).with_name('schemathesis')), 'run', f'{served.url}/openapi.json', '--no-color',
        '--checks', 'all', '--exclude-checks', 'positive_data_acceptance', '--generation-deterministic',
        '--warnings', 'off', '--suppress-health-check', 'all', *header, *options,
    )  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, cwd=served.home, env=dict(os.environ)
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-6000:]
    assert re.search(r'Tested: \d\d', text) and re.search(r'\d+ passed', text), text[-3000:]


def _socket(served: Served) -> socket.socket:
    return socket.create_connection(('127.0.0.1', served.port), timeout=30)


def _chunked(served: Served, path: str, pieces: Iterator[bytes]) -> bytes:
    """Send a body in chunks and read the answer, even where the connection is closed on us."""
    with _socket(served) as opened:
        opened.sendall(
            f'POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Type: application/json\r\n'
            'Transfer-Encoding: chunked\r\n\r\n'.encode()
        )
        try:
            for piece in pieces:
                opened.sendall(b'%x\r\n%s\r\n' % (len(piece), piece))
            opened.sendall(b'0\r\n\r\n')
        except OSError:
            pass  # refused in the middle, as it should be
        return opened.recv(4096)


def _declared(served: Served, length: int) -> bytes:
    """Promise a body and send none."""
    with _socket(served) as opened:
        opened.sendall(
            f'POST /doc/create HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n'
            f'Content-Length: {length}\r\n\r\n'.encode()
        )
        return opened.recv(4096)
