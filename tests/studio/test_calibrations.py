"""Calibration: attempts are counted by version and model, errors are no failures, what ends early keeps its counts."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from stand_in import task, until

from studio.calibrations.service import Calibrations
from studio.calibrations.views import AlreadyCalibrating, Who
from studio.documents.pass_rates import tier_of
from studio.documents.service import DocumentQuery, Documents
from studio.settings import Settings
from studio.store.database import Database
from trainer.errors import ConfigError, TaskError

STARTER = Who(model='starter')
Make = Callable[..., Calibrations]


@pytest.fixture
def make(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Opens calibration services over one store, whose process is the stand-in."""
    monkeypatch.setenv('PYTHONPATH', str(Path(__file__).parent))
    monkeypatch.setattr('studio.calibrations.job.LOOK_S', 0.05)
    opened: list[Calibrations] = []

    def open_one(*, working: Any = (), **options: Any) -> Calibrations:
        monkeypatch.setenv('RLVR_STUB_REWARDS', json.dumps(options))
        runs: Any = SimpleNamespace(working=lambda: working)
        adapters: Any = SimpleNamespace()
        service = Calibrations(database, Settings(home=tmp_path), runs, adapters, module='stub_calibration')
        opened.append(service)
        return service

    yield open_one
    for service in opened:
        service.close()


def ids_of(documents: Documents, count: int) -> list[str]:
    return [documents.create(task(number)).id for number in range(count)]


def test_attempts_are_counted_by_version_and_add_up(make: Make, documents: Documents) -> None:
    service = make(rewards={'Task 0': [1.0, 0.0], 'Task 1': [1.0], 'Task 2': [0.5, 0.0]})
    ids = ids_of(documents, 3)
    assert service.start(ids, STARTER, k=8).total == 24
    job = service.wait()
    assert job is not None and (job.state, job.tried, job.reason) == ('done', 3, '')
    subject = job.subject.key
    assert job.subject.title == 'Starter' and service.subjects()[0].seconds_each == pytest.approx(1.5 / 24)
    service.start(ids[:1], STARTER, k=4)
    service.wait()
    rates = service.rates(ids, subject)
    assert [(rates[id].passes, rates[id].attempts, rates[id].tier) for id in ids] == [
        (6, 12, 'band'), (8, 8, 'easy'), (0, 8, 'hard'),
    ]  # fmt: skip
    assert rates[ids[2]].rewards == {'0.5': 4, '0': 4} and rates[ids[2]].mean_reward == 0.25
    low, high = rates[ids[0]].interval
    assert (round(low, 3), round(high, 3)) == (0.254, 0.746)
    assert service.seconds(STARTER) == pytest.approx(2.0 / 28)
    # Another temperature is another subject: its counts are its own.
    service.start(ids[:1], Who(model='starter', temperature=0.5), k=2)
    other = service.wait()
    assert other is not None and other.subject.key != subject and other.subject.title == 'Starter, temperature 0.5'
    assert service.rates(ids, other.subject.key)[ids[0]].attempts == 2
    nearest = service.nearest(Who(model='starter', temperature=0.7))
    assert nearest is not None and nearest.key == other.subject.key
    nearest = service.nearest(STARTER)
    assert nearest is not None and nearest.key == subject


def test_errors_are_no_failures(make: Make, documents: Documents) -> None:
    service = make(rewards={'Task 0': [None], 'Task 1': [None, 1.0]})
    ids = ids_of(documents, 2)
    service.start(ids, STARTER, k=4)
    job = service.wait()
    assert job is not None and job.errors == 6
    rates = service.rates(ids, job.subject.key)
    assert (rates[ids[0]].tier, rates[ids[0]].rate, rates[ids[0]].errors) == ('unknown', None, 4)
    assert rates[ids[0]].error == 'the checker is gone'
    assert (rates[ids[1]].passes, rates[ids[1]].attempts, rates[ids[1]].errors) == (2, 2, 2)


