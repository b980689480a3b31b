"""Demonstrations for the cold start: chats with tool calls, replayed from reference solutions or read from a JSONL.

A replayed chat shows what a careful model would have done: one call a turn, and what the sandbox really answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from trainer.attempt import attempt
from trainer.errors import ConfigError, FieldError
from trainer.sandbox import Isolation, SandboxScope
from trainer.sandbox.python_env import PythonEnvironment
from trainer.task import Solution, Step, TaskFile
from trainer.tools import TOOL_NAMES, TOOL_SCHEMAS
from trainer.validation import Document, Invalid, at, validate

FINAL_WORDS: Final = 'Done.'
SHOWN_KINDS: Final = ('reference', 'alternative')
"""Solutions that must earn everything, and so may be shown to a model."""
WAIT_S: Final = 0.2
MAX_LINE_BYTES: Final = 8 * 1024**2
_PARAMETERS: Final = {
    schema['function']['name']: tuple(schema['function']['parameters']['required']) for schema in TOOL_SCHEMAS
}


class Function(Document):
    """Which tool is called, with which arguments; arguments may be an object or the text of one."""

    name: str
    arguments: dict[str, str]

    @field_validator('arguments', mode='before')
    @classmethod
    def _from_text(cls, arguments: object) -> object:
        if not isinstance(arguments, str):
            return arguments
        try:
            return json.loads(arguments)
        except ValueError as error:
            raise ValueError(f'the arguments are no JSON: {error}') from None

    @model_validator(mode='after')
    def _fits_a_tool(self) -> Self:
        if self.name not in TOOL_NAMES:
            raise at('name', f'There is no tool {self.name!r}: choose one of {", ".join(TOOL_NAMES)}')
        wanted = _PARAMETERS[self.name]
        if set(self.arguments) != set(wanted):
            raise at('arguments', f'Give {self.name} exactly the arguments {", ".join(wanted)}')
        return self


class Call(Document):
    """One tool call of an assistant's turn."""

    type: Literal['function'] = 'function'
    id: str = ''
    function: Function


class Said(Document):
    """What a system or a user says."""

    role: Literal['system', 'user']
    content: str


class Turn(Document):
    """What the assistant says and calls."""

    role: Literal['assistant']
    content: str = ''
    tool_calls: tuple[Call, ...] = ()

    @field_validator('content', mode='before')
    @classmethod
    def _nothing_said(cls, content: object) -> object:
        return '' if content is None else content


class Answer(Document):
    """What a tool answered; in the order of the calls."""

    role: Literal['tool']
    content: str
    name: str = ''
    tool_call_id: str = ''


Message = Annotated[Said | Turn | Answer, Field(discriminator='role')]


