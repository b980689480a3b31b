"""Logging in, where the studio listens beyond this machine: a token from the data folder becomes a signed cookie.

Nothing is kept on the server: a cookie names its end and is signed over the token, so a new token ends every session.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, quote, urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import Scope

    from studio.settings import Settings

COOKIE: Final = 'rlvr_login'
LASTS_S: Final = 7 * 24 * 3600
FREE_TRIES: Final = 5
"""Wrong tokens of one address before it has to wait."""
MAX_WAIT_S: Final = 300.0
MAX_ADDRESSES: Final = 10_000
ASSETS: Final = Path(__file__).resolve().parents[2] / 'assets'

_log = logging.getLogger(__name__)


class Login:
    """The door of a studio that other machines can reach."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._waits = _Waits(clock)

    def app(self) -> Starlette:
        """``/login`` with what its page is made of, and ``/logout``."""
        files = [
            Mount(f'/login/files/{name}', StaticFiles(directory=ASSETS / folder))
            for name, folder in (('css/fonts', 'fonts'), ('css', 'css'), ('icons', 'icons'))
        ]
        return Starlette(
            routes=[
                *files,
                Route('/login', self._show, methods=['GET']),
                Route('/login', self._enter, methods=['POST']),
                Route('/login/state', self._state, methods=['GET']),
                Route('/logout', self._leave, methods=['POST']),
            ]
        )

    def address(self, scope: Scope) -> str:
        """The login page that leads on to what was asked for."""
        query = scope.get('query_string', b'').decode('latin-1')
        wanted = quote(scope['path']) + (f'?{query}' if query else '')
        return '/login' if wanted == '/' else f'/login?next={quote(wanted, safe="")}'

    def knows(self, headers: Headers) -> bool:
        """Whether a request comes from somebody who has logged in."""
        try:
            morsel = SimpleCookie(headers.get('cookie', '')).get(COOKIE)
        except CookieError:
            return False
        ends, _, signature = (morsel.value if morsel is not None else '').partition('.')
        if not ends.isdecimal() or len(ends) > 12 or int(ends) < self._clock():
            return False
        return hmac.compare_digest(signature.encode(), self._signature(ends).encode())

    def _show(self, request: Request) -> Response:
        return _page(_local(request.query_params.get('next', '')))

    async def _enter(self, request: Request) -> Response:
        """Take a token; the same answer and the same time whatever is wrong with it."""
        form = parse_qs((await request.body())[:10_000].decode('utf-8', 'replace'))
        wanted = _local(form.get('next', [''])[0])
        address = request.client.host if request.client else ''
        if wait := self._waits.of(address):
            again = {'Retry-After': str(round(wait) + 1)}
            return _page(wanted, f'Too many wrong tokens. Try again in {round(wait) + 1} s.', 429, again)
        given, right = form.get('token', [''])[0].strip(), self._settings.login_token
        if not hmac.compare_digest(_digest(given), _digest(right)):
            self._waits.failed(address)
            _log.warning('A wrong login token came from %s', address)
            return _page(wanted, 'That is not the token. Copy it whole, without blanks.', 401)
        self._waits.forget(address)
        ends = str(int(self._clock()) + LASTS_S)
        answer = RedirectResponse(wanted, status_code=303)
        answer.set_cookie(
            COOKIE,
            f'{ends}.{self._signature(ends)}',
            max_age=LASTS_S,
            httponly=True,
            samesite='strict',
            secure=request.url.scheme == 'https',
        )
        return answer

    def _state(self, request: Request) -> Response:
        """Whether a browser is logged in: one that comes by a link from elsewhere shows its cookie only now."""
        return JSONResponse({'known': self.knows(request.headers)}, headers={'cache-control': 'no-store'})

    def _leave(self, request: Request) -> Response:
        answer = RedirectResponse('/login', status_code=303)
        answer.delete_cookie(COOKIE, httponly=True, samesite='strict')
        return answer

    def _signature(self, ends: str) -> str:
        signed = f'login {ends} {self._settings.login_token}'
        return hmac.new(self._settings.secret.encode(), signed.encode(), hashlib.sha256).hexdigest()


class _Waits:
    """How long an address has to wait after so many wrong tokens: twice as long each time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def of(self, address: str) -> float:
        count, since = self._failures.get(address, (0, 0.0))
        if count < FREE_TRIES:
            return 0.0
        return max(0.0, since + min(MAX_WAIT_S, 2.0 ** (count - FREE_TRIES + 1)) - self._clock())

    def failed(self, address: str) -> None:
        self._failures[address] = (self._failures.pop(address, (0, 0.0))[0] + 1, self._clock())
        if len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)

    def forget(self, address: str) -> None:
        self._failures.pop(address, None)


def _page(wanted: str, problem: str = '', status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
    template = Template((ASSETS / 'login.html').read_text(encoding='utf-8'))
    text = template.substitute(
        next=html.escape(wanted),
        problem=html.escape(problem),
        state='bad' if problem else '',
        hidden='' if problem else 'hidden',
    )
    return HTMLResponse(text, status, {**(headers or {}), 'cache-control': 'no-store'})


def _local(wanted: str) -> str:
    """A path of ours to go on to; anything that leads elsewhere becomes the first page."""
    parts = urlsplit(wanted) if wanted.isprintable() and len(wanted) < 2000 else None
    if parts is None or parts.scheme or parts.netloc or not wanted.startswith('/') or '\\' in wanted:
        return '/'
    return '/' if wanted.startswith(('//', '/login', '/logout')) else wanted


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode('utf-8', 'replace')).digest()
