"""What differs between two states of a task: one unified diff for each field and file, marks for what is invisible."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, Literal

from nicegui import ui

from studio.ui.components.elements import Icon, Text
from studio.ui.components.wording import MINUS

CONTEXT: Final = 3
SHOWN_LINES: Final = 300
SHOWN_CHARS: Final = 500
COMPARED_LINES: Final = 3000
"""Longer stretches are shown as replaced whole: comparing them line by line would take seconds."""

_NESTED: Final = ('', 'setup_files', 'checker', 'checker.config')


@dataclass(frozen=True)
class Line:
    """One line of a diff; numbers count from 1, ``None`` where the line is not on that side."""

    kind: Literal['same', 'added', 'deleted', 'gap']
    text: str
    old: int | None = None
    new: int | None = None


@dataclass(frozen=True)
class Change:
    """One field or file that differs; ``None`` where it is not there at all."""

    name: str
    before: str | None
    after: str | None

    @property
    def mark(self) -> str:
        """``A`` added, ``D`` deleted, ``M`` modified."""
        return 'A' if self.before is None else 'D' if self.after is None else 'M'


def spec_changes(before: Mapping[str, Any], after: Mapping[str, Any], where: str = '') -> list[Change]:
    """What differs between two specs, by field; each setup file is a field of its own."""
    found = []
    for key in dict.fromkeys([*before, *after]):
        name = f'{where}.{key}' if where else key
        old, new = before.get(key), after.get(key)
        if old == new and (key in before) == (key in after):
            continue
        if name in _NESTED and all(isinstance(side, Mapping) or side is None for side in (old, new)):
            found += spec_changes(old or {}, new or {}, name)
        else:
            sides = [_text(side[key]) if key in side else None for side in (before, after)]
            found.append(Change(name.removeprefix('setup_files.'), *sides))
    return found


def diff_lines(before: str, after: str) -> list[Line]:
    """The lines that differ with a little around them; ``gap`` stands for equal lines that are left out."""
    old, new = before.split('\n') if before else [], after.split('\n') if after else []
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    lines = [Line('same', text, i + 1, i + 1) for i, text in enumerate(old[:head])]
    for kind, a1, a2, b1, b2 in _opcodes(a, b):
        if kind == 'equal':
            lines += [Line('same', a[i], head + i + 1, head + b1 + i - a1 + 1) for i in range(a1, a2)]
        else:
            lines += [Line('deleted', a[i], old=head + i + 1) for i in range(a1, a2)]
            lines += [Line('added', b[i], new=head + i + 1) for i in range(b1, b2)]
    first, other = len(old) - tail, len(new) - tail
    lines += [Line('same', old[first + i], first + i + 1, other + i + 1) for i in range(tail)]
    return _near_changes(lines)


def draw_changes(changes: Sequence[Change], *, nothing: str) -> None:
    """Draw every change under its name; ``nothing`` is said where there is none."""
    if not changes:
        with ui.element('div').classes('empty small'):
            Icon('equal', 'ic-l t3')
            Text(nothing, classes='t2')
    for change in changes:
        _draw(change)


def _draw(change: Change) -> None:
    color, word = {'A': ('c-ok', 'Added'), 'M': ('c-warn', 'Changed'), 'D': ('c-bad', 'Deleted')}[change.mark]
    lines = diff_lines(change.before or '', change.after or '')
    added, deleted = (sum(line.kind == kind for line in lines) for kind in ('added', 'deleted'))
    with ui.element('section').classes('change'):
        with ui.element('div').classes('top'):
            Text(change.mark, classes=f'mk {color}').props['title'] = word
            Text(change.name, 'h3', 'mono ell').props['title'] = change.name
            Text(f'+{added}', classes='c-ok num t-small')
            Text(f'{MINUS}{deleted}', classes='c-bad num t-small')
        with ui.element('div').classes('diff lined').props('role=region tabindex=0') as box:
            box.props['aria-label'] = f'Changes of {change.name}'
            for line in lines[:SHOWN_LINES]:
                _draw_line(line)
        if len(lines) > SHOWN_LINES:
            Text(f'{len(lines) - SHOWN_LINES:,} more lines', 'div', 't3 t-small pad')


def _draw_line(line: Line) -> None:
    sign, kind = {'same': ('', ''), 'added': ('+', 'a'), 'deleted': (MINUS, 'd'), 'gap': ('', 'h')}[line.kind]
    with ui.element('div').classes(kind):
        Text('' if line.old is None else str(line.old), classes='no num')
        Text('' if line.new is None else str(line.new), classes='no num')
        Text(sign, 'i')
        Text(_visible(line) if line.kind in ('added', 'deleted') else line.text[:SHOWN_CHARS].rstrip('\r'))


def _visible(line: Line) -> str:
    """A changed line with marks for what cannot be seen: blanks at its end and a carriage return."""
    text = line.text[:SHOWN_CHARS]
    body = text.rstrip(' \t\r')
    marks = {' ': '·', '\t': '⇥', '\r': '␍'}
    return body + ''.join(marks[blank] for blank in text[len(body) :]) + ('…' if len(line.text) > SHOWN_CHARS else '')


def _near_changes(lines: list[Line]) -> list[Line]:
    near = {
        position
        for center, line in enumerate(lines)
        if line.kind != 'same'
        for position in range(center - CONTEXT, center + CONTEXT + 1)
    }
    shown: list[Line] = []
    left_out = 0
    for position, line in enumerate(lines):
        if position not in near:
            left_out += 1
            continue
        if left_out:
            shown.append(_gap(left_out))
            left_out = 0
        shown.append(line)
    return [*shown, _gap(left_out)] if left_out and shown else shown


def _gap(count: int) -> Line:
    return Line('gap', f'{count} equal {"line" if count == 1 else "lines"}')


def _opcodes(a: list[str], b: list[str]) -> list[tuple[str, int, int, int, int]]:
    if not a and not b:
        return []
    if max(len(a), len(b)) > COMPARED_LINES:
        return [('replace', 0, len(a), 0, len(b))]
    return list(SequenceMatcher(None, a, b).get_opcodes())


def _common(left: list[str], right: list[str]) -> int:
    """How many items two lists have in common at their start."""
    return next((i for i, (one, other) in enumerate(zip(left, right, strict=False)) if one != other),
                min(len(left), len(right)))  # fmt: skip


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return '\n'.join(value)
    return json.dumps(value, indent=2, ensure_ascii=False)
