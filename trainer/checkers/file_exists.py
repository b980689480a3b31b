"""The ``file_exists`` checker: the share of required paths that are there. It says nothing of what is in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from trainer.checkers.base import CheckContext, CheckerConfig
from trainer.paths import FileOrFolderPath
from trainer.validation import Document
from trainer.verdict import Item, Verdict

MAX_LINKS = 40


class FileExistsConfig(CheckerConfig):
    """Settings of ``file_exists``."""

    paths: tuple[FileOrFolderPath, ...] = Field(
        min_length=1,
        max_length=500,
        title='Required paths',
        description='Files the model must leave behind, one a line. End a path with / to ask for a folder.',
    )

    @field_validator('paths')
    @classmethod
    def _each_path_once(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        twice = next((path for path in paths if paths.count(path) > 1), None)
        if twice is not None:
            raise ValueError(f'{twice!r} is there twice and would count twice')
        return paths


class FileExists(Document):
    """Reward: the share of required paths that exist in the final workspace."""

    type: Literal['file_exists'] = 'file_exists'
    config: FileExistsConfig

    def rests_on(self, author_files: Mapping[str, str]) -> frozenset[str]:
        """None: a file that only has to exist is the candidate's own."""
        return frozenset()

    def check(self, context: CheckContext) -> Verdict:
        """Look at each path without following links out of the workspace."""
        items = tuple(_look(context.workspace, path) for path in self.config.paths)
        missing = [item for item in items if not item.passed]
        reason = f'{len(items) - len(missing)} of {len(items)} paths exist'
        if missing:
            reason += f'; {missing[0].name}: {missing[0].detail}'
        return Verdict.scored((len(items) - len(missing)) / len(items), reason, items=items)

    def reward_sentence(self) -> str:
        """Say in one sentence what the reward will be."""
        count = len(self.config.paths)
        if count == 1:
            return f'1.0 if {self.config.paths[0]} exists, else 0.0.'
        return f'The share of the {count} required paths that exist: each is worth {1 / count:.2g}.'

    def weakness(self) -> str:
        """Say what a model could exploit."""
        return (
            'Checks existence only: an empty file earns the reward. '
            'To look at the content use exit_code with grep or cmp, a script, or pytest.'
        )


def _look(workspace: Path, path: str) -> Item:
    problem = _problem(workspace, path)
    return Item(name=path, passed=not problem, detail=problem)


def _problem(workspace: Path, path: str) -> str:
    mode = _mode(workspace, path.rstrip('/'))
    if mode is None:
        return 'missing'
    if path.endswith('/'):
        return '' if stat.S_ISDIR(mode) else 'a folder is needed, this is a file'
    if stat.S_ISDIR(mode):
        return 'a file is needed, this is a folder'
    return '' if stat.S_ISREG(mode) else 'not a regular file'


def _mode(workspace: Path, path: str) -> int | None:
    """The mode of what a path leads to inside the workspace; ``None`` where it is missing or leads outside."""
    todo = path.split('/')
    done: list[str] = []
    links = 0
    mode = stat.S_IFDIR
    while todo:
        part = todo.pop(0)
        if part in ('', '.'):
            continue
        if part == '..':
            if not done:
                return None
            done.pop()
            continue
        try:
            mode = (workspace / '/'.join([*done, part])).lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(mode):
            links += 1
            target = os.readlink(workspace / '/'.join([*done, part]))
            if target == '/work' or target.startswith('/work/'):
                done, target = [], target.removeprefix('/work')
            elif target.startswith('/'):
                return None
            if links > MAX_LINKS:
                return None
            todo = target.split('/') + todo
            mode = stat.S_IFDIR
            continue
        done.append(part)
    return mode
