"""Runs side by side: what differs in their configuration, task by task what changed, and what is not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measured_runs import REWARD, measured, published

from studio.runs.comparison import Comparison
from studio.services import Studio

Open = Callable[..., Studio]


def compared(studio: Studio) -> Comparison:
    return Comparison(studio.database, studio.runs, studio.results)


def differing(studio: Studio, *runs: Any) -> dict[str, tuple[str | None, ...]]:
    return {row.key: row.values for row in compared(studio).configuration(runs) if row.differs}


def test_only_what_differs_in_effect_is_a_difference(open_studio: Open) -> None:
    """A value that was left to the preset in one run and given in the other is the same."""
    studio = open_studio(watch=False)
    task = published(studio, 'one')
    plain = measured(studio, 'a', tasks=[task])
    rate = compared(studio).configuration([plain])
    preset = next(row.values[0] for row in rate if row.key == 'learningRate')
    assert preset is not None
    same = measured(studio, 'b', tasks=[task], settings={'learningRate': float(preset)})
    assert differing(studio, plain, same) == {}
    other = measured(studio, 'c', tasks=[task, published(studio, 'two')], settings={'rl': {'entropyCoef': 0.2}})
    found = differing(studio, plain, same, other)
    assert found['rl.entropyCoef'] == ('0.05', '0.05', '0.2')
    assert found['tasks'][0] == found['tasks'][1] != found['tasks'][2]
    default = next(row.default for row in compared(studio).configuration([plain]) if row.key == 'rl.entropyCoef')
    assert default == '0.05'
    assert 'library torch' not in found, 'not recorded is no difference'


def test_libraries_and_sandbox_are_compared_where_they_are_recorded(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    task = published(studio, 'one')
    runs = [measured(studio, name, tasks=[task]) for name in 'abc']
    for run, version in zip(runs, ('2.13.0', '2.14.0', None), strict=True):
        folder = studio.runs.folder_path(run.id)
        (folder / 'adapter').mkdir()
        if version:
            text = f'{{"libraries": {{"torch": "{version}"}}}}'
            (folder / 'adapter' / 'lineage.json').write_text(text, encoding='utf-8')
    (studio.runs.folder_path(runs[2].id) / 'adapter' / 'lineage.json').write_text('["damaged"', encoding='utf-8')
    assert differing(studio, *runs) == {'library torch': ('2.13.0', '2.14.0', None)}


def test_tasks_are_matched_and_sorted_by_how_much_changed(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    easy, hard, alone, held = (published(studio, name) for name in ('easy', 'hard', 'alone', 'held'))
    rows = {step: {REWARD: 0.5} for step in range(1, 41)}
    first = measured(
        studio, 'first', tasks=[easy, hard], held_out=[held], rows=rows,
        solved=lambda step, task: 1.0 if task == easy else 0.0,
        evaluations={'before': {held: 1}, 'after': {held: 6}},
    )  # fmt: skip
    second = measured(
        studio, 'second', tasks=[easy, hard, alone], held_out=[held], rows=rows,
        solved=lambda step, task: None if step == 40 else 0.9,
        evaluations={'before': {held: 1}, 'after': {held: 5}},
    )  # fmt: skip
    found = compared(studio).tasks([first, second])
    assert [row.title for row in found] == ['hard', 'held', 'easy', 'alone']
    scores = dict(zip([row.title for row in found], [row.scores for row in found], strict=True))
    left, right = scores['held']
    assert left is not None and right is not None
    assert (left.kind, left.before, left.mean, left.n) == ('held_out', 1 / 8, 6 / 8, 8)
    assert found[1].change == 1 / 8
    left, right = scores['hard']
    assert left is not None and right is not None
    assert (left.kind, left.mean, left.n, left.step) == ('train', 0.0, 40, 40), 'the last 20 steps, 10 groups of 4'
    left, right = scores['alone']
    assert left is None and right is not None and right.mean is not None
    assert sum(row.scores[1].errors for row in found if row.scores[1]) == 4, 'errors are no zeros'


def test_a_changed_task_is_the_same_task_and_says_so(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    id = published(studio, 'one')
    before = measured(studio, 'before', tasks=[id], rows={1: {REWARD: 0.0}}, solved=lambda *_: 0.0)
    view = studio.documents.get(id)
    studio.documents.save_draft(id, {**view.draft, 'prompt': 'Something else.'}, revision=view.revision)
    after = measured(studio, 'after', tasks=[id], rows={1: {REWARD: 1.0}})
    (row,) = compared(studio).tasks([before, after])
    assert row.versions_differ and row.change == 1.0


def test_runs_of_any_state_and_runs_that_are_gone(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    live = measured(studio, 'live', rows={step: {REWARD: 0.5} for step in range(1, 4)}, state='training')
    failed = measured(studio, 'failed', rows={1: {REWARD: 0.1, 'loss': 0.2}}, state='failed')
    waiting = studio.runs.create('waiting', 'starter', {}, [published(studio, 'x')])
    (studio.runs.folder_path(failed.id) / 'evaluation-after.json').write_text('damaged', encoding='utf-8')
    service = compared(studio)
    views, gone = service.views([live.id, failed.id, waiting.id, 'nothing', live.id])
    assert [view.name for view in views] == ['live', 'failed', 'waiting'] and gone == ['nothing']
    assert service.series([view.id for view in views]) == {'loss': 1, REWARD: 2}
    lines = service.lines([view.id for view in views], [REWARD, 'loss'])
    assert lines[0][REWARD][0] == [1, 2, 3] and 'loss' not in lines[0] and lines[2] == {}
    assert len(service.tasks(views)) == 3
    assert all(row.change is None for row in service.tasks(views))
    assert service.configuration(views)


def test_no_more_than_six(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    ids = [measured(studio, str(number)).id for number in range(7)]
    assert len(compared(studio).views(ids)[0]) == 6
