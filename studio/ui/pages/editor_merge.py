"""Two changes of one document made apart: what each changed, and both together where they do not meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_GONE: Final = object()
_BY_KEY: Final = ('', 'task_spec', 'task_spec.setup_files')
"""Mappings whose entries may be changed apart; everything else is one piece."""


def changed_parts(before: object, after: object, where: str = '') -> tuple[str, ...]:
    """Names of the parts in which two states differ, as in ``title`` or ``task_spec.setup_files.a.py``."""
    if before == after:
        return ()
    if where in _BY_KEY and isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = dict.fromkeys([*before, *after])
        found = (changed_parts(before.get(key, _GONE), after.get(key, _GONE), _join(where, key)) for key in keys)
        return tuple(name for names in found for name in names)
    return (where,)


def merge(base: Any, mine: Any, theirs: Any, where: str = '') -> tuple[Any, tuple[str, ...]]:
    """Take each part from the side that changed it; return the whole and the names of parts that both changed.

    Where both changed a part, the whole has mine.
    """
    if mine in (base, theirs):
        return theirs, ()
    if theirs == base:
        return mine, ()
    if where not in _BY_KEY or not all(isinstance(side, Mapping) for side in (base, mine, theirs)):
        return mine, (where,)
    whole: dict[str, Any] = {}
    clashes: list[str] = []
    for key in dict.fromkeys([*theirs, *mine]):
        value, found = merge(base.get(key, _GONE), mine.get(key, _GONE), theirs.get(key, _GONE), _join(where, key))
        clashes += found
        if value is not _GONE:
            whole[key] = value
    return whole, tuple(clashes)


def _join(where: str, key: str) -> str:
    return f'{where}.{key}' if where else key
