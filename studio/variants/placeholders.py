"""``{placeholders}`` in a task, opt-in by name: where they stand, and the task with values in their place.

Only names that the author lists are replaced; every other brace of a task is text and stays byte for byte.
Braces around a listed name count in pairs, as in Python: ``{n}`` is the value, ``{{n}}`` is the text ``{n}``, and
``{{{n}}}`` is the value in braces. ``${n}`` belongs to the shell and is never replaced. Values are not looked at again:
braces in them are text. A name in single braces that is not listed is refused with its position, unless it is listed
as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from trainer.errors import FieldError, TaskError
from trainer.validation import Document

_NAME: Final = r'[A-Za-z_][A-Za-z0-9_]{0,63}'
_PLACEHOLDER: Final = re.compile(r'(?P<dollar>\$?)(?P<left>\{+)(?P<name>' + _NAME + r')(?P<right>\}+)')


class Template(Document):
    """What may hold placeholders: a title, a task_spec as typed, and solutions, all as plain JSON values."""

    title: str
    task_spec: dict[str, Any]
    solutions: tuple[dict[str, Any], ...] = ()


class Spot(Document):
    """One ``{name}`` of a task: the field it is in, and where in its text, counted from 1."""

    name: str
    loc: str
    line: int
    column: int
    is_shell: bool = False
    """Written ``${name}``: text of the shell, which is left alone."""

    @property
    def where(self) -> str:
        """The position in words."""
        return f'{self.loc}, line {self.line}, column {self.column}'


def is_name(text: str) -> bool:
    """Whether this can be the name of a placeholder: a letter or ``_``, then letters, digits and ``_``."""
    return re.fullmatch(_NAME, text) is not None


def spots(template: Template) -> tuple[Spot, ...]:
    """Every placeholder-like text of a task in reading order; doubled braces are text and not listed."""
    return tuple(spot for loc, text in _texts(template) for spot in _spots(loc, text))


def unknown(template: Template, names: Collection[str], kept: Collection[str] = ()) -> tuple[FieldError, ...]:
    """What stands in single braces and is neither listed as a placeholder nor as text, each with its position."""
    known = {*names, *kept}
    return tuple(
        FieldError(loc=spot.loc, msg=f'{{{spot.name}}} in line {spot.line}, column {spot.column} is not a column')
        for spot in spots(template)
        if not spot.is_shell and spot.name not in known
    )


def filled(template: Template, values: Mapping[str, str]) -> Template:
    """The task with values in place of their names. Raises ``TaskError`` where two files get the same name."""

    def fill(text: str) -> str:
        return fill_text(text, values)

    spec = template.task_spec
    new = {**spec}
    for name in ('prompt', 'setup_files', 'setup_commands'):
        if name in spec:
            new[name] = _mapped(spec[name], fill, name)
    checker = spec.get('checker')
    if isinstance(checker, dict) and 'config' in checker:
        new['checker'] = {**checker, 'config': _mapped(checker['config'], fill, 'checker.config')}
    solutions = [
        {
            key: value if key == 'kind' else _mapped(value, fill, f'solutions.{number}.{key}')
            for key, value in one.items()
        }
        for number, one in enumerate(template.solutions)
    ]
    return Template(title=fill(template.title), task_spec=new, solutions=tuple(solutions))


def fill_text(text: str, values: Mapping[str, str]) -> str:
    """One text with values in place of their names."""

    def value(match: re.Match[str]) -> str:
        name = match['name']
        if name not in values or match['dollar']:
            return match[0]
        pairs = min(len(match['left']), len(match['right']))
        inside = values[name] if pairs % 2 else name
        kept = pairs // 2
        left, right = match['left'][pairs:] + '{' * kept, '}' * kept + match['right'][pairs:]
        return left + inside + right

    return _PLACEHOLDER.sub(value, text)


def _spots(loc: str, text: str) -> Iterator[Spot]:
    for match in _PLACEHOLDER.finditer(text):
        if min(len(match['left']), len(match['right'])) % 2 == 0:
            continue
        start = match.start('name') - 1
        line = text.count('\n', 0, start) + 1
        column = start - (text.rfind('\n', 0, start) + 1) + 1
        yield Spot(name=match['name'], loc=loc, line=line, column=column, is_shell=bool(match['dollar']))


def _texts(template: Template) -> Iterator[tuple[str, str]]:
    """Every text that is filled, with the path of its field."""
    yield 'title', template.title
    spec = template.task_spec
    for name in ('prompt', 'setup_files', 'setup_commands'):
        yield from _inside(spec.get(name), name)
    checker = spec.get('checker')
    if isinstance(checker, dict):
        yield from _inside(checker.get('config'), 'checker.config')
    for number, solution in enumerate(template.solutions):
        for key, value in solution.items():
            if key != 'kind':
                yield from _inside(value, f'solutions.{number}.{key}')


def _inside(value: object, loc: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield loc, value
    elif isinstance(value, dict):
        for key, item in value.items():
            if _is_free(loc):
                yield f'{loc}.{key} (name)', key
            yield from _inside(item, f'{loc}.{key}')
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _inside(item, f'{loc}.{number}')


def _mapped(value: Any, fill: Callable[[str], str], loc: str) -> Any:
    if isinstance(value, str):
        # The tool of a step is a fixed word.
        return value if loc.endswith('.tool') else fill(value)
    if isinstance(value, dict):
        free = _is_free(loc)
        made: dict[str, Any] = {}
        for key, item in value.items():
            name = fill(key) if free else key
            if name in made:
                raise TaskError('Two files have one name', [FieldError(loc=loc, msg=f'two files are named {name!r}')])
            made[name] = _mapped(item, fill, f'{loc}.{key}')
        return made
    if isinstance(value, list | tuple):
        return [_mapped(item, fill, f'{loc}.{number}') for number, item in enumerate(value)]
    return value


def _is_free(loc: str) -> bool:
    """Whether the keys of this object are the author's (names of files) and not the format's."""
    return loc == 'setup_files' or re.fullmatch(r'solutions\.\d+\.files', loc) is not None
