"""What keeps other web pages and other machines out of a program that runs code.

Every request, websockets included, has to be for a name of this machine, must not come from another site's page, stays
below a size, and, where the studio listens beyond this machine, is logged in (``login``) or brings a key of the
API. It does not encrypt: beyond this machine that is the business of a tunnel or a proxy with TLS.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import psutil
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from studio.settings import is_loopback

if TYPE_CHECKING:
    from nicegui.app import App
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from studio.security.login import Login
    from studio.settings import Settings

MAX_BODY_BYTES: Final = 16 * 1024**2
MAX_UPLOAD_BYTES: Final = 64 * 1024**2
"""Of a file that is dropped on a page."""
DRAINED_BYTES: Final = 64 * 1024**2
DRAINED_S: Final = 10.0
UPLOADS: Final = '/_nicegui/client/'
_HOST: Final = re.compile(r'([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?')
LOOPBACK: Final = ('127.0.0.1', 'localhost', '[::1]')
PUBLIC: Final = ('/healthz', '/favicon.ico')
"""Paths of the pages' app that need no login. An unknown path draws a page, so these are whole paths."""

# Vue compiles templates in the browser and NiceGUI writes scripts and styles into the page, so inline ones must run.
_POLICY: Final = '; '.join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
SAFETY: Final[Mapping[str, str]] = {
    'content-security-policy': _POLICY,
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'referrer-policy': 'same-origin',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'permissions-policy': 'camera=(), microphone=(), geolocation=()',
}
"""Headers of every answer."""


def protect(app: App, settings: Settings, apart: Mapping[str, ASGIApp], free: Collection[str], login: Login) -> None:
    """Put the guards around the app; call before ``ui.run``.

    ``apart`` are the apps that answer by the first part of the path; those named in ``free`` need no login.
    """
    from nicegui import core  # imported here: this module is also used before the storage folder is set
    from starlette.middleware.sessions import SessionMiddleware

    # NiceGUI puts its sessions around everything unless there are some already: the guards belong around them, so that
    # what is refused, and every call of the API, leaves no session behind.
    app.add_middleware(SessionMiddleware, secret_key=settings.secret)
    app.add_middleware(Apart, apps=apart)
    hosts = allowed_hosts(settings.host, settings.names)
    app.add_middleware(Guard, hosts=hosts, login=login if settings.is_wide else None, free=free)
    core.sio.eio.cors_allowed_origins = []  # the guard has looked at the origin


def allowed_hosts(host: str, names: Collection[str] = ()) -> list[str]:
    """Names under which the studio answers: loopback and those given; when it listens wider, this machine's own too."""
    if is_loopback(host):
        return [*LOOPBACK, *(name.lower() for name in names)]
    own = {*LOOPBACK, *(name.lower() for name in (*names, host, socket.gethostname(), socket.getfqdn()))}
    if host in ('0.0.0.0', '::'):
        addresses = [address for card in psutil.net_if_addrs().values() for address in card]
        own |= {address.address for address in addresses if address.family == socket.AF_INET}
        own |= {f'[{address.address.partition("%")[0]}]' for address in addresses if address.family == socket.AF_INET6}
    return sorted(own - {'0.0.0.0', '::'})


class Apart:
    """Pure ASGI middleware: hands requests to other apps by the first part of their path."""

    def __init__(self, app: ASGIApp, apps: Mapping[str, ASGIApp]) -> None:
        self.app = app
        self.apps = apps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        app = self.apps.get(first_part(scope), self.app) if scope['type'] == 'http' else self.app
        await app(scope, receive, send)