def test_bounds_of_the_tiers() -> None:
    assert [tier_of(*counts) for counts in ((0, 0), (0, 8), (1, 11), (1, 10), (9, 10), (10, 11), (8, 8))] == [
        'unknown', 'hard', 'hard', 'band', 'band', 'easy', 'easy',
    ]  # fmt: skip


def test_the_library_is_filtered_and_sorted_by_what_was_measured(make: Make, documents: Documents) -> None:
    service = make(rewards={'Task 0': [0.0], 'Task 1': [1.0], 'Task 2': [1.0, 0.0]})
    ids = ids_of(documents, 4)
    service.start(ids[:3], STARTER, k=10)
    job = service.wait()
    assert job is not None
    subject = job.subject.key
    for tier, expected in (('hard', ids[0]), ('easy', ids[1]), ('band', ids[2]), ('unknown', ids[3])):
        page = documents.list(DocumentQuery(subject=subject, tier=tier))
        assert [row.id for row in page.rows] == [expected] and page.total == 1
    assert documents.list(DocumentQuery(tier='unknown')).total == 4
    for descending, order in ((False, (0, 2, 1, 3)), (True, (1, 2, 0, 3))):
        query = DocumentQuery(subject=subject, sort='rate', descending=descending)
        assert [row.id for row in documents.list(query).rows] == [ids[number] for number in order]
    # A changed task is another task: nothing is known of it, and the library says that its past was measured.
    changed = documents.get(ids[1])
    documents.save_draft(changed.id, {**changed.draft, 'prompt': 'Another one.'}, revision=changed.revision)
    row = next(row for row in documents.list(DocumentQuery(subject=subject)).rows if row.id == ids[1])
    assert row.pass_rate is not None and (row.pass_rate.is_stale, row.pass_rate.tier) == (True, 'unknown')
    assert documents.list(DocumentQuery(subject=subject, tier='unknown')).total == 2
    assert all(row.pass_rate is None for row in documents.list().rows)


def test_what_cannot_be_started_says_why_and_stores_nothing(make: Make, documents: Documents, tmp_path: Path) -> None:
    service = make(hang_after=0)
    (id,) = ids_of(documents, 1)
    draft = documents.create(title='Unfinished').id
    for k in (0, 65):
        with pytest.raises(ConfigError, match='1 to 64 attempts'):
            service.start([id], STARTER, k=k)
    with pytest.raises(TaskError, match='None of these tasks has a valid version'):
        service.start([draft], STARTER)
    with pytest.raises(ConfigError, match='no known model'):
        service.start([id], Who(model='nobody'))
    with pytest.raises(ConfigError, match='holds no adapter') as refused:
        service.start([id], Who(model='starter', adapter=str(tmp_path)))
    assert refused.value.fields[0].loc == 'adapter'
    with pytest.raises(ConfigError, match='holds no adapter'):
        service.start([id], Who(model='starter', adapter='a\0b'))
    assert service.job() is None and service.subjects() == ()
    assert service.start([id, draft], STARTER).skipped == 1
    with pytest.raises(AlreadyCalibrating):
        service.start([id], STARTER)


def test_cancel_keeps_what_was_counted_and_leaves_no_process(make: Make, documents: Documents, tmp_path: Path) -> None:
    service = make(rewards={'Task 0': [1.0]}, hang_after=2)
    ids = ids_of(documents, 4)
    service.start(ids, STARTER, k=4)
    until(lambda: (job := service.job()) is not None and job.tried == 2)
    until(lambda: len(psutil.Process().children(recursive=True)) >= 2)
    children = psutil.Process().children(recursive=True)
    service.cancel()
    job = service.job()
    assert job is not None and (job.state, job.tried, job.left) == ('cancelled', 2, 2)
    until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children))
    assert service.rates(ids, job.subject.key)[ids[0]].passes == 4
    assert not list((tmp_path / 'calibrations').iterdir())


