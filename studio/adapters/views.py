"""What goes into and comes out of the adapter service."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from trainer.evaluation import Evaluation
from trainer.proof import ProofResult
from trainer.validation import Document

ProofState = Literal['none', 'queued', 'running', 'proven', 'failed', 'error', 'cancelled']
"""``none``: nothing to compare with is recorded. ``failed``: it behaves otherwise. ``error``: it is not known."""


class AdapterFile(Document):
    """One file of an adapter; ``size`` in bytes."""

    name: str
    size: int
    sha256: str


class ProofView(Document):
    """Where the parity proof of a version stands; ``reason`` says why it could not be made or what is wrong.

    ``base`` names the base model where it has moved since. ``error`` is the class of what stood in the way of a proof
    (see ``trainer.side_work``); records from before it was kept have none.
    """

    state: ProofState = 'none'
    reason: str = ''
    error: str = ''
    base: str = ''
    result: ProofResult | None = None


class AdapterVersionView(Document):
    """One version of an adapter. ``path`` is its folder in PEFT layout, ``size`` in bytes, times in UTC.

    ``run_id`` is missing where it was imported; the run may have been deleted since. ``lineage`` is lineage.json.
    """

    id: str
    adapter_id: str
    name: str
    number: int
    run_id: str | None
    run_name: str
    model: str
    step: int
    rank: int | None
    size: int
    sha256: str
    notes: str
    lineage: dict[str, Any]
    files: tuple[AdapterFile, ...]
    before: Evaluation | None
    after: Evaluation | None
    proof: ProofView
    created_at: datetime
    path: str

    @property
    def label(self) -> str:
        """Name and number, as people say it."""
        return f'{self.name} v{self.number}'

    @property
    def file_name(self) -> str:
        """A name for a file, without ending, of letters that every file system takes."""
        letters = ''.join(letter if letter.isalnum() and letter.isascii() else '-' for letter in self.name)
        return f'{"-".join(filter(None, letters.split("-")))[:80] or "adapter"}-v{self.number}'

    @property
    def imported(self) -> bool:
        """Whether it came from elsewhere."""
        return self.run_id is None

    @property
    def success(self) -> float | None:
        """Held-out success, where it was measured."""
        return self.after.mean if self.after is not None else None


class NamedAdapter(Document):
    """A name and the versions under it, newest first."""

    id: str
    name: str
    versions: tuple[AdapterVersionView, ...]


class Imported(Document):
    """What an import made, and the files that were left out because no adapter needs them."""

    version: AdapterVersionView
    left_out: tuple[str, ...] = ()


class Difference(Document):
    """One thing in which two versions differ, in words; empty where one of them does not have it."""

    field: str
    a: str
    b: str


class Comparison(Document):
    """Two versions beside each other; ``same_tasks``: whether both were measured on the same held-out tasks."""

    a: AdapterVersionView
    b: AdapterVersionView
    differences: tuple[Difference, ...] = ()
    same_tasks: bool = Field(default=False)
