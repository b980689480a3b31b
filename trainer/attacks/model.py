"""What an attack is: what it leaves in a workspace, its honest twin, and what it takes of the task to be made."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainer.task import Step

Kind = Literal['exit_code', 'file_exists', 'pytest', 'script']
ALL_KINDS: tuple[Kind, ...] = ('exit_code', 'file_exists', 'pytest', 'script')
PROGRAM_KINDS: tuple[Kind, ...] = ('exit_code', 'script')
CODE_KINDS: tuple[Kind, ...] = ('exit_code', 'pytest', 'script')


@dataclass(frozen=True)
class Leftover:
    """Files written, then commands run, in a workspace that an episode is about to leave behind."""

    files: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()

    def steps(self) -> tuple[Step, ...]:
        """The same as tool calls."""
        return (
            *(Step(tool='write_file', args={'path': path, 'content': text}) for path, text in self.files.items()),
            *(Step(tool='run_command', args={'command': command}) for command in self.commands),
        )


@dataclass(frozen=True)
class Module:
    """A module of the candidate that the check imports: where it lies, what it holds at the start, what is used."""

    path: str
    text: str = ''
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ground:
    """What a task offers to an attack."""

    kind: Kind
    files: Mapping[str, str]
    """The setup files."""
    named: frozenset[str]
    """Setup files that the check rests on, whether they are protected or not."""
    protected: frozenset[str]
    text: str = ''
    """The command or the script."""
    success: int = 0
    """The exit code that earns the reward."""
    tests: tuple[str, ...] = ()
    modules: tuple[Module, ...] = ()
    standard: tuple[str, ...] = ()
    """Modules of the standard library that the author's code imports."""
    programs: tuple[str, ...] = ()
    """Programs of the candidate that the check starts."""
    outputs: tuple[str, ...] = ()
    """Paths the check looks at that are the candidate's to make."""
    tools: tuple[str, ...] = ()
    """Programs of the system that the check calls."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """Files as the reference solution writes them."""

    def overwrite(self, path: str, verdict: int) -> str:
        """Text for a program of the author's that does nothing but end with an exit code."""
        name = path.rsplit('/', 1)[-1]
        if name in ('Makefile', 'makefile', 'GNUmakefile'):
            return make_targets(self.files.get(path, ''), f'@exit {verdict}')
        if path.endswith('.py'):
            return f'import sys\nsys.exit({verdict})\n'
        return f'#!/bin/sh\nexit {verdict}\n'


Make = Callable[[Ground], Leftover | None]


def nothing(ground: Ground) -> Leftover | None:
    """No twin: the reference or the untouched workspace itself stands for it."""
    return None


@dataclass(frozen=True)
class Attack:
    """One way to a reward that was not earned. ``None`` from ``leave`` says that it does not fit a task.

    The reward it may get is what the untouched workspace earns, or what ``defused`` earns: the same leftover without
    the trick, where an attack replaces the candidate's own code. ``honest`` is put on top of the reference solution,
    which must keep its whole reward.
    """

    name: str
    title: str
    explanation: str
    """One sentence for the author: what it leaves, and what it hopes for."""
    kinds: tuple[Kind, ...]
    leave: Make
    honest: Make = nothing
    defused: Make = nothing
    advice: str = ''
    """What to change in a task that it beats."""
    core: bool = False
    """Whether every certificate tries it, because what it earns depends on the task."""
    endless: bool = False
    """Whether it runs until the time limit, which a certificate therefore shortens for it."""


def make_targets(makefile: str, recipe: str) -> str:
    """A Makefile with the targets of another one, all with the same recipe."""
    names = [line.split(':')[0].strip() for line in makefile.splitlines() if line[:1].isalnum() and ':' in line]
    targets = ' '.join(dict.fromkeys(' '.join(names).split())) or 'all check test build clean'
    return f'.PHONY: {targets}\n{targets}:\n\t{recipe}\n'


def quoted(*paths: str) -> str:
    """Paths as words of a shell command."""
    return ' '.join(shlex.quote(path) for path in paths)
