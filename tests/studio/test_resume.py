"""Going on with a run: launched again from the studio, and steps that were done twice are shown once (case C6)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from stand_in import ended, new_run, until

from studio.cli.commands.progress import Display
from studio.ingest import ingest
from studio.runs.queue import row_of
from studio.runs.views import StillActive
from studio.services import Studio
from studio.ui.pages.run_parts import event_words
from trainer.errors import RunFolderError
from trainer.events import EventWriter, Metrics, Progress, Resumed, RolloutEvent
from trainer.runfolder import write_json

Open = Callable[..., Studio]


def test_a_stopped_run_goes_on_in_its_own_row(open_studio: Open) -> None:
    studio = open_studio('--steps', '600', '--interval', '0.05')
    run = new_run(studio)
    studio.runs.start(run.id)
    until(lambda: studio.runs.get(run.id).step > 1)
    with pytest.raises(StillActive):
        studio.runs.resume(run.id)
    studio.runs.stop(run.id)
    first = ended(studio, run.id)
    assert first.state == 'stopped'
    seen = studio.runs.events(run.id, limit=10_000)[-1].seq
    again = studio.runs.resume(run.id)
    assert again.id == run.id and again.pid != first.pid and not again.is_final
    until(lambda: studio.runs.events(run.id, after_seq=seen, types=['progress']))
    until(lambda: studio.runs.get(run.id).state == 'training')
    assert studio.runs.active() is not None
    studio.runs.stop(run.id)
    assert ended(studio, run.id).state == 'stopped'


def test_time_spent_working_goes_on_where_a_run_goes_on(open_studio: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hours of work, a pause of a day, another hour: three hours, and two of them while it waits for the third."""
    studio = open_studio(watch=False)
    monkeypatch.setattr(studio.runs, 'launch_waiting', lambda: None)
    run = new_run(studio)
    assert studio.runs.get(run.id).elapsed_s is None
    for began, hours, before, after in ((26, 2, None, 7200), (1, 1, 7200, 10_800)):
        assert studio.runs.get(run.id).elapsed_s == before
        with studio.database.write() as session:
            row = row_of(session, run.id)
            row.state, row.started_at = 'stopped', datetime.now(UTC) - timedelta(hours=began)
            row.ended_at = row.started_at + timedelta(hours=hours)
        assert studio.runs.get(run.id).elapsed_s == after
        assert studio.runs.resume(run.id).elapsed_s == after


def test_a_finished_run_has_nothing_left_until_its_steps_are_raised(open_studio: Open) -> None:
    studio = open_studio('--steps', '2')
    run = new_run(studio)
    studio.runs.start(run.id)
    ended(studio, run.id)
    folder = studio.runs.folder(run.id)
    write_json(folder.summary, {'state': 'finished', 'steps': 100_000, 'total': 99_999})
    with pytest.raises(RunFolderError, match='Nothing is left to do') as refused:
        studio.runs.resume(run.id)
    assert 'Raise the step count' in refused.value.hint
    assert studio.runs.get(run.id).state == 'finished'
    assert not studio.runs.resume(run.id, steps=100_000).is_final
    assert studio.runs.get(run.id).settings['rl']['maxSteps'] == 100_000
    assert ended(studio, run.id).state == 'finished'


def rollout(step: int, reward: float) -> RolloutEvent:
    return RolloutEvent(step=step, task='one', index=0, outcome='partial', reward=reward, offset=0)


def test_steps_done_twice_are_shown_once(open_studio: Open) -> None:
    """Also where the second attempt is not as far yet as the first one was."""
    studio = open_studio(watch=False)
    run = new_run(studio)
    folder = studio.runs.folder(run.id)
    with EventWriter(folder.events) as events:
        for step in range(1, 8):
            events.write(Metrics(step=step, values={'cold_start/loss': 2.0}))
        for step in range(1, 7):
            events.write(rollout(step, 0.25))
            events.write(Metrics(step=step, values={'loss': 1.0}))
        events.write(Resumed(step=4))
        events.write(Progress(step=4, total=10))
        events.write(rollout(5, 0.75))
        events.write(Metrics(step=5, values={'loss': 9.0}))
    ingest(studio.database, run.id, folder)
    assert studio.runs.metrics(run.id)['loss'] == ([1, 2, 3, 4, 5], [1.0, 1.0, 1.0, 1.0, 9.0])
    assert studio.runs.metrics(run.id)['cold_start/loss'][0] == list(range(1, 8))
    assert [(cell.step, cell.mean, cell.n) for row in studio.runs.heatmap(run.id) for cell in row.cells] == [
        (1, 0.25, 1), (2, 0.25, 1), (3, 0.25, 1), (4, 0.25, 1), (5, 0.75, 1),
    ]  # fmt: skip
    assert [row.reward for row in studio.runs.rollouts(run.id)] == [0.75, 0.25, 0.25, 0.25, 0.25]
    assert studio.runs.rollout_count(run.id) == 5
    assert studio.runs.get(run.id).step == 4


def test_where_it_goes_on_is_said_on_the_page_and_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Display() as display:
        for event, words in (
            (Resumed(step=4), 'Resumed from step 4'),
            (Resumed(stage='cold_start', step=2), 'Cold start resumed from step 2'),
        ):
            display.show(event)
            assert capsys.readouterr().err.strip() == words
            assert event_words(event) == (words, '')
