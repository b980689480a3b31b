"""Tasks as JSON or JSONL: a bare ``task_spec`` or ``{"task_spec": …, "solutions": […]}`` an object."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from trainer.errors import TaskError
from trainer.manifest import parse_tasks, task_json
from trainer.task import TaskFile

Source = Path | str
"""A file, or the text itself."""


def read_tasks(source: Source) -> Iterator[tuple[int, TaskFile | TaskError]]:
    """Yield ``(line, task or the error that refused it)``; a bad line never stops the others."""
    if isinstance(source, Path):
        yield from parse_tasks(source)
        return
    with tempfile.NamedTemporaryFile(
        'w', encoding='utf-8', errors='surrogatepass', newline='', suffix='.jsonl'
    ) as file:
        file.write(source)
        file.flush()
        yield from parse_tasks(Path(file.name))


def write_tasks(tasks: Iterable[TaskFile]) -> str:
    """JSONL, one task a line, as ``read_tasks`` takes it."""
    return ''.join(json.dumps(task_json(task), ensure_ascii=False, allow_nan=False) + '\n' for task in tasks)
