"""Grading a run again from the studio: the library's checkers against the run's, and what is shown of its files."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from kept_run import ANSWERS, LENIENT, kept_run, spec
from stand_in import new_run, until

from studio.services import Studio
from studio.workspaces.regrade_views import Asked, RegradeView
from trainer.errors import RunFolderError, StoreError
from trainer.kept_workspaces import WorkspaceFolder
from trainer.regrade import CHANGES

Open = Callable[..., Studio]
Made = tuple[Studio, str]


@pytest.fixture
def made(open_studio: Open) -> Made:
    studio = open_studio(watch=False)
    return studio, kept_run(studio)


def edit(studio: Studio, task: str, command: str, **more: object) -> None:
    studio.documents.save_draft(task, spec(command, **more), revision=studio.documents.get(task).revision)


def graded(studio: Studio, run_id: str, **asked: object) -> RegradeView:
    studio.regrades.start(run_id, Asked.model_validate(asked))

    def view() -> RegradeView | None:
        found = studio.regrades.view(run_id)
        return found if found is not None and not found.is_active else None

    found: RegradeView = until(view)
    return found


def test_the_librarys_checker_flips_what_it_should_and_the_result_stays(made: Made, open_studio: Open) -> None:
    studio, run_id = made
    first, _ = studio.runs.tasks(run_id)
    edit(studio, first.id, LENIENT)
    before = studio.runs.folder(run_id).rollouts.read_bytes()
    choices = studio.regrades.choices(run_id)
    assert (choices.recorded, choices.kept, choices.why_none) == (16, 16, '')
    assert [(one.kept, one.is_changed, one.obstacle) for one in choices.tasks] == [(8, True, ''), (8, False, '')]
    view = graded(studio, run_id, source='library')
    assert (view.state, view.done, view.total, view.not_kept) == ('done', 16, 16, 0)
    counts = {change: count for change, count in view.counts.items() if count}
    assert counts == {'fail_to_pass': 2, 'unchanged': 14}
    rows, total = studio.regrades.rows(run_id)
    assert total == 16
    assert [(row.result.change, row.result.task, row.result.index) for row in rows[:2]] == [
        ('fail_to_pass', first.id, 1)
    ] * 2
    record = studio.runs.rollout(run_id, rows[0].id)
    assert (record.step, record.index, record.verdict.reward) == (2, 1, 0.0), 'the id opens the record'
    assert studio.runs.folder(run_id).rollouts.read_bytes() == before, 'what was earned stays'
    studio.stop()
    again = open_studio(watch=False)
    assert again.regrades.view(run_id) == view
    assert again.regrades.rows(run_id, change='fail_to_pass') == (rows[:2], 2)


def test_the_runs_own_checkers_say_the_same(made: Made) -> None:
    studio, run_id = made
    edit(studio, studio.runs.tasks(run_id)[0].id, LENIENT)
    view = graded(studio, run_id)
    assert {change for change, count in view.counts.items() if count} == {'unchanged'}
    assert set(view.counts) == set(CHANGES)


@pytest.mark.parametrize(('results', 'total'), [('', 8), ('passed', 2), ('not_passed', 6), ('error', 0)])
def test_a_selection_is_graded(made: Made, results: str, total: int) -> None:
    studio, run_id = made
    task = studio.runs.tasks(run_id)[1].id
    view = graded(studio, run_id, task=task, results=results)
    assert (view.state, view.done) == ('done', total)
    assert {row.result.task for row in studio.regrades.rows(run_id)[0]} <= {task}


def test_picked_rollouts_are_graded(made: Made) -> None:
    studio, run_id = made
    picked = [row.id for row in studio.runs.rollouts(run_id)[:3]]
    graded(studio, run_id, rollouts=picked)
    assert {row.id for row in studio.regrades.rows(run_id)[0]} == set(picked)


def test_what_cannot_be_graded_with_the_library_says_why(made: Made) -> None:
    studio, run_id = made
    first, second = studio.runs.tasks(run_id)
    edit(studio, first.id, LENIENT, setup_commands=['touch more'])
    studio.documents.delete(second.id)
    choices = studio.regrades.choices(run_id)
    assert 'setup commands' in choices.tasks[0].obstacle
    assert 'not in the library' in choices.tasks[1].obstacle
    view = graded(studio, run_id, source='library')
    assert view.counts['not_graded'] == 16
    rows, _ = studio.regrades.rows(run_id)
    assert all(row.result.why_not and row.result.after is None for row in rows)


def test_workspaces_that_are_gone_are_counted(made: Made) -> None:
    studio, run_id = made
    folder = WorkspaceFolder(studio.runs.folder_path(run_id))
    gone = sorted(folder.all(), key=lambda kept: kept.offset)[:3]
    for kept in gone:
        folder.manifest(kept.name).unlink()
    lost = next(folder.all())
    folder.file(next(entry.sha256 for entry in lost.tree.entries if entry.shown == 'notes.md')).unlink()
    view = graded(studio, run_id)
    assert view.not_kept == 3
    assert view.total == 13
    assert view.counts['not_graded'] == 13, 'all of them hold the file that was removed'
    missing = next(row for row in studio.runs.rollouts(run_id) if row.step == 1 and row.index == 0 and row.group == 0)
    shown = studio.workspaces.view(run_id, missing.id)
    assert 'keepWorkspacesMb' in shown.why_not and not shown.entries


def test_one_at_a_time_and_cancelled(made: Made) -> None:
    studio, run_id = made
    for task in studio.runs.tasks(run_id):
        edit(studio, task.id, 'sleep 600')
    studio.regrades.start(run_id, Asked(source='library'))
    with pytest.raises(StoreError, match='being graded again'):
        studio.regrades.start(run_id, Asked())
    studio.regrades.cancel(run_id)
    view = until(lambda: (found := studio.regrades.view(run_id)) and not found.is_active and found)
    assert (view.state, view.done) == ('cancelled', 0)
    assert graded(studio, run_id, results='passed').state == 'done'


def test_a_run_without_workspaces_says_so(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run = new_run(studio)
    assert studio.regrades.choices(run.id).why_none == 'No rollout has ended yet.'
    assert studio.regrades.view(run.id) is None
    assert studio.regrades.rows(run.id) == ([], 0)
    (studio.runs.folder_path(run.id) / 'regrade.json').write_text('{"view": 1}', encoding='utf-8')
    assert studio.regrades.view(run.id) is None, 'a damaged result is none'


def test_files_are_shown_with_what_changed(made: Made) -> None:
    studio, run_id = made
    row = next(row for row in studio.runs.rollouts(run_id) if row.index == 0)
    view = studio.workspaces.view(run_id, row.id)
    assert [(entry.path, entry.mark) for entry in view.entries] == [
        ('answer.txt', 'A'), ('data.bin', 'A'), ('docs', ''), ('docs/old', ''), ('docs/old/a.md', ''),
        ('notes.md', ''), ('src', 'A'), ('src/count.py', 'A'),
    ]  # fmt: skip
    assert studio.workspaces.read(run_id, row.id, 'answer.txt').text == ANSWERS[0]
    assert studio.workspaces.read(run_id, row.id, 'data.bin').note == 'Binary, 256 bytes'
    with pytest.raises(RunFolderError):
        studio.workspaces.read(run_id, row.id, '../../run.json')


def test_the_zip_holds_what_the_checker_saw_under_harmless_names(made: Made, tmp_path: Path) -> None:
    studio, run_id = made
    row = studio.runs.rollouts(run_id)[0]
    record = studio.runs.rollout(run_id, row.id)
    folder = WorkspaceFolder(studio.runs.folder_path(run_id))
    path = folder.manifest(record.workspace)
    data = json.loads(path.read_text(encoding='utf-8'))
    entry = next(one for one in data['tree']['entries'] if one['path'] == 'YW5zd2VyLnR4dA==')
    data['tree']['entries'] += [
        entry | {'path': 'Li5cLi5cZXZpbC50eHQ='},  # ..\..\evil.txt
        {'path': 'bGluaw==', 'kind': 'link', 'target': 'YW5zd2VyLnR4dA=='},
    ]
    path.write_text(json.dumps(data), encoding='utf-8')
    with zipfile.ZipFile(io.BytesIO(studio.workspaces.zip(run_id, row.id))) as archive:
        assert archive.read('answer.txt').decode() == ANSWERS[row.index]
        assert '.._.._evil.txt' in archive.namelist()
        assert stat.S_ISLNK(archive.getinfo('link').external_attr >> 16)
        archive.extractall(tmp_path / 'out')
    data['tree']['entries'].append(entry | {'path': 'Li4vZXZpbA=='})  # ../evil
    path.write_text(json.dumps(data), encoding='utf-8')
    with pytest.raises(RunFolderError):
        studio.workspaces.zip(run_id, row.id)
