"""The app of the API: every resource, the one shape of errors, and a reference that needs no network."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from starlette.staticfiles import StaticFiles

from studio.api import adapters, certificates, documents, errors, finetuning, health, metrics, rollouts
from studio.api.access import HEADER
from studio.services import Studio
from trainer import __version__

RESOURCES: Final = (documents, finetuning, metrics, rollouts, adapters, certificates, health)
KEYED: Final = frozenset({'doc', 'finetuning', 'adapter', 'certificate', 'health'})
"""First parts of the paths of the API, which looks at keys by itself."""
PATHS: Final = KEYED | {'docs', 'openapi.json'}

_ABOUT: Final = f"""
Tasks, jobs, rollouts, metrics and adapters of this studio.

Send a key in the header `{HEADER}`: Settings makes one, and so does `rlvr keys create`. A key may **read**, **write**
(tasks, jobs, adapters) and **run** (start and stop work), as chosen when it was made. While no key exists, programs on
this machine need none.

Every error has one shape: `{{"error": {{"code", "message", "fields": [{{"loc", "msg"}}]}}}}`, where `loc` is the path
of a field in the request. Unknown fields are errors, and a request that is refused stores nothing.
"""


def build(studio: Studio) -> FastAPI:
    """The API over the services of a studio."""
    api = FastAPI(
        title='RLVR Studio',
        version=__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_operation_id,
    )
    api.state.studio = studio
    errors.install(api)
    for resource in RESOURCES:
        for route in resource.router.routes:
            if isinstance(route, APIRoute):
                route.summary = re.split('[.:;]', route.description)[0]
        api.include_router(resource.router)
    _serve_reference(api)
    _name_the_key(api)
    return api


def _operation_id(route: APIRoute) -> str:
    return f'{route.path.split("/")[1]}_{route.name}'


def _serve_reference(api: FastAPI) -> None:
    """Swagger UI at ``/docs``, from files that are installed."""
    package = find_spec('fastapi_offline')
    if package is None or package.origin is None:
        raise ModuleNotFoundError('fastapi-offline is not installed: it holds the files of the API reference')
    api.mount('/docs/files', StaticFiles(directory=Path(package.origin).parent / 'static'))

    @api.get('/docs', include_in_schema=False)
    def docs() -> HTMLResponse:
        page = get_swagger_ui_html(
            openapi_url='/openapi.json',
            title='API · RLVR Studio',
            swagger_js_url='/docs/files/swagger-ui-bundle.js',
            swagger_css_url='/docs/files/swagger-ui.css',
            swagger_favicon_url='/assets/icons/favicon.svg',
            swagger_ui_parameters={'validatorUrl': None, 'docExpansion': 'list', 'defaultModelsExpandDepth': 0},
        )
        # The script stands before what is drawn, and does not wait: the page is never shown in the wrong colours.
        ours = '<link rel="stylesheet" href="/assets/css/api-docs.css"><script src="/assets/js/api-docs.js"></script>'
        text = bytes(page.body).decode().replace('<html>', '<html lang="en">')
        return HTMLResponse(text.replace('</head>', f'{ours}</head>'))


def _name_the_key(api: FastAPI) -> None:
    """Say in the schema where the key goes."""
    plain = api.openapi

    def openapi() -> dict[str, Any]:
        schema = plain()
        schema.setdefault('components', {})['securitySchemes'] = {
            HEADER: {'type': 'apiKey', 'in': 'header', 'name': HEADER, 'description': 'A key from Settings.'}
        }
        return schema

    api.openapi = openapi  # type: ignore[method-assign]