class Demonstration(Document):
    """One chat: what the user asks (a system message may stand before), then turns, each call answered."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] | None = Field(
        default=None, description='Ignored: a run always shows its four tools.'
    )

    @model_validator(mode='after')
    def _is_a_chat(self) -> Self:
        if len(self.messages) < 2:
            raise at('messages', 'A chat needs a request and an answer')
        opening = 2 if isinstance(self.messages[0], Said) and self.messages[0].role == 'system' else 1
        if any(not isinstance(message, Said) for message in self.messages[:opening]):
            raise at('messages.0', 'A chat opens with what the user asks')
        unanswered: list[Call] = []
        for place, message in enumerate(self.messages[opening:], start=opening):
            where = f'messages.{place}'
            if isinstance(message, Said):
                raise at(where, 'Only the assistant and its tools speak after the first request')
            if isinstance(message, Turn):
                if unanswered:
                    raise at(where, f'The call of {unanswered[0].function.name} before it has no answer')
                unanswered = list(message.tool_calls)
            elif not unanswered:
                raise at(where, 'This tool answers no call')
            else:
                unanswered.pop(0)
        if not isinstance(self.messages[-1], Turn) or self.messages[-1].tool_calls:
            raise at(f'messages.{len(self.messages) - 1}', 'A chat ends with words of the assistant and no tool call')
        return self

    def chat(self, cut: Callable[[str], str]) -> list[dict[str, Any]]:
        """The messages as chat templates take them; ``cut`` shortens the answers of tools."""
        told: list[dict[str, Any]] = []
        names: list[str] = []
        for message in self.messages:
            if isinstance(message, Turn):
                names = [call.function.name for call in message.tool_calls]
                calls = [{'type': 'function', 'function': call.function.model_dump()} for call in message.tool_calls]
                told.append(
                    {'role': 'assistant', 'content': message.content} | ({'tool_calls': calls} if calls else {})
                )
            elif isinstance(message, Answer):
                told.append({'role': 'tool', 'name': names.pop(0), 'content': cut(message.content)})
            else:
                told.append({'role': message.role, 'content': message.content})
        return told


def replayed(
    tasks: Iterable[TaskFile],
    *,
    home: Path,
    isolation: Isolation,
    environment: PythonEnvironment,
    workers: int = 4,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[list[Demonstration], list[str]]:
    """Replay the reference and alternative solutions of tasks; return the chats and what was left out, in words.

    A solution that does not earn everything any more teaches the wrong thing: it is left out. When ``stop`` says so,
    all of it is given up, and nothing is shown.
    """
    shown = [(task, solution) for task in tasks for solution in task.solutions if solution.kind in SHOWN_KINDS]

    scope = SandboxScope()

    def replay(task: TaskFile, solution: Solution) -> Demonstration | str:
        steps = _calls(solution)
        with scope.entered():
            made = attempt(task.task_spec, steps, home=home, isolation=isolation, environment=environment)
        if not made.verdict.solved:
            return f'{task.title or task.id}: its {solution.kind} solution earns no 1.0 ({made.verdict.reason})'
        told: list[Any] = [Said(role='user', content=task.task_spec.prompt)]
        for record in made.steps:
            function = Function(name=record.tool, arguments=record.args)
            told.append(Turn(role='assistant', tool_calls=(Call(function=function),)))
            told.append(Answer(role='tool', name=record.tool, content=record.result))
        return Demonstration(messages=(*told, Turn(role='assistant', content=FINAL_WORDS)))

    with ThreadPoolExecutor(workers, thread_name_prefix='demonstration') as pool:
        replays = [pool.submit(replay, task, solution) for task, solution in shown]
        while wait(replays, timeout=WAIT_S).not_done:
            if stop():
                scope.end()
                pool.shutdown(cancel_futures=True)
                return [], []
        results = [one.result() for one in replays]
    return [one for one in results if isinstance(one, Demonstration)], [one for one in results if isinstance(one, str)]


def read_demonstrations(path: Path) -> list[Demonstration]:
    """Read a JSONL of chats. Raises ``ConfigError`` that names line and field of everything that is wrong."""
    found: list[Demonstration] = []
    problems: list[FieldError] = []
    for number, line in _lines(path):
        try:
            found.append(_parse(line))
        except Invalid as invalid:
            problems += [
                FieldError(loc=f'line {number}: {field.loc}' if field.loc else f'line {number}', msg=field.msg)
                for field in invalid.fields
            ]
    if problems:
        raise ConfigError(f'{path.name}, {problems[0].loc}: {problems[0].msg}', problems)
    if not found:
        raise ConfigError(f'{path.name} holds no demonstration', hint='One chat a line: {"messages": [...]}.')
    return found


def write_demonstrations(path: Path, demonstrations: Sequence[Demonstration]) -> None:
    """Write chats as JSONL."""
    with path.open('w', encoding='utf-8', newline='\n') as file:
        for one in demonstrations:
            file.write(json.dumps(one.model_dump(exclude={'tools'}), ensure_ascii=False) + '\n')


def _calls(solution: Solution) -> tuple[Step, ...]:
    """A solution as tool calls alone: its files are written by the model too."""
    files = [Step(tool='write_file', args={'path': path, 'content': text}) for path, text in solution.files.items()]
    return (*files, *solution.steps)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text(encoding='utf-8-sig')
    except UnicodeDecodeError as error:
        raise ConfigError(f'{path.name} is not UTF-8 at byte {error.start}') from None
    for number, line in enumerate(text.split('\n'), start=1):
        if line.strip():
            yield number, line


def _parse(line: str) -> Demonstration:
    if len(line.encode('utf-8', 'surrogatepass')) > MAX_LINE_BYTES:
        raise Invalid([FieldError(loc='', msg=f'Longer than {MAX_LINE_BYTES // 1024**2} MB')])
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Invalid([FieldError(loc='', msg=f'Not JSON: {error}')]) from None
    if not isinstance(data, dict):
        raise Invalid([FieldError(loc='', msg='An object is needed here')])
    return validate(Demonstration, data)[0]
