"""The record of one episode in rollouts.jsonl: what the model said, what the tools answered, what the checker saw."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainer.validation import Document
from trainer.verdict import Verdict

Ending = Literal['answer', 'tool_budget', 'token_budget', 'tool_answer_did_not_fit', 'unreadable_tool_call', 'error']
"""Why an episode ended. ``answer``: the model answered without a tool call."""


class ToolRecord(Document):
    """One tool call and its answer as the model saw it."""

    name: str
    args: dict[str, object] = Field(default_factory=dict)
    result: str = ''
    ok: bool = True
    exit_code: int | None = None
    duration_ms: int = 0
    shared: bool = Field(
        default=False,
        description='Another attempt with the same history ran this call; its answer and files were taken over.',
    )


class Turn(Document):
    """One generation: its text as decoded, its tokens, and the calls that were read from it."""

    text: str
    tokens: int = 0
    seconds: float = 0.0
    unreadable: bool = False
    calls: tuple[ToolRecord, ...] = ()


class Change(Document):
    """A file the episode added, changed or deleted against the start, with a unified diff where it is text."""

    path: str
    kind: Literal['A', 'M', 'D']
    diff: str = ''


class Rollout(Document):
    """One recorded episode. ``advantage`` is missing outside training; ``tokens`` counts what the model generated."""

    step: int
    stage: str = 'train'
    task: str
    title: str = ''
    group: int = 0
    index: int = 0
    prompt: str
    turns: tuple[Turn, ...] = ()
    ending: Ending = 'answer'
    verdict: Verdict
    tokens: int = 0
    advantage: float | None = None
    changes: tuple[Change, ...] = ()
    workspace: str = Field(
        default='', pattern=r'^([0-9a-f]{16})?$', description='Names the final workspace if one was to be kept.'
    )
    seconds: dict[str, float] = Field(default_factory=dict, description='Seconds of generate, tools and check.')
