"""Tasks as JSON or JSONL: a bare ``task_spec`` or a full document (the manifest format) an object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from studio.exchange.pool import Found, Pool, Value
from trainer.errors import TaskError
from trainer.manifest import task_json
from trainer.task import TaskFile, parse_task

NAME: Final = 'jsonl'


def read(pool: Pool) -> Iterator[Found]:
    """Every JSON value that no other format took; a bad line never stops the others."""
    for value in pool.take(lambda _: True):
        if value.inside and not value.error and not _is_like_a_task(value.data):
            pool.skipped.append(value.where)
        else:
            yield read_task(value, value.data)


def read_task(value: Value, data: Any, *, format: str = NAME, **beside: Any) -> Found:
    """Validate one task that stands at ``value``; ``beside`` are further fields of the row."""
    if value.error:
        return value.refused(value.error, format=format)
    try:
        task, notes = parse_task(data)
    except TaskError as error:
        title = data.get('title') if isinstance(data, dict) else None
        title = title if isinstance(title, str) else ''
        return Found(value.source, value.where, format, title=title, line=value.line, errors=error.fields)
    warnings = tuple(f'{note.loc} {note.msg}' for note in notes)
    return Found(value.source, value.where, format, task, task.title, value.line, warnings=warnings, **beside)


def write(tasks: Iterable[TaskFile]) -> str:
    """JSONL of full documents, one a line, as ``read`` takes it."""
    return _lines(task_json(task.model_copy(update={'hash': '', 'version': None})) for task in tasks)


def write_specs(tasks: Iterable[TaskFile]) -> str:
    """Bare ``task_spec``s: one as readable JSON, several as JSONL."""
    specs = [task.task_spec.to_json() for task in tasks]
    if len(specs) == 1:
        return json.dumps(specs[0], indent=2, ensure_ascii=False, allow_nan=False) + '\n'
    return _lines(specs)


def _is_like_a_task(data: Any) -> bool:
    return isinstance(data, dict) and bool({'task_spec', 'prompt', 'checker'} & data.keys())


def _lines(rows: Iterable[object]) -> str:
    return ''.join(json.dumps(row, ensure_ascii=False, allow_nan=False) + '\n' for row in rows)
