"""What the launch page opens with: the tasks that can be trained on, and the run that is copied."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from studio.documents.views import DocumentQuery, DocumentRow
from studio.errors import NotFound
from studio.runs.estimates import room
from studio.runs.views import RunView

if TYPE_CHECKING:
    from studio.services import Studio


@dataclass(frozen=True)
class Start:
    """What the page opens with: the published tasks, and the run to copy with its tasks."""

    rows: tuple[DocumentRow, ...]
    gpu: bool
    copied: RunView | None
    copied_tasks: tuple[tuple[str, ...], tuple[str, ...]] | None


def read_start(studio: Studio, copy: str, picked: Sequence[str] = ()) -> Start:
    """Read the published tasks and the run to copy."""
    copied, ids = None, None
    if copy:
        # A run that was deleted meanwhile: an ordinary new run.
        with contextlib.suppress(NotFound):
            copied = studio.runs.get(copy)
            frozen = studio.runs.tasks(copy)
            ids = (
                tuple(task.id for task in frozen if task.role == 'train'),
                tuple(task.id for task in frozen if task.role == 'held_out'),
            )
    rows = studio.documents.list(DocumentQuery(status='published', sort='title', descending=False, per_page=1000)).rows
    # The list is cut off; what was picked in the library, or had been trained on, must be in it all the same.
    wanted = {*picked[:1000], *(id for several in ids or () for id in several)}
    left = wanted - {row.id for row in rows}
    rows += tuple(row for row in studio.documents.rows(sorted(left)) if row.status == 'published') if left else ()
    return Start(rows, room().gpu, copied, ids)
