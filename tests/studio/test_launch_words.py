"""The launch page in its words and rows: what hinders a start, what the plan says, tasks to choose from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nicegui import ui
from nicegui.testing import User

from studio.documents.samples import load_tutorial
from studio.services import Studio
from studio.settings import Settings
from studio.ui.pages.launch_plan import draw_plan
from studio.ui.pages.launch_ready import blocking, standing
from studio.ui.pages.launch_tasks import Picker, TaskChoice


@pytest.fixture(scope='module')
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    opened = Studio(Settings(home=tmp_path_factory.mktemp('home')))
    load_tutorial(opened.documents)
    yield opened
    opened.stop()


@pytest.mark.parametrize(
    ('settings', 'said'),
    [
        ({'rl': {'numGenerations': 'x'}}, 'numGenerations: A whole number is needed.'),
        ({'learningRate': 'x'}, 'learningRate: A number is needed.'),
        ({'seed': -1}, 'seed: Must be greater than or equal to 0.'),
        ({'coldStart': {'batchSize': 'x'}}, 'coldStart.batchSize: A whole number is needed.'),
    ],
)
def test_the_plan_says_what_is_wrong_in_the_words_of_the_field(
    studio: Studio, settings: dict[str, object], said: str
) -> None:
    ids = [row.id for row in studio.documents.list().rows]
    now = standing(studio, 'starter', settings, ids, [])
    (need,) = blocking(
        now,
        train=len(ids),
        solutions=1,
        cold_start=False,
        refused_packages=False,
        model_problem='',
        sandbox=None,
    )
    assert f'{need.lead} {need.text}' == said


@pytest.mark.parametrize(
    ('settings', 'said'),
    [
        ({}, 'a step is one pass of 64 rollouts'),
        ({'batchSize': 4, 'gradientAccumulationSteps': 2}, 'a step is 2 passes of 4 rollouts'),
    ],
)
async def test_the_plan_says_what_a_batch_is(
    user: User, studio: Studio, settings: dict[str, object], said: str
) -> None:
    ids = [row.id for row in studio.documents.list().rows]
    now = standing(studio, 'starter', settings, ids, [])
    await user.open('/runs')
    with user:
        draw_plan(now, train=len(ids), held_out=0, measure=lambda: None)
    await user.should_see(said)


async def test_a_row_is_four_cells_whatever_is_known_of_its_task(user: User, studio: Studio) -> None:
    """The grid of the dialog has four columns: a fifth cell would fall below the row, out of sight."""
    choice = TaskChoice(studio.documents.list().rows, None, None)
    both = choice.held_out_ids[0]
    await user.open('/runs')
    with user:
        Picker(choice, lambda: None, {both: 'band', choice.train_ids[0]: 'easy'})
    await user.should_see('Choose tasks')
    rows = [one for one in user.find(ui.element).elements if 'row2' in one.classes]
    assert len(rows) == len(choice.rows)
    assert {len(row.default_slot.children) for row in rows} == {4}
