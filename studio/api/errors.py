"""One shape for every error of the API, and which status each error of the services has."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from studio.documents.views import Conflict
from studio.errors import NotFound
from studio.runs.views import AlreadyStarted, StillActive
from trainer.errors import (
    ConfigError,
    FieldError,
    FieldsError,
    RlvrError,
    RunFolderError,
    SandboxError,
    StoreError,
    TaskError,
)
from trainer.validation import Document, Invalid, validate

_log = logging.getLogger(__name__)

CODES: Final[Mapping[int, str]] = {
    400: 'bad_request',
    401: 'unauthorized',
    403: 'forbidden',
    404: 'not_found',
    405: 'method_not_allowed',
    409: 'conflict',
    413: 'too_large',
    415: 'unsupported_media_type',
    422: 'invalid',
    429: 'too_many_requests',
    500: 'internal',
    503: 'unavailable',
}
"""The code of a status where nothing more precise is known."""

_STATUS: Final[tuple[tuple[type[RlvrError], int, str], ...]] = (
    (NotFound, 404, 'not_found'),
    (Conflict, 409, 'changed_elsewhere'),
    (AlreadyStarted, 409, 'already_started'),
    (StillActive, 409, 'still_active'),
    (StoreError, 503, 'store'),
    (ConfigError, 400, 'invalid_config'),
    (TaskError, 422, 'invalid_task'),
    (RunFolderError, 409, 'run_folder'),
    (SandboxError, 503, 'sandbox'),
)
"""Of an error that is several of these, the first."""


class ErrorDetail(Document):
    """What went wrong: a code for programs, a message for people, and the path of every bad field."""

    code: str = Field(examples=['invalid'])
    message: str = Field(examples=['The request is not valid: data.0.title: A text is needed here'])
    fields: tuple[FieldError, ...] = ()


class ErrorBody(Document):
    """The body of every answer that is not a success."""

    error: ErrorDetail


class Refused(Exception):
    """A request that is turned away before it reaches a service."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers


def answer(
    status: int,
    code: str,
    message: str,
    fields: Iterable[FieldError] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """An error as the API says it."""
    detail = ErrorDetail(code=code, message=message, fields=tuple(fields))
    return JSONResponse(ErrorBody(error=detail).model_dump(mode='json'), status, {**(headers or {})})


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error answers of a route, for its documentation; those that every route has come along."""
    texts = {
        400: 'The request cannot be read, or its configuration cannot work; `fields` has the paths.',
        401: 'A key is needed, or this one is wrong or revoked.',
        403: 'The key may not do this, or the request comes from another web page.',
        404: 'There is no such thing.',
        409: 'It is in a state in which this is not possible.',
        413: 'The body is larger than the limit.',
        415: 'The body is not JSON.',
        422: 'The request is not valid; `fields` has the path of every bad field. Nothing was stored.',
        500: 'The studio broke; its log has the trace.',
        503: 'The store is busy or the sandbox cannot work now. Try again later.',
    }
    wanted = sorted({400, 401, 403, 422, 500, 503, *statuses})
    return {status: {'model': ErrorBody, 'description': texts[status]} for status in wanted}


def install(api: FastAPI) -> None:
    """Answer every error of an app in the one shape."""
    api.add_exception_handler(Refused, _refused)
    api.add_exception_handler(RlvrError, _from_service)
    api.add_exception_handler(RequestValidationError, _not_valid)
    api.add_exception_handler(HTTPException, _from_framework)
    api.add_exception_handler(Exception, _broken)


def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    return answer(error.status, error.code, error.message, headers=error.headers)


def _from_service(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RlvrError)
    status, code = next(((status, code) for kind, status, code in _STATUS if isinstance(error, kind)), (500, 'failed'))
    fields = error.fields if isinstance(error, FieldsError) else ()
    headers = {'Retry-After': '1'} if status == 503 else None
    if status >= 500:
        _log.warning('%s %s: %s', request.method, request.url.path, error)
    return answer(status, code, f'{error.message}{"." if error.hint else ""} {error.hint}'.strip(), fields, headers)


def _not_valid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    items = error.errors()
    if any(item['type'] == 'json_invalid' for item in items):
        return answer(400, 'bad_json', f'The body is no JSON: {items[0]["ctx"]["error"]}')
    if isinstance(error.body, bytes):
        return answer(
            415, 'unsupported_media_type', 'Send the body as JSON, with the header Content-Type: application/json.'
        )
    fields = [*_body_fields(request, error), *(_plain(item) for item in items if item['loc'][0] != 'body')]
    first = f'{fields[0].loc}: {fields[0].msg}' if fields[0].loc else fields[0].msg
    return answer(422, 'invalid', f'The request is not valid: {first}', fields)


def _body_fields(request: Request, error: RequestValidationError) -> tuple[FieldError, ...]:
    """The bad fields of the body in the words that editor, importer and command line use too."""
    items = [item for item in error.errors() if item['loc'][0] == 'body']
    field = getattr(request.scope.get('route'), 'body_field', None)
    model = getattr(getattr(field, 'field_info', None), 'annotation', None)
    if not items or error.body is None:
        return tuple(_plain(item) if len(item['loc']) > 1 else _no_body() for item in items)
    if isinstance(model, type) and issubclass(model, BaseModel):
        try:
            validate(model, error.body)
        except Invalid as invalid:
            return invalid.fields
    return tuple(map(_plain, items))


def _no_body() -> FieldError:
    return FieldError(loc='', msg='A JSON body is needed here')


def _plain(item: Mapping[str, Any]) -> FieldError:
    message = 'Unknown parameter' if item['type'] == 'extra_forbidden' else str(item['msg'])
    return FieldError(loc='.'.join(map(str, item['loc'][1:])), msg=message.removeprefix('Value error, '))


def _from_framework(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = error.status_code
    message = {404: f'There is no {request.url.path} in the API. /docs lists what there is.'}.get(
        status, f'{HTTPStatus(status).phrase}: {request.method} {request.url.path}'
    )
    return answer(status, CODES.get(status, 'error'), message, headers=error.headers)


def _broken(request: Request, error: Exception) -> JSONResponse:
    # Starlette logs the trace after this answer.
    return answer(500, 'internal', 'Something in the studio broke. Its log has the trace.')
