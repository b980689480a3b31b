"""The task document: the spec a policy is trained on, and the solutions that prove its checker (spec 1 and 4)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from trainer.checkers import AnyChecker
from trainer.errors import FieldError, TaskError
from trainer.paths import workspace_path
from trainer.validation import Document, Invalid, at, note, validate

Environment = Literal['tfcode']
"""Environments a task may ask for. Another one registers by joining this union."""

MAX_STEPS: Final = 64
DEFAULT_STEPS: Final = 16
MAX_SETUP_FILES: Final = 500
MAX_SETUP_BYTES: Final = 4 * 1024**2
MAX_TITLE_CHARS: Final = 200


def _command(text: str) -> str:
    if not text.strip():
        raise ValueError('a command cannot be empty')
    if '\0' in text:
        raise ValueError('a command cannot hold a NUL character')
    return text


class TaskSpec(Document):
    """What an episode needs: the instruction, how the workspace starts, the budget, and the checker."""

    prompt: str = Field(title='Prompt', description='The instruction the model gets, kept byte for byte.')
    env: Environment = Field(default='tfcode', title='Environment', description='Four terminal tools, no network.')
    max_steps: int = Field(
        default=DEFAULT_STEPS, ge=1, title='Max steps', description=f'Tool calls of one episode, 1 to {MAX_STEPS}.'
    )
    setup_files: dict[str, str] = Field(
        default_factory=dict, title='Setup files', description='Files written before the episode.'
    )
    setup_commands: tuple[Annotated[str, AfterValidator(_command)], ...] = Field(
        default=(), title='Setup commands', description='Shell commands run once, in order, before the first turn.'
    )
    checker: AnyChecker = Field(title='Checker', description='The program that decides the reward.')

    @field_validator('prompt')
    @classmethod
    def _prompt_says_something(cls, prompt: str) -> str:
        if not prompt.strip():
            raise ValueError('write what the model should do')
        if '\0' in prompt:
            raise ValueError('a prompt cannot hold a NUL character')
        return prompt

    @field_validator('max_steps')
    @classmethod
    def _clamp_steps(cls, steps: int, info: ValidationInfo) -> int:
        if steps > MAX_STEPS:
            note(info, 'max_steps', f'lowered from {steps} to {MAX_STEPS}')
        return min(steps, MAX_STEPS)

    @field_validator('setup_files')
    @classmethod
    def _files_fit_the_workspace(cls, files: dict[str, str]) -> dict[str, str]:
        return workspace_files(files)

    @field_validator('checker')
    @classmethod
    def _protected_files_are_setup_files(cls, checker: AnyChecker, info: ValidationInfo) -> AnyChecker:
        files = info.data.get('setup_files')
        for index, path in enumerate(checker.config.protect or ()):
            if files is not None and path not in files:
                raise at(f'config.protect.{index}', f'{path!r} is not one of the setup files')
        return checker

    @property
    def hash(self) -> str:
        """Hex sha256 over the canonical JSON: the identity of this version."""
        return content_hash(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The spec as plain JSON values, defaults of the optional checker settings left out."""
        data = self.model_dump(mode='json')
        data['checker']['config'] = self.checker.config.model_dump(mode='json', exclude_defaults=True)
        return data


class Step(Document):
    """One tool call of a solution."""

    tool: Literal['run_command', 'read_file', 'write_file', 'list_dir']
    args: dict[str, str]

    @model_validator(mode='after')
    def _arguments_fit_the_tool(self) -> Self:
        needed = _ARGUMENTS[self.tool]
        if set(self.args) != set(needed):
            raise ValueError(f'{self.tool} takes {", ".join(needed)}, not {", ".join(sorted(self.args)) or "nothing"}')
        return self


_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    'run_command': ('command',),
    'read_file': ('path',),
    'write_file': ('path', 'content'),
    'list_dir': ('path',),
}

SolutionKind = Literal['reference', 'alternative', 'wrong']


