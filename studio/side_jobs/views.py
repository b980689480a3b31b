"""What a page sees of a job at the side."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from trainer.validation import Document

JobState = Literal['running', 'done', 'failed', 'cancelled']


class SideJobView(Document):
    """A job as it is now. ``subject`` is what it is about, ``elapsed_s`` how long it has worked.

    ``error`` is the class of what made it fail (see ``trainer.side_work``), ``ended`` where its process said nothing.
    """

    id: str
    kind: str
    subject: str
    state: JobState
    text: str = ''
    done: int = 0
    total: int = 0
    result: dict[str, Any] = Field(default_factory=dict)
    message: str = ''
    hint: str = ''
    error: str = ''
    elapsed_s: float = 0.0

    @property
    def share(self) -> float | None:
        """How much of the step at hand is done, 0 to 1; ``None`` where that is not known."""
        return min(1.0, self.done / self.total) if self.total else None
