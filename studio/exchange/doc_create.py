"""The body of ``POST /doc/create`` (spec section 9), read from a file and written to one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from studio.exchange.jsonl import read_task
from studio.exchange.pool import Found, Pool, Value
from trainer.errors import FieldError
from trainer.task import TaskFile

NAME: Final = 'doc-create'
_BESIDE: Final = {'autoParse', 'rawTrainingData', 'type', 'userid', 'title', 'topics', 'status', 'scope', 'workspaceid'}


def read(pool: Pool) -> Iterator[Found]:
    """Each document of ``data``; title, topics and status come along, user and workspace are the studio's own."""
    for value in pool.take(_is_body):
        if 'rawTrainingData' in value.data:
            yield _read(value, value.data, '')
            continue
        documents = value.data['data']
        if not isinstance(documents, list) or not documents:
            yield value.refused('a list of documents is needed here', format=NAME, loc='data')
            continue
        for position, document in enumerate(documents):
            yield _read(value, document, f'data.{position}')


def write(tasks: Iterable[TaskFile]) -> str:
    """One body for all tasks, to be published; solutions have no place in it."""
    data = [
        {
            'autoParse': True,
            'rawTrainingData': {'task_spec': task.task_spec.to_json()},
            'type': 'rlTask',
            'userid': 'local',
            'title': task.title,
            'topics': list(task.topics),
            'status': 'published',
            'scope': 'training',
        }
        for task in tasks
    ]
    return json.dumps({'workspaceid': 'local', 'data': data}, indent=2, ensure_ascii=False, allow_nan=False) + '\n'


def _is_body(value: Value) -> bool:
    data = value.data
    return isinstance(data, dict) and ('rawTrainingData' in data or ('data' in data and 'task_spec' not in data))


def _read(value: Value, document: Any, loc: str) -> Found:
    place = Value(value.source, f'{value.where}, {loc}' if loc else value.where, value.line)
    if not isinstance(document, dict):
        return place.refused('an object is needed here', format=NAME, loc=loc)
    problems = _problems(document, loc)
    raw = document.get('rawTrainingData')
    inner = raw if isinstance(raw, dict) else {}
    found = read_task(
        place,
        {'title': _text(document.get('title')), 'topics': _topics(document), 'task_spec': inner.get('task_spec')},
        format=NAME,
        status='published' if document.get('status') == 'published' else 'draft',
    )
    errors = [FieldError(loc=_at(loc, error.loc), msg=error.msg) for error in found.errors]
    if not problems and not errors:
        return found
    return Found(
        place.source, place.where, NAME, None, _text(document.get('title')), value.line, errors=(*problems, *errors)
    )


def _problems(document: dict[str, Any], loc: str) -> list[FieldError]:
    def at(name: str) -> str:
        return _at(loc, name)

    found = [FieldError(loc=at(name), msg=f'Unknown key {name!r}') for name in document if name not in _BESIDE]
    expected = (('type', 'rlTask'), ('scope', 'training'))
    for name, only in expected:
        if document.get(name, only) != only:
            found.append(FieldError(loc=at(name), msg=f'Only {only!r} can be imported, not {document[name]!r}'))
    if document.get('status', 'draft') not in ('draft', 'published'):
        found.append(FieldError(loc=at('status'), msg=f"'draft' or 'published' is needed, not {document['status']!r}"))
    if not isinstance(document.get('title', ''), str):
        found.append(FieldError(loc=at('title'), msg='A text is needed here'))
    topics = document.get('topics', [])
    if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
        found.append(FieldError(loc=at('topics'), msg='A list of texts is needed here'))
    return found


def _at(loc: str, name: str) -> str:
    inside = 'rawTrainingData' if name.startswith('task_spec') else ''
    return '.'.join(part for part in (loc, inside, name) if part)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ''


def _topics(document: dict[str, Any]) -> list[str]:
    topics = document.get('topics', [])
    return [topic for topic in topics if isinstance(topic, str)] if isinstance(topics, list) else []