class Solution(Document):
    """Steps (and files) that solve a task, or must not: evidence that the checker tells them apart."""

    kind: SolutionKind
    name: str = Field(default='', max_length=MAX_TITLE_CHARS)
    files: dict[str, str] = Field(default_factory=dict, description='Files written before the steps.')
    steps: tuple[Step, ...] = ()

    @field_validator('files')
    @classmethod
    def _files_fit_the_workspace(cls, files: dict[str, str]) -> dict[str, str]:
        return workspace_files(files)


class TaskFile(Document):
    """A task as it travels in files and manifests: the spec, and beside it what is not part of it.

    ``hash`` and ``version`` are set on frozen copies (a run's manifest); a hash that does not fit is refused.
    """

    id: str = Field(default='', max_length=64)
    title: str = Field(default='', max_length=MAX_TITLE_CHARS)
    topics: tuple[str, ...] = ()
    version: int | None = Field(default=None, ge=1)
    hash: str = ''
    task_spec: TaskSpec
    solutions: tuple[Solution, ...] = ()
    notes: str = ''

    @model_validator(mode='after')
    def _hash_fits(self) -> Self:
        if self.hash and self.hash != self.task_spec.hash:
            raise ValueError('hash does not belong to this task_spec: the copy was changed')
        return self

    def solution(self, kind: SolutionKind) -> Solution | None:
        """The first solution of a kind, or ``None``."""
        return next((solution for solution in self.solutions if solution.kind == kind), None)


def workspace_files(files: Mapping[str, str]) -> dict[str, str]:
    """Bring the paths of ``{path: text}`` to normal form; raise ``ValueError`` where two of them cannot both exist."""
    if len(files) > MAX_SETUP_FILES:
        raise ValueError(f'at most {MAX_SETUP_FILES} files, not {len(files)}')
    if sum(len(text.encode('utf-8', 'surrogatepass')) for text in files.values()) > MAX_SETUP_BYTES:
        raise ValueError(f'at most {MAX_SETUP_BYTES // 1024**2} MB of files')
    kept: dict[str, str] = {}
    for path, text in files.items():
        name = workspace_path(path)
        if name in kept:
            raise ValueError(f'{name!r} is there twice')
        kept[name] = text
    for name in kept:
        parts = name.split('/')
        for depth in range(1, len(parts)):
            if '/'.join(parts[:depth]) in kept:
                raise ValueError(f'{"/".join(parts[:depth])!r} cannot be a file and a folder')
    return kept


def canonical_json(data: object) -> bytes:
    """JSON with sorted keys, no spaces, UTF-8: one byte string for one value (design section 5)."""
    text = json.dumps(data, sort_keys=True, separators=(',', ':'), ensure_ascii=False, allow_nan=False)
    return text.encode('utf-8')


def content_hash(data: object) -> str:
    """Hex sha256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(data)).hexdigest()


def parse_task_spec(data: object, *, root: str = 'task_spec') -> tuple[TaskSpec, tuple[FieldError, ...]]:
    """Validate a bare ``task_spec``; return it with notes on clamps. Raises ``TaskError`` with field paths."""
    try:
        return validate(TaskSpec, data, root=root)
    except Invalid as invalid:
        raise TaskError(f'The task is not valid: {invalid}', invalid.fields) from None


def parse_task(data: object) -> tuple[TaskFile, tuple[FieldError, ...]]:
    """Validate a bare ``task_spec`` or ``{"task_spec": …, "solutions": […]}``. Raises ``TaskError`` with paths."""
    if isinstance(data, Mapping) and 'task_spec' in data:
        try:
            task, notes = validate(TaskFile, data)
        except Invalid as invalid:
            raise TaskError(f'The task is not valid: {invalid}', invalid.fields) from None
        return task, tuple(note.model_copy(update={'loc': f'task_spec.{note.loc}'}) for note in notes)
    spec, notes = parse_task_spec(data, root='')
    return TaskFile(task_spec=spec), notes
