"""An import plans before it stores: new, same, conflict, refused; what was stored can be taken back."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from stand_in import SPEC, task

from studio.documents.service import DocumentQuery, Documents
from studio.documents.transfer import Plan, Receipt, Transfer
from studio.exchange.pool import Incoming
from studio.store.database import Database
from trainer.errors import TaskError


@pytest.fixture
def transfer(documents: Documents) -> Transfer:
    return Transfer(documents)


def plan(transfer: Transfer, *rows: Any) -> Plan:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    return transfer.plan([Incoming('tasks.jsonl', '\n'.join(lines).encode())])


def results(receipt: Receipt) -> list[str]:
    return [stored.result for stored in receipt.rows]


def test_a_plan_says_what_each_row_would_become_and_stores_nothing(transfer: Transfer, documents: Documents) -> None:
    here = documents.create(task(1, topics=['a']))
    changed = {**SPEC, 'prompt': 'Another'}
    made = plan(
        transfer,
        {'title': 'New', 'task_spec': {**SPEC, 'prompt': 'New'}},
        task(1).task_spec.to_json(),
        {'title': 'Task 1', 'task_spec': changed, 'solutions': [{'kind': 'wrong'}]},
        {'id': here.id, 'title': 'Renamed', 'task_spec': changed},
        {'title': 'New', 'task_spec': {**SPEC, 'prompt': 'New'}},
        'nope',
        {'title': 'x' * 201, 'task_spec': SPEC},
        {'title': 'x', 'topics': ['y' * 61], 'task_spec': SPEC},
    )
    assert [row.status for row in made.rows] == ['new', 'same', 'conflict', 'conflict', 'same', *['refused'] * 3]
    assert made.rows[2].reason == 'Here as “Task 1” (v1); prompt, solutions differ'
    assert made.rows[3].reason == 'Here as “Task 1” (v1); prompt, title differ' and made.rows[3].id == here.id
    assert made.rows[4].reason == 'The same as line 1'
    assert (made.count('conflict'), made.formats) == (2, ('JSON or JSONL of tasks',))
    assert documents.list().total == 1 and documents.get(here.id) == here


@pytest.mark.parametrize('choice', ['keep', 'version', 'copy'])
def test_conflicts_end_as_they_are_told_and_can_be_taken_back(
    transfer: Transfer, documents: Documents, choice: Any
) -> None:
    here = documents.create(task(1, topics=['mine']), status='published')
    new = {'title': 'Task 1', 'topics': ['theirs'], 'task_spec': {**SPEC, 'prompt': 'Another'}, 'notes': 'n'}
    receipt = transfer.store(plan(transfer, new), conflicts=choice)
    view = documents.get(here.id)
    assert results(receipt) == [{'keep': 'kept'}.get(choice, choice)]
    if choice == 'version':
        assert (view.draft['prompt'], view.version, view.topics, view.notes) == ('Another', 2, ('mine', 'theirs'), 'n')
        assert [one.number for one in documents.versions(here.id)] == [2, 1]
    else:
        assert view == here
    titles = [row.title for row in documents.list(DocumentQuery(sort='created', descending=False)).rows]
    assert titles == (['Task 1', 'Task 1 (copy)'] if choice == 'copy' else ['Task 1'])
    assert transfer.undo(receipt) == ()
    back = documents.get(here.id)
    assert (back.draft, back.topics, back.notes, back.status) == (here.draft, here.topics, '', 'published')
    assert documents.list().total == 1


def test_single_rows_can_be_decided(transfer: Transfer, documents: Documents) -> None:
    for number in range(2):
        documents.create(task(number))
    made = plan(transfer, *({'title': f'Task {n}', 'task_spec': {**SPEC, 'prompt': f'Other {n}'}} for n in range(2)))
    assert results(transfer.store(made, {1: 'copy'}, conflicts='version')) == ['version', 'copy']


def test_what_changed_after_the_preview_is_left_alone(transfer: Transfer, documents: Documents) -> None:
    here = documents.create(task(1))
    made = plan(
        transfer, {'title': 'Task 1', 'task_spec': {**SPEC, 'prompt': 'Theirs'}}, {'title': 'N', 'task_spec': SPEC}
    )
    mine = documents.save_draft(here.id, {**SPEC, 'prompt': 'Mine'}, revision=here.revision)
    twin = documents.create(raw=SPEC, title='Twin')
    receipt = transfer.store(made, conflicts='version')
    assert results(receipt) == ['left', 'here'] and receipt.rows[1].id == twin.id
    assert documents.get(here.id) == mine


def test_undo_leaves_what_was_changed_since(transfer: Transfer, documents: Documents) -> None:
    receipt = transfer.store(plan(transfer, *(task(n).task_spec.to_json() for n in range(2))))
    first, second = (stored.id for stored in receipt.rows)
    documents.update(second, title='Mine now', revision=documents.get(second).revision)
    assert transfer.undo(receipt) == ('Mine now',)
    assert [row.id for row in documents.list().rows] == [second]
    documents.restore(first)


def test_drafts_unless_the_file_or_the_user_says_published(transfer: Transfer, documents: Documents) -> None:
    body = {'workspaceid': 'w', 'data': [{'rawTrainingData': {'task_spec': SPEC}, 'title': 'T', 'status': 'published'}]}
    (stored,) = transfer.store(transfer.plan([Incoming('b.json', json.dumps(body).encode())])).rows
    assert documents.get(stored.id).status == 'published'
    (draft,) = transfer.store(plan(transfer, task(3).task_spec.to_json())).rows
    assert (documents.get(draft.id).status, documents.get(draft.id).title) == ('draft', SPEC['prompt'] + ' 3')
    (published,) = transfer.store(plan(transfer, task(4).task_spec.to_json()), publish=True, topics=['t']).rows
    assert (documents.get(published.id).status, documents.get(published.id).topics) == ('published', ('t',))


def test_an_import_can_be_stopped_and_what_was_stored_taken_back(transfer: Transfer, documents: Documents) -> None:
    made = plan(transfer, *(task(number).task_spec.to_json() for number in range(250)))
    cancel, seen = threading.Event(), []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 200:
            cancel.set()

    receipt = transfer.store(made, on_progress=progress, cancel=cancel)
    assert seen == [(100, 250), (200, 250)] and receipt.count('added') == 200 == documents.list().total
    transfer.undo(receipt)
    assert documents.list().total == 0
    assert transfer.store(plan(transfer, *(task(n).task_spec.to_json() for n in range(3)))).count('added') == 3


@pytest.mark.parametrize('format', ['jsonl', 'harbor'])
def test_an_export_can_be_imported_elsewhere(
    transfer: Transfer, documents: Documents, tmp_path: Path, format: str
) -> None:
    solutions = [{'kind': 'reference', 'steps': [{'tool': 'read_file', 'args': {'path': 'a'}}]}]
    view = documents.create(task(1, solutions=solutions, topics=['a'], notes='n'))
    documents.create(raw={'prompt': ''})
    path = tmp_path / 'out'
    content = transfer.export(None, format)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert [row.status for row in transfer.plan_paths([path]).rows] == ['same']
    other = Database(f'sqlite:///{tmp_path / "other.db"}')
    other.migrate()
    there = Documents(other)
    (stored,) = Transfer(there).store(Transfer(there).plan_paths([path])).rows
    copy = there.get(stored.id)
    other.close()
    assert copy.model_dump(include={'title', 'topics', 'draft', 'hash', 'solutions', 'notes'}) == view.model_dump(
        include={'title', 'topics', 'draft', 'hash', 'solutions', 'notes'}
    )


def test_an_export_names_what_has_no_version(transfer: Transfer, documents: Documents) -> None:
    with pytest.raises(TaskError, match='1 of 1'):
        transfer.export([documents.create().id])
