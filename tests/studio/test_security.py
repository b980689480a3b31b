"""Who is let in: hosts, origins, sizes, logins; in front of a plain app, so that each rule is seen by itself."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from studio.security.guards import Apart, Guard, allowed_hosts
from studio.security.login import COOKIE, LASTS_S, Login
from studio.settings import Settings, is_loopback, kept_secret


async def _echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f'{request.method} {len(await request.body())}')


async def _swallow(request: Request) -> PlainTextResponse:
    """Takes every error for its own, as some frameworks do."""
    try:
        await request.body()
    except Exception:
        return PlainTextResponse('cannot be read', 400)
    return PlainTextResponse('ok')


async def _socket(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text('in')
    await websocket.close()


def _inside() -> Starlette:
    methods = ['GET', 'POST', 'DELETE']
    return Starlette(
        routes=[
            Route('/swallow', _swallow, methods=methods),
            WebSocketRoute('/socket', _socket),
            Route('/{path:path}', _echo, methods=methods),
        ]
    )


@pytest.fixture
def client() -> Iterator[TestClient]:
    """A browser's view of a studio on this machine."""
    guard = Guard(_inside(), hosts=allowed_hosts('127.0.0.1'), max_bytes=1000)
    with TestClient(guard, base_url='http://localhost:8080') as opened:
        yield opened


# ------------------------------------------------------------------------------------------------ hosts, origins


def test_only_names_of_this_machine_are_answered() -> None:
    """Case E8."""
    assert allowed_hosts('127.0.0.1') == ['127.0.0.1', 'localhost', '[::1]']
    wide = allowed_hosts('0.0.0.0')
    assert 'localhost' in wide and socket.gethostname().lower() in wide and '*' not in wide and '0.0.0.0' not in wide
    assert allowed_hosts('127.0.0.1', ['Studio.example.org'])[-1] == 'studio.example.org'
    assert Settings(names='a.example').is_wide and not Settings().is_wide  # type: ignore[arg-type]
    assert is_loopback('localhost') and is_loopback('::1') and not is_loopback('192.168.1.2')


@pytest.mark.parametrize(
    ('host', 'status'),
    [
        ('localhost:8080', 200),
        ('LOCALHOST', 200),
        ('127.0.0.1:9', 200),
        ('[::1]:8080', 200),
        ('evil.example', 400),
        ('localhost.evil.example', 400),
        ('localhost:8080@evil.example', 400),
        ('localhost:80; script-src *', 400),
        ('', 400),
    ],
)
def test_another_host_is_not_us(client: TestClient, host: str, status: int) -> None:
    answer = client.get('/', headers={'host': host})
    assert answer.status_code == status
    if status == 400:
        assert answer.json()['error']['code'] == 'wrong_host'


OWN = {'origin': 'http://localhost:8080'}
FOREIGN: list[dict[str, str]] = [
    {'origin': 'http://evil.example'},
    {'origin': 'http://localhost:3000'},
    {'origin': 'null'},
    {'origin': 'http://[broken'},
    {'origin': 'file://localhost:8080'},
    {'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script'},
    {'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty'},
    {'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe'},
]
LINK = {'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document'}


@pytest.mark.parametrize('headers', FOREIGN)
def test_pages_of_other_sites_get_nowhere(client: TestClient, headers: dict[str, str]) -> None:
    for method in ('GET', 'POST', 'DELETE'):
        answer = client.request(method, '/', headers=headers)
        assert answer.status_code == 403 and answer.json()['error']['code'] == 'foreign_origin'
        assert 'access-control-allow-origin' not in answer.headers
    with pytest.raises(WebSocketDisconnect), client.websocket_connect('/socket', headers=headers):
        pass


def test_our_own_pages_programs_and_links_get_in(client: TestClient) -> None:
    for headers in ({}, OWN, {**OWN, 'sec-fetch-site': 'same-origin'}):
        assert client.post('/', headers=headers).status_code == 200
        with client.websocket_connect('/socket', headers={'host': 'localhost:8080', **headers}) as opened:
            assert opened.receive_text() == 'in'
    assert client.get('/', headers=LINK).status_code == 200
    assert client.post('/', headers=LINK).status_code == 403
    assert client.get('/', headers={'sec-fetch-site': 'none'}).status_code == 200


def test_a_websocket_for_another_host_is_refused(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect('/socket', headers={'host': 'evil.example'}):
        pass


# ------------------------------------------------------------------------------------------------ sizes, headers


@pytest.mark.parametrize('path', ['/', '/swallow'])
def test_large_bodies_are_refused_declared_or_not(client: TestClient, path: str) -> None:
    assert client.post(path, content=b'x' * 1000).status_code == 200
    for content in (b'x' * 1001, iter([b'x' * 600, b'x' * 600]), iter([b'x'] * 1001)):
        answer = client.post(path, content=content)
        assert answer.status_code == 413 and answer.json()['error']['code'] == 'too_large'
        assert answer.headers['connection'] == 'close'
    assert client.post(path, content=b'', headers={'content-length': '-1'}).status_code == 413


def test_every_answer_has_the_safety_headers(client: TestClient) -> None:
    for answer in (
        client.get('/'),
        client.get('/', headers={'host': 'evil.example'}),
        client.post('/', content=b'x' * 2000),
    ):
        policy = answer.headers['content-security-policy']
        assert "frame-ancestors 'none'" in policy and "object-src 'none'" in policy and 'https:' not in policy
        assert answer.headers['x-content-type-options'] == 'nosniff'
        assert answer.headers['x-frame-options'] == 'DENY'
        assert answer.headers['referrer-policy'] == 'same-origin'
    assert 'ws://localhost:8080' in client.get('/').headers['content-security-policy']
    assert 'evil' not in client.get('/', headers={'host': 'evil.example'}).headers['content-security-policy']


# --------------------------------------------------------------------------------------------------------- login


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / 'home', host='0.0.0.0')


