"""One way in for every document: validate against a model, report bad fields by their paths, note every clamp."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo
from pydantic_core import PydanticCustomError

from trainer.errors import FieldError


class Document(BaseModel):
    """Base of everything that is stored or exchanged: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra='forbid', populate_by_name=True)


Model = TypeVar('Model', bound=BaseModel)

MAX_ERRORS: Final = 100


class Invalid(ValueError):
    """Input that does not fit its model; ``fields`` has one entry for each bad field."""

    def __init__(self, fields: Iterable[FieldError]) -> None:
        self.fields = tuple(fields)
        super().__init__('; '.join(f'{field.loc}: {field.msg}' for field in self.fields))


def validate(model: type[Model], data: object, *, root: str = '') -> tuple[Model, tuple[FieldError, ...]]:
    """Validate ``data`` and return the model with the notes on what was changed on the way (clamped, normalised).

    Raises ``Invalid`` with the path of every bad field; ``root`` is put before each path.
    """
    notes: list[FieldError] = []
    try:
        value = model.model_validate(data, context={'notes': notes})
    except ValidationError as error:
        raise Invalid(field_errors(error, model, root=root)) from None
    return value, tuple(note.model_copy(update={'loc': _join(root, note.loc)}) for note in notes)


def note(info: ValidationInfo, loc: str, msg: str) -> None:
    """Record, from inside a validator, that a value was changed and how."""
    if info.context is not None:
        info.context['notes'].append(FieldError(loc=loc, msg=msg))


def field_errors(error: ValidationError, model: type[BaseModel], *, root: str = '') -> tuple[FieldError, ...]:
    """Turn pydantic's errors into field paths as they stand in the user's document.

    The tags that pydantic adds for discriminated unions are no keys of the document and are dropped; an unknown key
    gets a guess at the right name.
    """
    found = []
    items = error.errors(include_url=False)
    for item in items[:MAX_ERRORS]:
        # A list that lost its bad entries counts as too short as well: the bad entries say enough.
        if item['type'] == 'too_short' and any(_is_below(other['loc'], item['loc']) for other in items):
            continue
        path, owner = _resolve(model, item['loc'])
        path, message = _say(path, owner, item)
        found.append(FieldError(loc=_join(root, '.'.join(path)), msg=message[:1].upper() + message[1:]))
    return tuple(found)


def _is_below(loc: tuple[int | str, ...], other: tuple[int | str, ...]) -> bool:
    return len(loc) > len(other) and loc[: len(other)] == other


def at(path: str, msg: str) -> PydanticCustomError:
    """An error to raise in a validator for a field below its own: ``path`` goes on from there."""
    return PydanticCustomError('at', '{msg}', {'msg': msg, 'at': path})


def _say(path: list[str], owner: type[BaseModel] | None, item: Any) -> tuple[list[str], str]:
    """Where an error is and what to say of it."""
    kind, context = item['type'], item.get('ctx', {})
    if kind == 'extra_forbidden':
        return path, _unknown_key(path[-1], owner)
    if kind in ('union_tag_invalid', 'union_tag_not_found'):
        return _union_tag(path, item)
    if kind == 'at':
        return [*(part for part in path if part), *context['at'].split('.')], context['msg']
    plain = {
        'missing': 'This field is required',
        'model_type': 'An object is needed here',
        'model_attributes_type': 'An object is needed here',
        'dict_type': 'An object is needed here',
        'tuple_type': 'A list is needed here',
        'list_type': 'A list is needed here',
        'too_short': f'At least {context.get("min_length")} needed',
        'too_long': f'At most {context.get("max_length")} allowed',
    }
    return path, plain.get(kind, item['msg'].removeprefix('Value error, '))


def _join(root: str, path: str) -> str:
    return '.'.join(part for part in (root, path) if part)


def _resolve(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[list[str], type[BaseModel] | None]:
    """Walk ``loc`` through the annotations; return the path without union tags and the model that owns its last key."""
    path: list[str] = []
    current: Any = model
    owner: type[BaseModel] | None = model
    for part in loc:
        current = _plain(current)
        members = _union_members(current)
        if members and (chosen := _by_tag(members, part)) is not None:
            current = owner = chosen
            continue
        owner = current if isinstance(current, type) and issubclass(current, BaseModel) else None
        path.append(str(part))
        current = _step(current, part)
    return path or [''], owner


def _plain(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    members = [member for member in get_args(annotation) if member is not type(None)]
    if get_origin(annotation) in (Union, types.UnionType) and len(members) == 1:
        return _plain(members[0])
    return annotation


def _union_members(annotation: Any) -> list[type[BaseModel]]:
    if get_origin(annotation) not in (Union, types.UnionType):
        return []
    members = (_plain(member) for member in get_args(annotation))
    return [member for member in members if isinstance(member, type) and issubclass(member, BaseModel)]


def _by_tag(members: list[type[BaseModel]], tag: int | str) -> type[BaseModel] | None:
    for member in members:
        if any(tag in get_args(field.annotation) for field in member.model_fields.values()):
            return member
    return None


def _step(annotation: Any, part: int | str) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            if part in (name, field.alias):
                return field.annotation
        return Any
    inner = [argument for argument in get_args(annotation) if argument is not Ellipsis]
    return inner[-1] if inner else Any


def _unknown_key(key: str, owner: type[BaseModel] | None) -> str:
    names = [field.alias or name for name, field in owner.model_fields.items()] if owner else []
    guess = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
    if guess:
        return f'unknown key {key!r}: did you mean {guess[0]!r}?'
    return f'unknown key {key!r}' + (f': the keys here are {", ".join(names)}' if names else '')


def _union_tag(path: list[str], item: Any) -> tuple[list[str], str]:
    context = item.get('ctx', {})
    field = str(context.get('discriminator', 'type')).strip("'")
    expected = context.get('expected_tags', '')
    where = [part for part in path if part] + [field]
    if 'tag' not in context:
        return where, 'This field is required'
    names = [name.strip().strip("'") for name in expected.split(',')]
    guess = difflib.get_close_matches(context['tag'], names, n=1, cutoff=0.6)
    hint = f'did you mean {guess[0]!r}? Choose' if guess else 'choose'
    return where, f'{context["tag"]!r} is not known: {hint} one of {", ".join(names)}'
