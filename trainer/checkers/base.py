"""What every checker kind shares: its settings, what it may look at, and the promise of one verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import Field

from trainer.paths import FilePath
from trainer.sandbox.protocol import Sandbox
from trainer.validation import Document
from trainer.verdict import Verdict

CHECK_TIMEOUT_S = 60.0


class CheckerConfig(Document):
    """Settings that every checker kind takes beside its own."""

    timeout_s: float = Field(
        default=CHECK_TIMEOUT_S,
        ge=1,
        le=3600,
        allow_inf_nan=False,
        title='Time limit',
        description='Seconds the checker may take.',
    )
    protect: tuple[FilePath, ...] | None = Field(
        default=None,
        title='Protected files',
        description='Setup files put back as you wrote them before the check. Not set: those the checker itself names. '
        'An empty list: none, the model may change them all.',
    )


@dataclass(frozen=True)
class CheckContext:
    """What a checker works on: the candidate's final files and a way to run programs over a copy of them."""

    workspace: Path
    """Host folder with the sanitised final workspace, the author's protected files already restored."""
    author_files: Mapping[str, str]
    """The task's setup files, path → text: what the author wrote, never what the candidate left."""
    open_sandbox: Callable[..., Sandbox]
    """Opens a fresh sandbox over a copy of ``workspace``, or of the host folder given as ``workspace=``."""
    author_tests: Path
    """Host folder with the lists of tests that author's files define, as this sandbox's Python sees them."""
    protected: frozenset[str] = frozenset()
    """Which of the author's files were restored."""


class Checker(Protocol):
    """One checker: frozen settings with a ``type``, and the behaviour."""

    @property
    def type(self) -> str:
        """The kind, as it stands in the task document."""
        ...

    @property
    def config(self) -> CheckerConfig:
        """The settings, as they stand in the task document."""
        ...

    def rests_on(self, author_files: Mapping[str, str]) -> frozenset[str]:
        """Author's files the verdict depends on: restored before every check unless ``protect`` says otherwise."""
        ...

    def check(self, context: CheckContext) -> Verdict:
        """Look at the final workspace and say what it is worth. Raises ``CheckerError`` or ``SandboxError``."""
        ...

    def reward_sentence(self) -> str:
        """Say in one sentence what the reward will be."""
        ...

    def weakness(self) -> str:
        """Say what a model could exploit and how to harden the task, or an empty text."""
        ...