@pytest.fixture
def wide(settings: Settings, clock: Clock) -> Iterator[TestClient]:
    """A browser's view of a studio that other machines reach."""
    login = Login(settings, clock)
    inside = Apart(_inside(), {'login': login.app(), 'logout': login.app()})
    guard = Guard(inside, hosts=allowed_hosts('0.0.0.0'), login=login, free={'login', 'logout', 'doc'})
    with TestClient(guard, base_url='http://localhost:8080', follow_redirects=False) as opened:
        yield opened


HTML = {'accept': 'text/html,*/*'}


def enter(client: TestClient, token: str, **fields: str) -> Any:
    return client.post('/login', data={'token': token, **fields})


def test_beyond_this_machine_nothing_is_shown_before_the_login(wide: TestClient, settings: Settings) -> None:
    for path in ('/', '/runs/x', '/adapters/x/download', '/assets/x', '//login/../runs', '/healthz/x', '/docs'):
        assert wide.get(path).status_code == 401, path
    assert wide.post('/').status_code == 401
    with pytest.raises(WebSocketDisconnect), wide.websocket_connect('ws://localhost:8080/socket'):
        pass
    with pytest.raises(WebSocketDisconnect), wide.websocket_connect('ws://localhost:8080/login'):
        pass
    assert wide.get('/healthz').status_code == 200 and wide.get('/doc/list').status_code == 200
    sent = wide.get('/runs/x?tab=1&a=%2F', headers=HTML)
    assert sent.status_code == 303 and sent.headers['location'] == '/login?next=%2Fruns%2Fx%3Ftab%3D1%26a%3D%252F'
    page = wide.get(sent.headers['location'])
    assert page.status_code == 200 and 'value="/runs/x?tab=1&amp;a=%2F"' in page.text
    assert settings.login_token not in page.text
    for name in ('css/tokens.css', 'css/fonts/Inter-roman.var.ttf', 'icons/favicon.svg'):
        assert wide.get(f'/login/files/{name}').status_code == 200
    assert wide.get('/login/files/css/..%2f..%2fpyproject.toml').status_code == 404


def test_the_token_becomes_a_cookie_that_ends(wide: TestClient, settings: Settings, clock: Clock) -> None:
    answer = enter(wide, settings.login_token, next='/runs?x=1')
    assert answer.status_code == 303 and answer.headers['location'] == '/runs?x=1'
    cookie = answer.headers['set-cookie'].lower()
    assert 'httponly' in cookie and 'samesite=strict' in cookie and settings.login_token.lower() not in cookie
    assert wide.get('/').status_code == 200 and wide.get('/login/state').json() == {'known': True}
    with wide.websocket_connect('ws://localhost:8080/socket') as opened:
        assert opened.receive_text() == 'in'
    clock.now += LASTS_S + 1
    assert wide.get('/').status_code == 401 and wide.get('/login/state').json() == {'known': False}


def test_a_new_token_ends_every_session_and_so_does_leaving(wide: TestClient, settings: Settings) -> None:
    enter(wide, settings.login_token)
    kept = wide.cookies[COOKIE]
    assert wide.post('/logout').status_code == 303 and wide.get('/').status_code == 401
    wide.cookies.set(COOKIE, kept)
    assert wide.get('/').status_code == 200
    old = settings.login_token
    assert kept_secret(settings.home / 'login-token', anew=True) != old
    assert wide.get('/').status_code == 401 and enter(wide, old).status_code == 401


@pytest.mark.parametrize('value', ['', '.', '9999999999.', '9999999999.00', 'é.x', '1' * 5000 + '.x', '-1.x', '"'])
def test_a_cookie_that_we_did_not_sign_opens_nothing(wide: TestClient, value: str) -> None:
    assert wide.get('/', headers={'cookie': f'{COOKIE}={value}'.encode()}).status_code == 401


def test_guessing_gets_slower(wide: TestClient, settings: Settings, clock: Clock) -> None:
    for _ in range(5):
        assert enter(wide, 'guess').status_code == 401
    limited = enter(wide, settings.login_token)
    assert limited.status_code == 429 and int(limited.headers['retry-after']) >= 2
    clock.now += 3
    assert enter(wide, 'guess').status_code == 401
    assert enter(wide, settings.login_token).status_code == 429
    clock.now += 301
    assert enter(wide, settings.login_token).status_code == 303


@pytest.mark.parametrize(
    'next', ['//evil.example', 'http://evil.example', '/\\evil.example', 'javascript:1', '/login', '/a\r\nX: 1', '']
)
def test_after_the_login_one_stays_here(wide: TestClient, settings: Settings, next: str) -> None:
    assert enter(wide, settings.login_token, next=next).headers['location'] == '/'


def test_the_page_shows_what_it_was_given_as_text(wide: TestClient) -> None:
    page = wide.get('/login', params={'next': '/"><script>alert(1)</script>'})
    assert '<script>alert(1)' not in page.text


def test_secrets_are_for_their_owner(settings: Settings) -> None:
    """The first of many that ask at once makes it; nobody else can read it."""
    made: Callable[[], str] = lambda: kept_secret(settings.home / 'secret')  # noqa: E731
    assert len({made() for _ in range(3)}) == 1 and len(made()) > 40
    assert (settings.home / 'secret').stat().st_mode & 0o777 == 0o600
    assert [path.name for path in settings.home.iterdir()] == ['secret']
