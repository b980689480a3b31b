"""In what two adapter versions differ, in words: base, training, settings, tasks, libraries, files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from studio.adapters.views import AdapterVersionView, Comparison, Difference

_TOP = (('Base model', 'model'), ('Run', 'run_name'), ('Step', 'step'), ('LoRA rank', 'rank'))
_METHODS = {'grpoTraining': 'GRPO', 'conversationalTraining': 'SFT'}


def compare(a: AdapterVersionView, b: AdapterVersionView) -> Comparison:
    """Put two versions beside each other; what is the same in both is left out."""
    rows = [
        Difference(field=field, a=_word(old), b=_word(new))
        for (field, old), (_, new) in zip(_facts(a), _facts(b), strict=True)
        if old != new
    ]
    for title, key in (('Plan', 'plan'), ('Setting', 'settings'), ('Library', 'libraries')):
        rows += _nested(title, a.lineage.get(key), b.lineage.get(key))
    rows += [*_tasks('Task', a, b, 'tasks'), *_tasks('Held-out task', a, b, 'held_out')]
    return Comparison(a=a, b=b, differences=tuple(rows), same_tasks=_measured(a) == _measured(b) != frozenset())


def _facts(view: AdapterVersionView) -> list[tuple[str, Any]]:
    lineage = view.lineage
    model, run = (_mapping(lineage.get(key)) for key in ('model', 'run'))
    facts: list[tuple[str, Any]] = [(title, getattr(view, name)) for title, name in _TOP]
    facts.append(('Base revision', model.get('revision') or None))
    facts.append(('Base sha256', f'{str(model["sha256"])[:16]}…' if model.get('sha256') else None))
    facts.append(('Training', _METHODS.get(str(run.get('training_type')))))
    cold = _mapping(lineage.get('cold_start'))
    facts.append(('Cold start', f'{cold.get("epochs", "?")} epochs' if cold else None))
    facts.append(('Size', f'{view.size:,} bytes'))
    facts.append(('Weights sha256', f'{view.sha256[:16]}…'))
    return facts


def _nested(title: str, a: Any, b: Any) -> Iterator[Difference]:
    """Keys in which two mappings differ, dotted."""
    old, new = dict(_flat(_mapping(a))), dict(_flat(_mapping(b)))
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield Difference(field=f'{title} {key}', a=_word(old.get(key)), b=_word(new.get(key)))


def _tasks(title: str, a: AdapterVersionView, b: AdapterVersionView, key: str) -> Iterator[Difference]:
    old, new = (_by_id(view.lineage.get(key)) for view in (a, b))
    for id in dict.fromkeys((*old, *new)):
        first, second = old.get(id), new.get(id)
        if (first or {}).get('hash') != (second or {}).get('hash'):
            name = str((second or first or {}).get('title') or id)
            yield Difference(field=f'{title} {name}', a=_task(first), b=_task(second))


def _task(task: dict[str, Any] | None) -> str:
    if task is None:
        return ''
    number = f'v{task["version"]} · ' if task.get('version') else ''
    return f'{number}{str(task.get("hash") or "")[:8]}'


def _by_id(tasks: Any) -> dict[str, dict[str, Any]]:
    listed = tasks if isinstance(tasks, list) else []
    return {str(task.get('id')): task for task in listed if isinstance(task, dict)}


def _measured(view: AdapterVersionView) -> frozenset[str]:
    return frozenset(task.id for task in view.after.tasks) if view.after else frozenset()


def _flat(data: dict[str, Any], prefix: str = '') -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f'{prefix}{key}.')
        else:
            yield f'{prefix}{key}', value


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(value: Any) -> str:
    if value is None:
        return ''
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
