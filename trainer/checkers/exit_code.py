"""The ``exit_code`` checker: a shell command over the final workspace; its exit code is the verdict.

One documented outcome for each odd ending, so that an error is never a reward and a failure never an error:

- a time-out, or an end by a signal: the same command is tried without the candidate's files. It ends the same way →
  it is the author's command, outcome ``error``; it does not → the candidate's files did it, 0.0.
- exit code 127 where the shell did not find a program that the author named: ``error``. A program that the candidate
  should have made is missing: 0.0.
- out of memory: 0.0. The sandbox gives every check the same memory.
- the candidate's program changed a file that the check decides by: 0.0, tampered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator

from trainer.checkers.base import CheckContext, CheckerConfig
from trainer.checkers.blame import without_candidate
from trainer.checkers.protect import named_files
from trainer.checkers.steady import deciding_files, fingerprint
from trainer.errors import CheckerError
from trainer.sandbox.protocol import ExecResult, Sandbox
from trainer.validation import Document
from trainer.verdict import Item, Verdict

NOT_FOUND = 127
_MISSING_PROGRAM = re.compile(r"([\w.+-]+)['’]?: (?:command )?not found")  # noqa: RUF001 - some shells quote like this


class ExitCodeConfig(CheckerConfig):
    """Settings of ``exit_code``."""

    command: str = Field(
        title='Command',
        description='Shell command run in the final workspace, with no network. Nothing the model says counts, '
        'only what this command finds.',
        max_length=100_000,
        json_schema_extra={'format': 'shell', 'examples': ['grep -q Bonjour greeting.txt']},
    )
    expected_code: int = Field(
        default=0,
        ge=0,
        le=255,
        title='Expected exit code',
        description='The exit code that earns the reward, 0 to 255.',
    )

    @field_validator('command')
    @classmethod
    def _command_says_something(cls, command: str) -> str:
        if not command.strip():
            raise ValueError('write the command that checks the workspace')
        if '\0' in command:
            raise ValueError('a command cannot hold a NUL character')
        return command


class ExitCode(Document):
    """Reward: 1.0 if the command exits with the expected code, else 0.0."""

    type: Literal['exit_code'] = 'exit_code'
    config: ExitCodeConfig

    def rests_on(self, author_files: Mapping[str, str]) -> frozenset[str]:
        """Setup files named in the command, and the Makefile where it calls make."""
        return named_files(self.config.command, author_files)

    def check(self, context: CheckContext) -> Verdict:
        """Run the command in a fresh sandbox and compare its exit code."""
        command, expected = self.config.command, self.config.expected_code
        deciding = deciding_files(command, context.protected, explicit=self.config.protect is not None)
        with context.open_sandbox() as sandbox:
            before = fingerprint(sandbox, deciding)
            result = sandbox.run(command, timeout_s=self.config.timeout_s)
            changed = fingerprint(sandbox, deciding) != before
            if result.exit_code == NOT_FOUND and expected != NOT_FOUND:
                self._refuse_missing_program(sandbox, result, context)
        if result.out_of_memory:
            return _verdict(self, 'ran out of memory', result)
        if result.timed_out or result.exit_code is None or result.exit_code < 0:
            return self._ended_early(result, context)
        if result.exit_code == expected and changed and not self._changes_by_itself(deciding, context):
            reason = f'a file the check decides by was changed during the check: {", ".join(deciding)}'
            return _verdict(self, reason, result, tampered=True)
        if result.exit_code == expected:
            return _verdict(self, f'exit code {expected}, as expected', result, passed=True)
        return _verdict(self, f'exit code {result.exit_code}, expected {expected}', result)

    def reward_sentence(self) -> str:
        """Say in one sentence what the reward will be."""
        return f'1.0 if the command exits with {self.config.expected_code}, else 0.0.'

    def weakness(self) -> str:
        """Say what a model could exploit in the command."""
        command = self.config.command
        if self.config.expected_code == 0 and re.search(r'\|\s*tee\b[^|]*$', command):
            return 'The command ends in a pipe to tee, which always exits with 0: check the text itself, with grep -q.'
        if re.fullmatch(r'\s*(?:test\s+-[efds]|\[\s+-[efds])\s+\S+\s*\]?\s*', command):
            return 'Checks existence only: look at the content too, for example with grep -q or cmp.'
        if self.config.expected_code == 0 and re.search(r'\|\|\s*(?:true|:)\s*$|;\s*(?:true|exit 0)\s*$', command):
            return 'The command always exits with 0: any workspace earns the reward.'
        if re.search(r'\bpytest\b', command):
            return 'Code under test can set the exit code of a pytest run: use the pytest checker, which counts tests.'
        return ''

    def _ended_early(self, result: ExecResult, context: CheckContext) -> Verdict:
        limit = f'{self.config.timeout_s:g} s'
        how = f'timed out after {limit}' if result.timed_out else f'was ended by signal {-(result.exit_code or 0)}'

        def early(sandbox: Sandbox) -> bool:
            again = sandbox.run(self.config.command, timeout_s=self.config.timeout_s)
            return again.timed_out or again.exit_code is None or again.exit_code < 0

        if without_candidate(context, f'{self.config.command}\0{limit}', early):
            raise CheckerError(
                f"The checker's command {how}, also without the model's files",
                hint='Change the command so that it ends by itself, or raise the time limit of the checker.',
                output=result.text,
            )
        return _verdict(self, f'the command {how}', result)

    def _changes_by_itself(self, deciding: tuple[str, ...], context: CheckContext) -> bool:
        """Whether the author's command changes its own files, whatever the candidate left."""

        def changes(sandbox: Sandbox) -> bool:
            before = fingerprint(sandbox, deciding)
            sandbox.run(self.config.command, timeout_s=self.config.timeout_s)
            return fingerprint(sandbox, deciding) != before

        return without_candidate(context, f'changes\0{self.config.command}', changes)

    def _refuse_missing_program(self, sandbox: Sandbox, result: ExecResult, context: CheckContext) -> None:
        """Raise where a program that the author named does not exist; the shell's message alone could be forged."""
        written_by_author = [self.config.command, *(context.author_files[path] for path in context.protected)]
        for name in dict.fromkeys(_MISSING_PROGRAM.findall(result.text)):
            named = any(re.search(rf'(?<![\w./-]){re.escape(name)}(?![\w/-])', text) for text in written_by_author)
            if named and sandbox.run(['sh', '-c', 'command -v -- "$1"', 'sh', name], timeout_s=10).exit_code:
                raise CheckerError(
                    f'command not found: {name}',
                    hint=f'Install {name} on this machine, or write the check with programs that are there.',
                    output=result.text,
                )


def _verdict(
    checker: ExitCode, reason: str, result: ExecResult, *, passed: bool = False, tampered: bool = False
) -> Verdict:
    item = Item(name=checker.config.command, passed=passed, detail=reason)
    return Verdict.scored(1.0 if passed else 0.0, reason, items=(item,), output=result.text, tampered=tampered)
