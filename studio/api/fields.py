"""Kinds of fields that the bodies, paths and answers of the API share."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import Path
from pydantic import AfterValidator, BaseModel, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue

from studio.errors import NotFound

_ID: Final = re.compile('[0-9A-HJKMNP-TV-Z]{26}')


class _ShownAs:
    """Documents a raw object as a model: the service validates it, and says with paths what it changed."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(self._model.__pydantic_core_schema__)


def shown_as(model: type[BaseModel]) -> _ShownAs:
    """Metadata of a field that takes any object and is documented as a model."""
    return _ShownAs(model)


def _known(id: str) -> str:
    if not _ID.fullmatch(id):
        raise NotFound(f'There is nothing with the id {id[:64]!r}', hint='Ids have 26 letters and digits.')
    return id


def _label(text: str) -> str:
    if '\0' in text:
        raise ValueError('A text cannot hold a NUL character')
    return text


Id = Annotated[
    str,
    Path(
        description='Id, as lists and answers show it.',
        examples=['01K0A7Z9E5T3G8W4R6Q2M1N0PX'],
        json_schema_extra={'pattern': f'^{_ID.pattern}$'},
    ),
    AfterValidator(_known),
]
"""An id in a path: what is not spelt like one is not found, and never reaches a file system."""

Label = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_label)]
"""A short free text, such as the id of a user in another system."""