def test_a_studio_that_goes_away_interrupts_and_the_next_goes_on(make: Make, documents: Documents) -> None:
    first = make(hang_after=1)
    ids = ids_of(documents, 3)
    first.start(ids, STARTER, k=2)
    until(lambda: (job := first.job()) is not None and job.tried == 1)
    first.close()
    second = make(rewards={'Task 1': [1.0], 'Task 2': [1.0]})
    second.recover()
    job = second.job()
    assert job is not None and (job.state, job.tried, job.left) == ('interrupted', 1, 2)
    assert second.go_on(job.id).tasks == 2
    rest = second.wait()
    assert rest is not None and (rest.state, rest.subject.key) == ('done', job.subject.key)
    rates = second.rates(ids, job.subject.key)
    assert [(rates[id].passes, rates[id].attempts) for id in ids] == [(0, 2), (2, 2), (2, 2)]


def test_a_studio_that_was_killed_is_recovered_from(make: Make, documents: Documents) -> None:
    killed = make(hang_after=0)
    killed.start(ids_of(documents, 1), STARTER)
    until(lambda: (job := killed.job()) is not None and job.text == 'Attempting')
    later = make()
    later.recover()
    job = later.job()
    assert job is not None and (job.state, job.reason) == ('interrupted', 'The studio ended meanwhile')


def test_training_comes_first(make: Make, documents: Documents) -> None:
    working = [SimpleNamespace(name='Night run')]
    service = make(working=working, rewards={'Task 0': [1.0]})
    ids = ids_of(documents, 2)
    service.start(ids, STARTER, k=2)
    until(lambda: (job := service.job()) is not None and job.text == 'Waits for "Night run" to end')
    working.clear()
    job = service.wait()
    assert job is not None and job.state == 'done'
    # One that works steps aside, and then goes on with what is left.
    other = make(working=working, hang_after=1)
    other.start(ids, STARTER, k=2)
    until(lambda: (job := other.job()) is not None and job.tried == 1)
    working.append(SimpleNamespace(name='Morning run'))
    until(lambda: (job := other.job()) is not None and job.state == 'waiting')
    working.clear()
    until(lambda: (job := other.job()) is not None and job.state == 'done')
    assert other.rates(ids, job.subject.key)[ids[1]].attempts == 4
    beside = make(working=[SimpleNamespace(name='Night run')])
    beside.start(ids, STARTER, k=2, beside_runs=True)
    job = beside.wait()
    assert job is not None and job.state == 'done'


def test_a_process_that_fails_says_why(make: Make, documents: Documents) -> None:
    service = make(fail='There is not enough memory for this model')
    service.start(ids_of(documents, 1), STARTER)
    job = service.wait()
    assert job is not None and (job.state, job.hint) == ('failed', 'Free some.')
    assert job.reason == 'There is not enough memory for this model'


def test_attempts_are_counted_for_the_weights_that_made_them(make: Make, documents: Documents, tmp_path: Path) -> None:
    folder = tmp_path / 'adapter'
    folder.mkdir()
    (folder / 'adapter_config.json').write_text('{}')
    (folder / 'adapter_model.safetensors').write_bytes(b'weights')
    who = Who(model='starter', adapter=str(folder))
    ids = ids_of(documents, 1)
    service = make(rewards={'Task 0': [1.0]})
    service.start(ids, STARTER, k=2)
    base = service.wait()
    service.start(ids, who, k=4)
    trained = service.wait()
    assert base is not None and trained is not None and trained.subject.title == 'Starter + adapter'
    counts = [service.rates(ids, job.subject.key)[ids[0]].attempts for job in (base, trained)]
    assert counts == [2, 4]
    # Trained on while the calibration waits for that, or while it loads: what comes then is no attempt of these.
    weights = folder / 'adapter_model.safetensors'
    working = [SimpleNamespace(name='Night run')]
    for options in ({'working': working}, {'overwrite': str(weights)}):
        service = make(rewards={'Task 0': [0.0]}, **options)
        service.start(ids, who, k=2)
        if working:
            weights.write_bytes(b'other weights')
            working.clear()
        job = service.wait()
        assert job is not None and (job.state, job.tried) == ('failed', 0)
        assert 'is another one than when this began' in job.reason and job.hint.startswith('Start again')
        assert service.rates(ids, trained.subject.key)[ids[0]].attempts == 4
        weights.write_bytes(b'weights')
