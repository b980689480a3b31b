"""The ``script`` checker: the author's program looks at the final workspace and prints or exits its reward.

A Python script (no ``#!`` line, or one that names Python) runs with ``/work`` as the current folder. What *it* prints
counts; what its children and the modules it imports print goes to the log. Each ending has one outcome:

===============================================  ==============================================
the last line it printed is one number in [0, 1]  that number (then it must not exit with 1 or more)
it printed nothing and ended, or called exit(0)   1.0
it exited with 1                                  0.0 (the last line it printed is the reason)
NaN, infinite, out of range, two numbers a line   error
text that is no number, then the end of the file  error (``reward: 0.5``, ``1,0``, ``True``, ``{"reward": 0.5}``)
an uncaught exception, any other exit code        error
the candidate's code ended or stopped it          0.0; error where that happens without the candidate, too
===============================================  ==============================================

A script whose first line names a shell (``#!/bin/bash``) is run by that shell: exit code 0 or 1 is the reward, or the
number it printed last if its own last line is an ``echo`` or ``printf``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from trainer.checkers.base import CheckContext, CheckerConfig
from trainer.checkers.protect import named_files
from trainer.checkers.script_check import check_script
from trainer.validation import Document, note
from trainer.verdict import Verdict

MAX_SCRIPT_CHARS = 500_000


class ScriptConfig(CheckerConfig):
    """Settings of ``script``."""

    script: str = Field(
        title='Script',
        description='Python that looks at the final workspace (its current folder). It prints the reward, a number '
        'from 0 to 1, as its last line, or exits with 0 for 1.0 and 1 for 0.0. An exception is an error, not a reward.',
        max_length=MAX_SCRIPT_CHARS,
        json_schema_extra={
            'format': 'python',
            'examples': ["text = open('out.txt').read()\nprint(text.count('ok') / 4)"],
        },
    )

    @field_validator('script')
    @classmethod
    def _script_says_something(cls, script: str, info: ValidationInfo) -> str:
        if not script.strip():
            raise ValueError('write the script that checks the workspace')
        if '\0' in script:
            raise ValueError('a script cannot hold a NUL character')
        if '\r' in script:
            note(info, 'checker.config.script', 'Windows line endings were changed to Unix ones')
            script = script.replace('\r\n', '\n').replace('\r', '\n')
        return script


class Script(Document):
    """Reward: what the author's script prints as its last line, or its exit code."""

    type: Literal['script'] = 'script'
    config: ScriptConfig

    @property
    def shell(self) -> tuple[str, ...]:
        """The shell that a ``#!`` line names, as a command line; empty for Python."""
        match = re.match(
            r'#!\s*(?:/usr/bin/env\s+)?(?:\S*/)?((?:ba|da|k|z)?sh)(?:[ \t]+(.*))?$', self.config.script, re.M
        )
        if match is None:
            return ()
        rc_free = ('--noprofile', '--norc') if match[1] == 'bash' else ()
        return (match[1], *rc_free, *(match[2] or '').split())

    def rests_on(self, author_files: Mapping[str, str]) -> frozenset[str]:
        """Setup files named in the script, and the Makefile where it calls make."""
        return named_files(self.config.script, author_files)

    def check(self, context: CheckContext) -> Verdict:
        """Run the script in a fresh sandbox and read what it says."""
        explicit = self.config.protect is not None
        return check_script(self.config.script, self.shell, self.config.timeout_s, context, explicit=explicit)

    def reward_sentence(self) -> str:
        """Say in one sentence what the reward will be."""
        return 'The number from 0 to 1 that the script prints as its last line, or 1.0 if it exits with 0, 0.0 with 1.'

    def weakness(self) -> str:
        """Say what a model could exploit in the script."""
        script = self.config.script
        if not self.shell and re.search(r'^\s*(?:from|import)\s+(?:solution|main|app)\b', script, re.M):
            return (
                'The script imports code the model wrote, which then runs inside the checker: '
                'start it as a program of its own (subprocess.run) and compare its output.'
            )
        if not self.shell and not re.search(r'\bprint\s*\(|\bexit\s*\(|SystemExit', script):
            return 'The script prints no number and never exits with 1: any workspace earns the reward.'
        return ''
