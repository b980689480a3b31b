"""``/health``: that the studio answers, its version, and whether it asks for keys."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import Field

from studio.api.access import MAKE_ONE, OPEN, KeyedRoute, StudioOf, is_open
from studio.api.errors import ErrorBody
from trainer import __version__
from trainer.validation import Document

router = APIRouter(tags=['Health'], route_class=KeyedRoute)


class Health(Document):
    """``access`` is ``open`` while no key exists; ``warning`` says what that means."""

    status: Literal['ok'] = 'ok'
    version: str
    access: Literal['open', 'key']
    warning: str | None = Field(default=None)


@router.get('/health', responses={500: {'model': ErrorBody}, 503: {'model': ErrorBody}})
def health(studio: StudioOf) -> Health:
    """Whether the studio answers; needs no key."""
    if is_open(studio):
        return Health(version=__version__, access='open', warning=f'{OPEN[:1].upper()}{OPEN[1:]}. {MAKE_ONE}')
    return Health(version=__version__, access='key')
