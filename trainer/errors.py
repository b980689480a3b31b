"""Every error the product raises on purpose, as one tree; each names the boundary that was crossed.

RlvrError
├── TaskError         a task document is not valid (its fields say where)
├── ConfigError       a run's configuration is not valid or cannot work on this machine
│   └── BaseUnavailable      the base model of an adapter is not here, cannot be used, or is another one
├── SandboxError      the sandbox could not do its work: never the candidate's fault, never a reward
│   ├── SandboxUnavailable   this machine offers no isolation of the asked kind
│   ├── PackagesFailed       the Python packages that a run asks for could not be installed
│   └── SetupFailed          a setup command of the task failed or ran out of time
├── CheckerError      the checker could not do its work: never a reward of 0
├── GenerationError   the model or its tokenizer could not produce a turn
├── RunFolderError    a run folder is missing, incomplete or not ours
└── StoreError        the studio's database refused or could not be reached

An error carries a message for the user that says what happened, and a hint that says what to do.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict


class FieldError(BaseModel):
    """One thing wrong with one field: ``loc`` is its dotted path (``checker.type``), ``msg`` what to change."""

    model_config = ConfigDict(frozen=True, extra='forbid')

    loc: str
    msg: str


class RlvrError(Exception):
    """Base of the tree. ``str(error)`` is the message; ``hint`` is what the user can do, or empty."""

    def __init__(self, message: str, *, hint: str = '') -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class FieldsError(RlvrError):
    """An input was refused; ``fields`` lists every bad field with its path."""

    def __init__(self, message: str, fields: Iterable[FieldError] = (), *, hint: str = '') -> None:
        super().__init__(message, hint=hint)
        self.fields = tuple(fields)


class TaskError(FieldsError):
    """A task document is not valid."""


class ConfigError(FieldsError):
    """A run's configuration is not valid, or cannot work on this machine."""


class BaseUnavailable(ConfigError):
    """The base model of an adapter is not here, cannot be used, or is another one: naming where it is now helps."""


class SandboxError(RlvrError):
    """The sandbox could not do its work."""


class SandboxUnavailable(SandboxError):
    """This machine offers no isolation of the kind asked for; the hint says how to get it."""


class PackagesFailed(SandboxError):
    """The Python packages that a run asks for could not be installed."""


class SetupFailed(SandboxError):
    """A setup command of the task failed or ran out of time."""


class CheckerError(RlvrError):
    """The checker could not do its work; ``output`` is what its program printed."""

    def __init__(self, message: str, *, hint: str = '', output: str = '') -> None:
        super().__init__(message, hint=hint)
        self.output = output


class GenerationError(RlvrError):
    """The model or its tokenizer could not produce a turn."""


class RunFolderError(RlvrError):
    """A run folder is missing, incomplete or not ours."""


class StoreError(RlvrError):
    """The studio's database refused the change or could not be reached."""
