"""The tasks that ship with the studio: templates to start from, and the tutorial of the starter model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from studio.documents.held_out import HELD_OUT
from studio.documents.service import Documents
from studio.documents.transfer import Transfer
from trainer.manifest import parse_tasks, read_manifest
from trainer.models import ASSETS
from trainer.task import TaskFile
from trainer.validation import Document

TASKS: Final = ASSETS / 'tasks'
TUTORIAL: Final = 'tutorial'


def templates() -> list[TaskFile]:
    """Sample tasks to copy from, in order of their file names."""
    files = sorted(path for path in (TASKS / 'samples').glob('*') if path.suffix in ('.json', '.jsonl'))
    return [task for path in files for _, task in parse_tasks(path) if isinstance(task, TaskFile)]


class GalleryItem(Document):
    """A task to begin from: what it trains, and what an author can learn from it."""

    name: str
    task: TaskFile
    skill: str
    teaches: str
    is_tutorial: bool = False


def gallery() -> tuple[GalleryItem, ...]:
    """The samples and one tutorial task of each kind, in order of their skills."""
    about = json.loads((TASKS / 'gallery.json').read_text(encoding='utf-8'))
    skills: list[str] = about['skills']
    items = [
        GalleryItem(name=topic, task=task, skill=skills[0], teaches=about['tutorial'][topic], is_tutorial=True)
        for topic, task in _one_of_each(read_manifest(TASKS / 'tutorial-train.jsonl')).items()
    ]
    for name, words in about['samples'].items():
        task = next(task for _, task in parse_tasks(TASKS / 'samples' / f'{name}.json') if isinstance(task, TaskFile))
        items.append(GalleryItem(name=name, task=task, skill=words['skill'], teaches=words['teaches']))
    return tuple(sorted(items, key=lambda item: skills.index(item.skill)))


def _one_of_each(tasks: Iterable[TaskFile]) -> dict[str, TaskFile]:
    """The first task of each kind of the tutorial; a copy of it is a task like others, so the topic is left out."""
    kinds: dict[str, TaskFile] = {}
    for task in tasks:
        kinds.setdefault(task.topics[-1], task.model_copy(update={'topics': task.topics[1:]}))
    return kinds


def load_tutorial(documents: Documents) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Publish the tutorial tasks and return ``(training ids, held-out ids)``; doing it twice adds nothing."""
    return _load(documents, 'tutorial-train.jsonl', TUTORIAL), _load(documents, 'tutorial-heldout.jsonl', HELD_OUT)


def tutorial_files() -> tuple[list[TaskFile], list[TaskFile]]:
    """The tutorial tasks themselves: training and held-out."""
    return read_manifest(TASKS / 'tutorial-train.jsonl'), read_manifest(TASKS / 'tutorial-heldout.jsonl')


def _load(documents: Documents, name: str, topic: str) -> tuple[str, ...]:
    transfer = Transfer(documents)
    receipt = transfer.store(transfer.plan_paths([TASKS / name]), publish=True, topics=(topic,))
    for stored in receipt.rows:
        view = documents.get(stored.id)
        if stored.result == 'here' and view.status == 'draft':
            documents.publish(view.id, revision=view.revision)
    return tuple(stored.id for stored in receipt.rows)
