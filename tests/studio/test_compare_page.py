"""The page that compares runs without a browser: what it shows, what it says where there is nothing to compare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from measured_runs import REWARD, measured, published
from nicegui.testing import User

from studio.runs.comparison import ComparedTask, Score
from studio.runs.views import RunView
from studio.services import Studio
from studio.settings import Settings
from studio.ui.pages.compare_reading import Reader
from studio.ui.pages.compare_series import chosen, specs
from studio.ui.pages.compare_tasks import in_order
from trainer.events import EventWriter, Metrics, Resumed

HOSTILE = '</script><img src=x onerror="document.title=\'pwned\'">'


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    opened = Studio(Settings(home=tmp_path / 'home'))
    yield opened
    opened.stop()


@pytest.fixture
def runs(studio: Studio) -> list[RunView]:
    task, held = published(studio, 'Fix the paginator'), published(studio, 'Held out')
    rows = {step: {REWARD: step / 10, 'entropy': 1.0} for step in range(1, 6)}
    return [
        measured(
            studio, HOSTILE, tasks=[task], held_out=[held], rows=rows,
            evaluations={'before': {held: 2}, 'after': {held: 6}},
        ),
        measured(
            studio, 'second', tasks=[task], rows=rows, solved=lambda *_: 0, settings={'rl': {'entropyCoef': 0.25}}
        ),
        measured(studio, 'third', tasks=[published(studio, 'Alone')], rows={1: {'loss': 0.1}}, state='failed'),
    ]  # fmt: skip


async def see(user: User, text: str) -> None:
    """Wait for a text: pages draw their frame first and read the store after."""
    await user.should_see(text, retries=60)


async def test_runs_stand_side_by_side_with_what_differs(user: User, runs: list[RunView]) -> None:
    await user.open(f'/compare?runs={",".join(run.id for run in runs[:2])}')
    await see(user, HOSTILE)
    await see(user, 'rl.entropyCoef')
    await see(user, '0.25')
    await see(user, 'Fix the paginator')
    await see(user, '1 in every run, 1 only in some')
    await see(user, 'not in this run')
    await user.should_not_see('learningRate')


async def test_a_link_keeps_series_and_settings_and_says_which_runs_are_gone(user: User, runs: list[RunView]) -> None:
    ids = [runs[0].id, 'gone', runs[1].id]
    await user.open(f'/compare?runs={",".join(ids)}&series=entropy&settings=all')
    await see(user, '1 run of this link is not here')
    await see(user, 'learningRate')
    await see(user, '1 of 2')


async def test_runs_without_a_common_series_are_compared_all_the_same(user: User, runs: list[RunView]) -> None:
    await user.open(f'/compare?runs={runs[0].id},{runs[2].id}')
    await see(user, 'No series is in all of these runs')
    await see(user, 'in 1 of 2 runs')


@pytest.mark.parametrize(('link', 'text'), [('', 'nothing to compare yet'), ('one', 'is the only run here')])
async def test_what_cannot_be_compared_asks_for_a_run(user: User, runs: list[RunView], link: str, text: str) -> None:
    await user.open(f'/compare?runs={runs[1].id if link else ""}')
    await see(user, text)


async def test_the_list_compares_what_is_ticked(user: User, runs: list[RunView]) -> None:
    await user.open('/runs')
    await see(user, 'second')
    boxes = sorted(user.find(kind=_checkbox()).elements, key=lambda box: box.id)
    for box in boxes[:2]:
        box.value = True
    await see(user, 'Compare (2)')
    user.find(marker='compare').click()
    await see(user, 'Task by task')


def _checkbox() -> type:
    from nicegui import ui

    return ui.checkbox


def test_a_tick_reads_only_what_is_new_and_a_resume_reads_all(studio: Studio) -> None:
    from studio.ingest import ingest

    ended = measured(studio, 'ended', rows={step: {REWARD: 0.5} for step in range(1, 4)})
    live = measured(studio, 'live', rows={step: {REWARD: 0.5} for step in range(1, 4)}, state='training')
    reader = Reader(studio, [ended.id, live.id], [REWARD])
    first = reader.read()
    assert first.lines is not None and first.lines[1][REWARD][0] == [1, 2, 3] and first.is_live
    folder = studio.runs.folder(live.id)
    with EventWriter(folder.events) as events:
        events.write(Metrics(step=4, values={REWARD: 0.75}))
        ingest(studio.database, live.id, folder)
        second = reader.read()
        assert second.lines is None and second.columns == [{}, {REWARD: ([3, 4], [0.5, 0.75])}]
        events.write(Resumed(step=2))
        ingest(studio.database, live.id, folder)
    third = reader.read()
    assert third.lines is not None and third.lines[1][REWARD][0] == [1, 2]
    studio.runs.delete(ended.id)
    assert reader.read().gone


def test_tasks_are_sorted_by_any_column_and_what_is_missing_is_last() -> None:
    def row(title: str, *means: float | None, change: float | None = None) -> ComparedTask:
        scores = tuple(None if mean is None else Score(kind='train', mean=mean, n=8) for mean in means)
        return ComparedTask(title=title, scores=scores, change=change, versions_differ=False)

    rows = [row('b', 0.5, 0.1, change=0.4), row('C', None, 0.2), row('a', 0.0, 1.0, change=1.0)]

    def titles(name: str, falls: bool) -> str:
        return ''.join(found.title for found in in_order(rows, name, falls=falls))

    assert titles('A', True) == 'baC' and titles('A', False) == 'abC'
    assert titles('change', True) == 'abC' and titles('change', False) == 'baC'
    assert titles('task', False) == 'abC' and titles('task', True) == 'Cba'


def test_lines_are_told_apart_without_colour(studio: Studio, runs: list[RunView]) -> None:
    known = studio.comparison.series([run.id for run in runs])
    assert chosen(known, ['loss', 'unknown']) == ['loss']
    assert chosen(known, ())[0] == REWARD
    chart = specs(['entropy', REWARD], runs, known)[0]
    assert chart.title == 'Reward' and chart.overlay
    assert len({line.dash for line in chart.series}) == len({line.label for line in chart.series}) == 3
