"""Comparisons in the author's tests, guarded against objects that agree with everything.

Numbers, texts and plain containers compare as ever. An object of another type that claims to equal a value is asked
about decoys too: what also equals a fresh object or far-off numbers and texts is forged. Honest types (fractions,
dataclasses, arrays, money) know the difference.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator
from typing import Any

PLAIN = frozenset((int, float, complex, bool, str, bytes, bytearray, type(None), type(Ellipsis), range, slice, type))
CONTAINERS = (list, tuple, set, frozenset)
MAX_NODES = 100_000
MAX_SUSPECTS = 50

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    '==': operator.eq,
    '!=': operator.ne,
    '<': operator.lt,
    '<=': operator.le,
    '>': operator.gt,
    '>=': operator.ge,
    'in': lambda left, right: left in right,
    'not in': lambda left, right: left not in right,
}
FLOOR, CEILING = -1e30, 1e30


def make_compare(forged: Callable[[str], object], matches_any: bool = False) -> Callable[[str, Any, Any], Any]:
    """The function that stands for a comparison operator.

    ``forged`` is called with what was caught; ``matches_any`` says that the author's own tests use ``mock.ANY``.
    """

    def compare(symbol: str, left: Any, right: Any) -> Any:
        if type(left) in PLAIN and type(right) in PLAIN:
            return OPERATORS[symbol](left, right)
        # Asked before and after: an object that remembers what it met first has met a decoy.
        kind = suspect(symbol, left, right, matches_any)
        result = OPERATORS[symbol](left, right)
        kind = kind or suspect(symbol, left, right, matches_any)
        if kind:
            forged(f'an object of type {kind} agrees with everything')
            return symbol in ('!=', 'not in')
        return result

    return compare


def suspect(symbol: str, left: Any, right: Any, matches_any: bool = False) -> str:
    """The name of a type in a comparison that agrees with everything, or an empty text."""
    if symbol in ('<', '<=', '>', '>='):
        sides = [value for value in (left, right) if type(value) not in PLAIN and not isinstance(value, CONTAINERS)]
        return next((_name(side) for side in sides if _orders_everything(side)), '')
    searched = symbol in ('in', 'not in') and type(right) not in (*PLAIN, *CONTAINERS, dict)
    if searched and _answer(_holds, right, object()):
        return _name(right)
    suspects: list[Any] = []
    for value in _leaves(left, right):
        if len(suspects) == MAX_SUSPECTS:
            break
        if not (matches_any and _name(value) == '_ANY') and not any(value is other for other in suspects):
            suspects.append(value)
    return next((_name(value) for value in suspects if _equals_everything(value)), '')


def _leaves(*roots: Any) -> Iterator[Any]:
    """Everything inside lists, tuples, sets and dicts that is not of a plain type."""
    todo = list(roots)
    seen = 0
    while todo and seen < MAX_NODES:
        value = todo.pop()
        seen += 1
        kind = type(value)
        if kind in PLAIN:
            continue
        if kind in CONTAINERS:
            if not PLAIN.issuperset(map(type, value)):
                todo.extend(value)
            continue
        if kind is dict:
            todo.extend((list(value), list(value.values())))
            continue
        if isinstance(value, CONTAINERS):
            todo.extend(iter_plain(value))
        elif isinstance(value, dict):
            todo.extend(dict.keys(value))
            todo.extend(dict.values(value))
        yield value


def _holds(container: Any, value: Any) -> Any:
    return value in container


def iter_plain(value: Any) -> list[Any]:
    """The elements of a container by its builtin base, whatever its own ``__iter__`` says."""
    base = next(base for base in CONTAINERS if isinstance(value, base))
    return list(base.__iter__(value))


def _equals_everything(value: Any) -> bool:
    """Whether a value equals two neighbours at once, near or far: nothing honest does, not even modular numbers."""
    far = random.randrange(10**12, 10**15)
    near = random.randrange(5, 50)
    pairs: list[tuple[Any, Any]] = [(start, start + 1) for start in (far, near, -near, 2 * near)]
    pairs += [(0.5, 1.5), (float(far), -0.25), ('a', 'b'), ('', f'decoy {far}'), (b'a', b'b')]
    pairs += [([far], [far + 1]), ([], [1]), ({}, {far: far}), ((), (far,)), (object(), object())]
    for one, other in pairs:
        if _answer(operator.eq, value, one) and _answer(operator.eq, value, other):
            return True
        if _answer(operator.ne, one, value) is False and _answer(operator.ne, other, value) is False:
            return True
    return False


def _orders_everything(value: Any) -> bool:
    below, above = _answer(operator.lt, value, FLOOR), _answer(operator.gt, value, CEILING)
    if (below and above) or (_answer(operator.le, value, FLOOR) and _answer(operator.ge, value, CEILING)):
        return True
    return bool(below or above) and type(value).__module__ not in ('decimal', 'fractions', 'numpy')


def _answer(question: Callable[[Any, Any], Any], left: Any, right: Any) -> bool | None:
    """What a comparison says as a truth value; ``None`` where it raises or answers with an array."""
    try:
        answer = question(left, right)
        return None if type(answer).__module__ == 'numpy' else bool(answer)
    except Exception:
        return None


def _name(value: Any) -> str:
    return type(value).__name__
