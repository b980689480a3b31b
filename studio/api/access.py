"""Who may use the API: a key in ``x-api-key`` with the scope that a route asks for, looked at before all else.

While no key exists, this machine may use it without one; that is said in every answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from studio.api.errors import Refused, described
from studio.security.keys import Scope
from studio.services import Studio

HEADER: Final = 'x-api-key'
ACCESS: Final = 'x-rlvr-access'
"""Header of every answer: ``key``, or ``open`` while nobody needs one."""
OPEN: Final = 'open: no key exists, so every program on this machine may use the API'
MAKE_ONE: Final = 'Make a key in Settings, or with `rlvr keys create`.'
_NEEDED: Final = 'x-needed-scope'


def _studio(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


StudioOf = Annotated[Studio, Depends(_studio)]
"""The services, for a route."""


def needs(scope: Scope, *errors: int) -> dict[str, Any]:
    """Arguments of a route that asks for a key with a scope; ``errors`` are the statuses that only some routes have."""
    return {
        'openapi_extra': {_NEEDED: scope, 'security': [{HEADER: []}]},
        'responses': described(*errors),
    }


def is_open(studio: Studio) -> bool:
    """Whether the API asks for no key: on this machine alone, while none exists."""
    return not studio.settings.is_wide and not studio.keys.exist()


class KeyedRoute(APIRoute):
    """A route that looks at the key first, and then reads strict JSON only."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap what FastAPI makes of the function."""
        handle = super().get_route_handler()
        scope: Scope | None = (self.openapi_extra or {}).get(_NEEDED)

        async def keyed(request: Request) -> Response:
            access = await run_in_threadpool(_admit, _studio(request), request.headers.get(HEADER), scope)
            response = await handle(_StrictRequest(request.scope, request.receive))
            response.headers[ACCESS] = access
            response.headers.setdefault('cache-control', 'no-store')
            return response

        return keyed


class _StrictRequest(Request):
    """A request whose JSON is JSON: no NaN, no half characters, no nesting without end."""

    async def json(self) -> Any:
        """Read the body."""
        if not hasattr(self, '_json'):
            try:
                self._json = from_json(await self.body(), allow_inf_nan=False)
            except ValueError as error:
                raise json.JSONDecodeError(str(error), '', 0) from None
        return self._json


def _admit(studio: Studio, key: str | None, scope: Scope | None) -> str:
    """Let a request in and return what to say of it, or raise ``Refused``."""
    if scope is None or (not key and is_open(studio)):
        return OPEN if is_open(studio) else 'key'
    challenge = {'WWW-Authenticate': f'ApiKey header="{HEADER}"'}
    if not key:
        raise Refused(401, 'no_key', f'Send a key in the header {HEADER}. {MAKE_ONE}', challenge)
    known = studio.keys.check(key)
    if known is None:
        raise Refused(401, 'wrong_key', f'This key is unknown or was revoked. {MAKE_ONE}', challenge)
    if scope not in known.scopes:
        allowed = ', '.join(known.scopes)
        raise Refused(403, 'scope', f'The key "{known.name}" may {allowed}, and this needs {scope}.')
    return 'key'
