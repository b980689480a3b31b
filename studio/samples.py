"""The tasks that ship with the studio: templates to start from, and the tutorial of the starter model."""

from __future__ import annotations

from typing import Final

from studio.documents import Documents
from trainer.manifest import parse_tasks, read_manifest
from trainer.models import ASSETS
from trainer.task import TaskFile

TASKS: Final = ASSETS / 'tasks'
TUTORIAL: Final = 'tutorial'
HELD_OUT: Final = 'held-out'


def templates() -> list[TaskFile]:
    """Sample tasks to copy from, in order of their file names."""
    files = sorted(path for path in (TASKS / 'samples').glob('*') if path.suffix in ('.json', '.jsonl'))
    return [task for path in files for _, task in parse_tasks(path) if isinstance(task, TaskFile)]


def load_tutorial(documents: Documents) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Publish the tutorial tasks and return ``(training ids, held-out ids)``; doing it twice adds nothing."""
    return _load(documents, 'tutorial-train.jsonl', TUTORIAL), _load(documents, 'tutorial-heldout.jsonl', HELD_OUT)


def tutorial_files() -> tuple[list[TaskFile], list[TaskFile]]:
    """The tutorial tasks themselves: training and held-out."""
    return read_manifest(TASKS / 'tutorial-train.jsonl'), read_manifest(TASKS / 'tutorial-heldout.jsonl')


def _load(documents: Documents, name: str, topic: str) -> tuple[str, ...]:
    report = documents.import_tasks(TASKS / name, status='published', topics=(topic,))
    for row in report.rows:
        view = documents.get(row.id)
        if view.status == 'draft':
            documents.publish(row.id, revision=view.revision)
    return tuple(row.id for row in report.rows)
