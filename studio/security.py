"""What keeps other web pages and other machines out of a program that runs code: hosts, origins, body size, framing.

It does not authenticate anybody: whoever can open a socket to the port is the user. Listening beyond this machine is
therefore a choice that has to be asked for, and is warned about.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Final

import psutil
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from nicegui.app import App
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from studio.settings import Settings

MAX_BODY_BYTES: Final = 64 * 1024**2
LOOPBACK: Final = ('127.0.0.1', 'localhost', '[::1]')

_HEADERS: Final = (
    (b'content-security-policy', b"frame-ancestors 'none'"),
    (b'x-content-type-options', b'nosniff'),
    (b'referrer-policy', b'same-origin'),
)


def protect(app: App, settings: Settings) -> None:
    """Put the guards around the app; call before ``ui.run``."""
    from nicegui import core  # imported here: this module is also used before the storage folder is set

    hosts = allowed_hosts(settings.host)
    app.add_middleware(Guard, max_bytes=MAX_BODY_BYTES)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    core.sio.eio.cors_allowed_origins = [f'http://{host}:{settings.port}' for host in hosts]


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine alone."""
    if host == 'localhost':
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str) -> list[str]:
    """Names under which the studio answers: loopback, and when it listens wider, this machine's own names."""
    if is_loopback(host):
        return list(LOOPBACK)
    names = {*LOOPBACK, host, socket.gethostname(), socket.getfqdn()}
    if host in ('0.0.0.0', '::'):
        addresses = (address for card in psutil.net_if_addrs().values() for address in card)
        names |= {address.address for address in addresses if address.family == socket.AF_INET}
    return sorted(names - {'0.0.0.0', '::'})


class Guard:
    """Pure ASGI middleware: refuses bodies over a limit (declared or counted) and adds the safety headers."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 413."""
        if scope['type'] != 'http':
            await self.app(scope, receive, send)
            return
        declared = dict(scope['headers']).get(b'content-length', b'0')
        if not declared.isdigit() or int(declared) > self.max_bytes:
            await self._too_large(scope, receive, send)
            return
        seen, started = 0, False

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get('body', b''))
            if seen > self.max_bytes:
                raise _TooLarge
            return message

        async def guarded(message: Message) -> None:
            nonlocal started
            if message['type'] == 'http.response.start':
                started = True
                message = {**message, 'headers': [*message.get('headers', []), *_HEADERS]}
            await send(message)

        try:
            await self.app(scope, counted, guarded)
        except _TooLarge:
            if started:
                raise
            await self._too_large(scope, receive, send)

    async def _too_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = f'The request is larger than {self.max_bytes // 1024**2} MB. Send less at once.'
        await PlainTextResponse(text, status_code=413)(scope, receive, send)


class _TooLarge(Exception):
    """More bytes came than the limit allows."""
