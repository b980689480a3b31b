"""The checkers: programs that look at a final workspace and say what it is worth (spec section 1).

A kind is one file, settings and behaviour together, and one member of ``AnyChecker``; the form of the editor, the
JSON schema and the file format follow from its fields.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainer.checkers.base import Checker, CheckerConfig
from trainer.checkers.exit_code import ExitCode, ExitCodeConfig
from trainer.checkers.file_exists import FileExists, FileExistsConfig
from trainer.checkers.pytest import Pytest, PytestConfig
from trainer.checkers.script import Script, ScriptConfig

AnyChecker = Annotated[ExitCode | FileExists | Pytest | Script, Field(discriminator='type')]
"""Every kind a task may name in ``checker.type``."""

CHECKER_KINDS: tuple[type[ExitCode | FileExists | Pytest | Script], ...] = (ExitCode, FileExists, Pytest, Script)
"""The same kinds as classes, in the order a form offers them."""

__all__ = [
    'CHECKER_KINDS',
    'AnyChecker',
    'Checker',
    'CheckerConfig',
    'ExitCode',
    'ExitCodeConfig',
    'FileExists',
    'FileExistsConfig',
    'Pytest',
    'PytestConfig',
    'Script',
    'ScriptConfig',
]
