"""Pass rates and tiers on the pages: in the library, in the plan of a run, and what is said where nothing is known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from nicegui.testing import User
from stand_in import task

from studio.calibrations.rows import count, keep_subject, new_subject
from studio.services import Studio
from studio.store.tables import CalibrationJobTable
from studio.ui.components.elements import Text
from studio.ui.components.tiers import rate_cell
from trainer.calibration_messages import Counted


@pytest.fixture
def studio(open_studio: Callable[..., Studio]) -> Studio:
    return open_studio(watch=False)


def measure(studio: Studio, rewards: dict[str, tuple[float | None, ...]], *, job: Any = None) -> str:
    """Store what a calibration would have counted, by document."""
    subject = new_subject('starter', '', None, None, None)
    with studio.database.write() as session:
        keep_subject(session, subject)
        session.flush()
        for id, earned in rewards.items():
            counted = Counted(task=id, rewards=earned, error='the checker is gone' if None in earned else '')
            count(session, subject.key, studio.documents.get(id).hash, counted)
        if job is not None:
            session.add(job(subject.key))
        return subject.key


async def test_the_library_shows_rates_of_who_is_asked_for(user: User, studio: Studio) -> None:
    ids = [studio.documents.create(task(number), status='published').id for number in range(4)]
    await user.open('/')
    await user.should_see('New task')
    await user.should_not_see('Pass rate of')
    measure(studio, {ids[0]: (1.0, 0.0), ids[1]: (None, None), ids[2]: (0.0,) * 8})
    await user.open('/?tier=band')
    await user.should_see('Pass rate of')
    await user.should_see('1 of 4')
    await user.open('/?tier=unknown')
    await user.should_see('2 of 4')
    rates = studio.calibrations.rates(ids, studio.calibrations.subjects()[0].key)
    assert rate_cell(rates[ids[0]])['label'] == '1 of 2 attempts passed, 95% interval 9 to 91 percent'
    assert rate_cell(rates[ids[1]])['words'] == 'Not scored, 2 errors'
    assert rate_cell(rates.get(ids[3]))['words'] == 'Not calibrated'


async def test_the_plan_forecasts_or_says_that_it_cannot(user: User, studio: Studio) -> None:
    ids = [studio.documents.create(task(number), status='published').id for number in range(3)]
    await user.open('/train')
    await user.should_see('This model has attempted none of the tasks')
    assert len(user.find(content='Calibrate', kind=Text).elements) == 1, 'offered once, where the forecast is missed'
    measure(studio, {ids[0]: (1.0, 0.0), ids[1]: (0.0,) * 8})
    await user.open('/train')
    await user.should_see('from 2 to 8 attempts a task with Starter')
    await user.should_see('1 too hard')
    await user.should_see('Calibrate again')
    await user.should_not_see('Calibrate these')
    await user.should_see('1 not calibrated')
    await user.should_see('1 task not calibrated: the forecast leaves it out.')
    await user.should_see('Most groups would teach nothing.')
    await user.should_see('numGenerations 6 would keep 48% for 25% less time')


async def test_an_interrupted_calibration_can_be_gone_on_with(user: User, studio: Studio) -> None:
    (id,) = (studio.documents.create(task(0), status='published').id,)

    def job(subject: str) -> CalibrationJobTable:
        return CalibrationJobTable(
            id='01' + 'A' * 24,
            subject=subject,
            k=8,
            seed=1,
            state='running',
            tasks=[id, 'gone'],
            counted={'tasks': 1},
            created_at=datetime.now(UTC),
        )

    measure(studio, {id: (1.0,) * 8}, job=job)
    studio.calibrations.recover()
    await user.open('/')
    await user.should_see('Calibration interrupted: 1 of 2 tasks counted')
    await user.should_see('Go on')
