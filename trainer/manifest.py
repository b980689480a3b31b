"""The manifest: the frozen tasks of a run, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from trainer.errors import FieldError, TaskError
from trainer.task import TaskFile, parse_task

MAX_LINE_BYTES = 8 * 1024**2


def freeze(task: TaskFile, *, fallback_id: str) -> TaskFile:
    """A copy bound to its content: id and hash filled in."""
    return task.model_copy(update={'id': task.id or fallback_id, 'hash': task.task_spec.hash})


def write_manifest(path: Path, tasks: Iterable[TaskFile]) -> None:
    """Write frozen copies of tasks; ids that are missing are numbered."""
    with path.open('w', encoding='utf-8', newline='\n') as file:
        for number, task in enumerate(tasks, start=1):
            frozen = freeze(task, fallback_id=f'task-{number}')
            file.write(json.dumps(task_json(frozen), ensure_ascii=False, allow_nan=False) + '\n')


def task_json(task: TaskFile) -> dict[str, object]:
    """A task as plain JSON values: what is empty is left out, the spec is whole."""
    data = task.model_dump(mode='json', exclude_defaults=True, exclude={'task_spec'})
    return {**data, 'task_spec': task.task_spec.to_json()}


def read_manifest(path: Path) -> list[TaskFile]:
    """Read every task of a JSONL (or single JSON) file. Raises ``TaskError`` that names line and field."""
    tasks = []
    problems: list[FieldError] = []
    for line, task in parse_tasks(path):
        if isinstance(task, TaskError):
            problems += [FieldError(loc=_at(line, field), msg=field.msg) for field in task.fields]
        else:
            tasks.append(freeze(task, fallback_id=f'task-{line}'))
    if problems:
        first = problems[0]
        raise TaskError(f'{path.name}, {first.loc}: {first.msg}', problems)
    if not tasks:
        raise TaskError(f'{path.name} holds no task')
    return tasks


def _at(line: int, field: FieldError) -> str:
    return f'line {line}: {field.loc}' if field.loc else f'line {line}'


def parse_tasks(path: Path) -> Iterator[tuple[int, TaskFile | TaskError]]:
    """Yield ``(line number, task or the error that refused it)`` of a JSON or JSONL file; never stops at a bad line."""
    try:
        text = path.read_text(encoding='utf-8-sig')
    except UnicodeDecodeError as error:
        yield 1, _refused(f'not UTF-8 at byte {error.start}')
        return
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if isinstance(whole, dict):
        yield 1, _parse(whole)
        return
    for number, line in enumerate(text.split('\n'), start=1):
        if line.strip():
            yield number, _parse_line(line)


def _parse_line(line: str) -> TaskFile | TaskError:
    if len(line.encode('utf-8', 'surrogatepass')) > MAX_LINE_BYTES:
        return _refused(f'longer than {MAX_LINE_BYTES // 1024**2} MB')
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        return _refused(f'not JSON: {error}')
    return _parse(data)


def _parse(data: object) -> TaskFile | TaskError:
    try:
        return parse_task(data)[0]
    except TaskError as error:
        return error


def _refused(message: str) -> TaskError:
    return TaskError(message, [FieldError(loc='', msg=message[:1].upper() + message[1:])])
