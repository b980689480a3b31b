"""OpenAI grader JSON with the JSONL rows of reinforcement fine-tuning: each row a task with a ``script`` checker.

The model answers in a file instead of a message: ``sample.output_text`` is what stands in answer.txt. String checks,
Python graders and multi graders made of them are carried over; a grader that asks a model is refused, for rewards here
are what a program can prove.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from studio.exchange.openai_grader import ANSWER, Grader, is_grader, missing_fields, read_grader
from studio.exchange.pool import Found, Pool, Value
from trainer.errors import FieldError, TaskError
from trainer.task import TaskFile, parse_task

NAME: Final = 'openai'
MAX_STEPS: Final = 8
ASK: Final = f'\n\nWrite your answer, and nothing else, to {ANSWER}.'
_ROLES: Final = ('system', 'developer', 'user', 'assistant')


def read(pool: Pool) -> Iterator[Found]:
    """The rows with the one grader that came along; without a grader, or with several, every row says so."""
    graders = pool.take(lambda value: _grader_of(value) is not None)
    rows = pool.take(_is_row)
    if not rows:
        for value in graders:
            text = 'a grader alone is no task: import it together with the JSONL of its rows'
            yield value.refused(text, format=NAME)
        return
    if len(graders) != 1:
        why = 'several graders came along: import the rows with one of them' if graders else _NO_GRADER
        for value in [*graders, *rows]:
            yield value.refused(why, format=NAME)
        return
    try:
        grader = read_grader(_grader_of(graders[0]))
    except TaskError as error:
        one = graders[0]
        yield Found(one.source, one.where, NAME, line=one.line, errors=error.fields)
        for value in rows:
            yield value.refused('its grader was refused', format=NAME)
        return
    for value in rows:
        yield _read_row(value, grader)


_NO_GRADER: Final = 'rows of fine-tuning need a grader: import its JSON together with them'


def _grader_of(value: Value) -> Any:
    """The grader in a value: bare, under ``grader``, or in the body of a fine-tuning job."""
    data = value.data
    for path in ((), ('grader',), ('method', 'reinforcement', 'grader'), ('reinforcement', 'grader')):
        found = data
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if is_grader(found):
            return found
    return None


def _is_row(value: Value) -> bool:
    return isinstance(value.data, dict) and 'messages' in value.data and 'task_spec' not in value.data


def _read_row(value: Value, grader: Grader) -> Found:
    row = value.data
    prompt, errors = _prompt(row['messages'])
    errors += [
        FieldError(loc=name, msg=f'The grader uses item.{name}, which this row does not have')
        for name in missing_fields(grader, row)
    ]
    title = _title(row['messages'])
    if errors:
        return Found(value.source, value.where, NAME, title=title, line=value.line, errors=tuple(errors))
    spec = {
        'prompt': prompt + ASK,
        'max_steps': MAX_STEPS,
        'checker': {'type': 'script', 'config': {'script': grader.script(row), 'protect': []}},
    }
    task = {'title': title, 'topics': ['openai'], 'task_spec': spec, 'solutions': _solutions(grader, row)}
    try:
        read_back: TaskFile = parse_task(task)[0]
    except TaskError as error:
        return Found(value.source, value.where, NAME, title=title, line=value.line, errors=error.fields)
    warnings = (f'the prompt ends with “{ASK.strip()}”: the answer is read from that file', *grader.warnings)
    return Found(value.source, value.where, NAME, read_back, title, value.line, warnings=warnings)


def _solutions(grader: Grader, row: dict[str, Any]) -> list[dict[str, Any]]:
    answer = grader.right_answer(row)
    if answer is None:
        return []
    step = {'tool': 'write_file', 'args': {'path': ANSWER, 'content': answer}}
    return [{'kind': 'reference', 'name': 'The reference of the row', 'steps': [step]}]


def _prompt(messages: Any) -> tuple[str, list[FieldError]]:
    """The messages as one prompt: a single user message as it is, others under the names of their roles."""
    if not isinstance(messages, list) or not messages:
        return '', [FieldError(loc='messages', msg='A list of messages is needed here')]
    parts: list[tuple[str, str]] = []
    errors: list[FieldError] = []
    for position, message in enumerate(messages):
        role = message.get('role') if isinstance(message, dict) else None
        text = _text(message.get('content')) if isinstance(message, dict) else None
        if role not in _ROLES:
            errors.append(FieldError(loc=f'messages.{position}.role', msg=f'One of {", ".join(_ROLES)} is needed'))
        elif text is None:
            errors.append(FieldError(loc=f'messages.{position}.content', msg='Only text can be imported'))
        else:
            parts.append((role, text))
    if not errors and parts[-1][0] != 'user':
        errors.append(FieldError(loc='messages', msg='The last message must be the user’s'))  # noqa: RUF001
    if (
        all(role in ('system', 'developer', 'user') for role, _ in parts)
        and [role for role, _ in parts].count('user') == 1
    ):
        return '\n\n'.join(text for _, text in parts), errors
    return '\n\n'.join(f'{role.capitalize()}:\n{text}' for role, text in parts), errors


def _text(content: Any) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get('text'), str) for part in content
    ):
        return '\n'.join(part['text'] for part in content)
    return None


def _title(messages: Any) -> str:
    texts: Sequence[str | None] = ()
    if isinstance(messages, list):
        texts = [_text(message.get('content')) for message in messages if isinstance(message, dict)]
    last = (texts[-1] if texts else '') or ''
    return next((line.strip()[:80] for line in last.splitlines() if line.strip()), 'Imported row')
