"""A run that kept its final workspaces: real records and workspaces, checkers that are wrong in a known way."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from studio.ingest import ingest
from studio.services import Studio
from studio.store.tables import RunTable
from trainer.journal import Journal
from trainer.recording import Rollout
from trainer.task import TaskFile, parse_task
from trainer.verdict import Verdict

STEPS = 2
ANSWERS = ('42\n', '42 \n', '7\n', '')
"""What the attempts of a group leave in answer.txt; the last leaves no file."""
STRICT = 'printf "42\\n" | cmp -s - answer.txt'
LENIENT = 'test "$(tr -d "[:space:]" < answer.txt)" = 42'


def counting_task(title: str, command: str = STRICT) -> TaskFile:
    """A task whose checker looks at answer.txt and rests on no setup file; notes.md is part of its start."""
    return parse_task({'title': title, 'task_spec': spec(command)})[0]


def spec(command: str = STRICT, **more: Any) -> dict[str, Any]:
    checker = {'type': 'exit_code', 'config': {'command': command}}
    files = {'notes.md': '# Notes\n', 'docs/old/a.md': 'a\n'}
    return {'prompt': 'Write 42 to answer.txt', 'setup_files': files, 'checker': checker} | more


def kept_run(studio: Studio, titles: tuple[str, ...] = ('Count the words', 'Add the numbers')) -> str:
    """Make it and return its id: two steps, each task attempted four times; the first attempt alone passed."""
    ids = [studio.documents.create(counting_task(title), status='published').id for title in titles]
    run = studio.runs.create('a kept run', 'starter', {}, ids)
    with Journal(studio.runs.folder(run.id)) as journal:
        journal.state('training')
        journal.keep_workspaces(64)
        for step in range(1, STEPS + 1):
            for group, (id, title) in enumerate(zip(ids, titles, strict=True)):
                for index, answer in enumerate(ANSWERS):
                    play(journal, step, group, index, id, title, answer)
        journal.state('finished')
    ingest(studio.database, run.id, studio.runs.folder(run.id))
    with studio.database.write() as session:
        row = session.get(RunTable, run.id)
        assert row is not None
        row.state, row.started_at, row.ended_at = 'finished', row.created_at, datetime.now(UTC)
    return run.id


def play(journal: Journal, step: int, group: int, index: int, task: str, title: str, answer: str) -> None:
    """Leave a workspace as an episode does, and record it."""
    assert journal.workspaces is not None
    folder = tempfile.TemporaryDirectory(prefix='rlvr-test-')
    final = Path(folder.name)
    (final / 'notes.md').write_text('# Notes\n', encoding='utf-8')
    (final / 'docs' / 'old').mkdir(parents=True)
    (final / 'docs' / 'old' / 'a.md').write_text('a\n', encoding='utf-8')
    (final / 'src').mkdir()
    (final / 'src' / 'count.py').write_text('print(6 * 7)\n', encoding='utf-8')
    (final / 'data.bin').write_bytes(bytes(range(256)))
    if answer:
        (final / 'answer.txt').write_text(answer, encoding='utf-8')
    verdict = Verdict.scored(1.0 if answer == '42\n' else 0.0, 'exit code 0' if answer == '42\n' else 'exit code 1')
    rollout = Rollout(
        step=step, task=task, title=title, group=group, index=index, prompt='Write 42 to answer.txt',
        verdict=verdict, workspace=journal.workspaces.take(final, folder.cleanup),
    )  # fmt: skip
    journal.rollout(rollout, 'train')