class Guard:
    """Pure ASGI middleware: refuses what is not for us, not from us, not logged in or too large; adds headers."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: list[str],
        login: Login | None = None,
        free: Collection[str] = (),
        max_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.app = app
        self.hosts = frozenset(hosts)
        self.login = login
        self.free = free
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope['type'] not in ('http', 'websocket'):
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if scope['type'] == 'http':
            limit = MAX_UPLOAD_BYTES if scope['path'].startswith(UPLOADS) else self.max_bytes
            sockets = '' if refusal is not None else _websockets(Headers(scope=scope)['host'])
            await (refusal or Limited(self.app, limit))(scope, receive, with_safety(send, sockets))
        elif refusal is not None:
            await send({'type': 'websocket.close', 'code': 1008, 'reason': 'refused'})
        else:
            await self.app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = _HOST.fullmatch(headers.get('host', ''))
        if len(headers.getlist('host')) != 1 or host is None or host[1].lower() not in self.hosts:
            return refuse(scope, 400, 'wrong_host', 'The studio does not answer under this name.')
        if _is_foreign(scope, headers):
            return refuse(scope, 403, 'foreign_origin', 'Requests from pages of other sites are refused.')
        if self.login is None or self.login.knows(headers):
            return None
        if scope['type'] == 'http' and (first_part(scope) in self.free or scope['path'] in PUBLIC):
            return None
        if scope['type'] == 'http' and scope['method'] == 'GET' and 'text/html' in headers.get('accept', ''):
            return RedirectResponse(self.login.address(scope), status_code=303)
        return refuse(scope, 401, 'not_logged_in', 'Log in first: open the studio in a browser.')


class Limited:
    """An app whose requests have bodies up to a limit, declared or counted; what is larger is answered with 413."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 413."""
        headers = Headers(scope=scope)
        declared = headers.get('content-length', '0')
        if declared.isdecimal() and int(declared) <= self.max_bytes:
            await _Counted(self, scope, receive, send).run()
            return
        if declared.isdecimal() and int(declared) <= DRAINED_BYTES and 'expect' not in headers:
            await _drain(receive)
        await self.refuse(scope, receive, send)

    async def refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 413; the connection ends, for what may still be coming is not read."""
        text = f'The request is larger than {self.max_bytes // 1024**2} MB. Send less at once.'
        answer = refuse(scope, 413, 'too_large', text)
        answer.headers['connection'] = 'close'
        await answer(scope, receive, send)


class _Counted:
    """One request whose body is counted while it is read."""

    def __init__(self, limited: Limited, scope: Scope, receive: Receive, send: Send) -> None:
        self._limited, self._scope, self._receive, self._send = limited, scope, receive, send
        self._seen = 0
        self._started = self._refused = self._more = False

    async def run(self) -> None:
        try:
            await self._limited.app(self._scope, self._next, self._answer)
        except _TooLarge:
            if self._started:
                raise
            await self._refuse()

    async def _next(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get('body', b''))
        self._more = message.get('more_body', False)
        if self._seen > self._limited.max_bytes:
            raise _TooLarge
        return message

    async def _answer(self, message: Message) -> None:
        # Whoever reads the body may take our error for one of its own and answer it: ours goes out instead.
        if self._seen > self._limited.max_bytes and not self._started:
            await self._refuse()
            return
        self._started = True
        await self._send(message)

    async def _refuse(self) -> None:
        if not self._refused:
            self._refused = True
            if self._more:
                await _drain(self._receive)
            await self._limited.refuse(self._scope, self._receive, self._send)


class _TooLarge(Exception):
    """More bytes came than the limit allows."""


async def _drain(receive: Receive) -> None:
    """Throw away what is still coming, within reason: who is cut off while sending may never read the answer."""
    seen = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAINED_S):
            while seen < DRAINED_BYTES:
                message = await receive()
                seen += len(message.get('body', b''))
                if message['type'] != 'http.request' or not message.get('more_body'):
                    return


def refuse(scope: Scope, status: int, code: str, message: str) -> Response:
    """An answer to people as text, to programs in the one shape of errors."""
    if scope['type'] == 'http' and 'text/html' in Headers(scope=scope).get('accept', ''):
        return PlainTextResponse(message, status)
    return JSONResponse({'error': {'code': code, 'message': message, 'fields': []}}, status)


def with_safety(send: Send, websockets: str) -> Send:
    """Add the safety headers to an answer; ``websockets`` are the sources a page may connect to besides its own."""
    policy = SAFETY['content-security-policy'] + f"; connect-src 'self' {websockets}".rstrip()
    headers = [(name.encode(), value.encode()) for name, value in {**SAFETY, 'content-security-policy': policy}.items()]

    async def guarded(message: Message) -> None:
        if message['type'] == 'http.response.start':
            message = {**message, 'headers': [*message.get('headers', []), *headers]}
        await send(message)

    return guarded


def _websockets(host: str) -> str:
    """Where the sockets of a page are: not every browser counts them to its own origin."""
    return f'ws://{host} wss://{host}'


def first_part(scope: Scope) -> str:
    """The first part of the path of a request."""
    path: str = scope['path']
    return path.lstrip('/').partition('/')[0]


def _is_foreign(scope: Scope, headers: Headers) -> bool:
    """Whether a page of another site is behind a request; following a link from there to a page of ours is not that."""
    origins = headers.getlist('origin')
    if origins and not all(_same_origin(origin, headers['host']) for origin in origins):
        return True
    if headers.get('sec-fetch-site', 'none') in ('none', 'same-origin'):
        return False
    follows = headers.get('sec-fetch-mode') == 'navigate' and headers.get('sec-fetch-dest') == 'document'
    return not (follows and scope['type'] == 'http' and scope['method'] in ('GET', 'HEAD'))


def _same_origin(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ('http', 'https') and parts.netloc.lower() == host.lower()
