"""Runs: made with frozen copies, started once, one at a time, stopped whole, deleted whole."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from sqlalchemy import event, text
from stand_in import ended, grandchildren, new_run, task, until

from studio.launchers.devices import gpu_share
from studio.runs.service import AlreadyStarted, RunQuery, StillActive
from studio.services import Studio
from trainer.errors import ConfigError, StoreError, TaskError
from trainer.runfolder import CHECKPOINT

Open = Callable[..., Studio]


def test_a_run_keeps_its_own_copy_of_the_tasks(open_studio: Open) -> None:
    """Case F4: tasks may change or go, the run's page shows them as they were."""
    studio = open_studio(watch=False)
    view = studio.documents.create(task(1), status='published')
    run = studio.runs.create('Run', 'starter', {'numGenerations': 40}, [view.id])
    studio.documents.save_draft(view.id, {**view.draft, 'prompt': 'Changed'}, revision=view.revision)
    studio.documents.delete(view.id)
    (kept,) = studio.runs.tasks(run.id)
    assert (kept.id, kept.version, kept.hash, kept.role) == (view.id, 1, view.hash, 'train')
    assert studio.runs.task(run.id, view.id).task_spec == view.task_spec
    config = studio.runs.folder(run.id).config()
    assert config.settings.rl.enabled and config.settings.rl.num_generations == 16
    assert [note.loc for note in run.notes] == ['rl.numGenerations']
    assert (run.state, run.can_start, run.task_count, run.pid) == ('queued', True, 1, None)


def test_what_is_refused_leaves_nothing(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    one, two = (studio.documents.create(task(number), status='published').id for number in (1, 2))
    refused = {
        'name': lambda: studio.runs.create('  ', 'starter', {}, [one]),
        'model': lambda: studio.runs.create('x', 'no-such-model', {}, [one]),
        'rl.lossType': lambda: studio.runs.create('x', 'starter', {'lossType': 'ppo'}, [one]),
        'temperature': lambda: studio.runs.create('x', 'starter', {'temperature': 0.0}, [one]),
        'held_out_ids': lambda: studio.runs.create('x', 'starter', {}, [one, two], [two]),
        'tasks': lambda: studio.runs.create('x', 'starter', {}, []),
    }
    for loc, create in refused.items():
        with pytest.raises(ConfigError) as error:
            create()
        assert [field.loc for field in error.value.fields] == [loc]
    with pytest.raises(TaskError):
        studio.runs.create('x', 'starter', {}, ['01JZZZZZZZZZZZZZZZZZZZZZZZ'])
    assert studio.runs.list().total == 0
    assert list(studio.settings.runs_folder.iterdir()) == []


def test_a_plan_reports_everything_that_is_wrong_at_once(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    bad = studio.runs.draft_plan('nope', {'rl': {'lossType': 'ppo', 'pipPackages': ['-e .']}}, [])
    assert {'model', 'rl.lossType', 'rl.pipPackages'} <= {error.loc for error in bad.errors}
    good = studio.runs.draft_plan('starter', {}, ['a', 'b'])
    assert good.plan is not None and good.plan.steps > 0 and not good.errors


@pytest.mark.parametrize('name', ['math/gsm8k hard: v2', '..', 'CON', 'задача 🚀', '=1', '</script>'])
def test_names_are_free_text_and_never_paths(open_studio: Open, name: str) -> None:
    studio = open_studio(watch=False)
    first, second = new_run(studio, name), new_run(studio, name)
    assert studio.runs.get(first.id).name == name
    assert {path.name for path in studio.settings.runs_folder.iterdir()} == {first.id, second.id}
    assert studio.runs.rename(first.id, 'Other').name == 'Other'


def test_the_same_request_makes_one_run(open_studio: Open) -> None:
    """Case C5: two clicks on a launch page."""
    studio = open_studio(watch=False)
    ids = [studio.documents.create(task(1), status='published').id]
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: studio.runs.create('x', 'starter', {}, ids, request='key').id, range(8)))
    assert len(made) == 1
    assert [path.name for path in studio.settings.runs_folder.iterdir()] == list(made)


def test_of_twenty_parallel_starts_one_starts(open_studio: Open) -> None:
    """Case C5."""
    studio = open_studio('--hold', 'training')
    run = new_run(studio)

    def start(_: int) -> str:
        try:
            return studio.runs.start(run.id).id
        except AlreadyStarted as error:
            return f'told of {error.run.id}'

    with ThreadPoolExecutor(20) as pool:
        said = sorted(pool.map(start, range(20)))
    assert said == sorted([run.id] + [f'told of {run.id}'] * 19)
    folder = str(studio.runs.folder(run.id).path)
    children = [process for process in psutil.process_iter() if _works_on(process, folder)]
    assert len(children) == 1


def test_another_run_waits_for_its_turn(open_studio: Open) -> None:
    studio = open_studio('--steps', '4', '--interval', '0', '--hold', 'training')
    first, second = new_run(studio, 'One'), new_run(studio, 'Two')
    studio.runs.start(first.id)
    waiting = studio.runs.start(second.id)
    assert (waiting.state, waiting.waiting, waiting.reason) == ('queued', True, 'Waits for "One" to end')
    active = studio.runs.active()
    assert active is not None and active.id == first.id
    for run in (first, second):
        (studio.runs.folder(run.id).path / 'go').touch()
    assert ended(studio, first.id).state == 'finished'
    assert ended(studio, second.id).state == 'finished'
    assert studio.runs.active() is None


def test_a_waiting_run_can_be_stopped(open_studio: Open) -> None:
    studio = open_studio('--steps', '200', '--interval', '0.05')
    first, second = new_run(studio), new_run(studio)
    studio.runs.start(first.id)
    studio.runs.start(second.id)
    assert studio.runs.stop(second.id).state == 'stopped'
    assert studio.runs.get(first.id).is_active


@pytest.mark.parametrize(
    'options',
    [
        ['--steps', '500', '--interval', '0.05'],
        ['--silent'],
        ['--silent', '--ignore-term', '--children'],
        ['--steps', '500', '--interval', '0.05', '--ignore-stop', '--ignore-term', '--children'],
        ['--steps', '500', '--interval', '0.05', '--children'],
    ],
    ids=' '.join,
)
def test_stop_ends_everything(open_studio: Open, options: list[str]) -> None:
    """Case C7: grandchildren, deaf ones, ones in their own session; "stopped" only when they are gone."""
    studio = open_studio(*options, stop_grace_s=1)
    run = new_run(studio)
    studio.runs.start(run.id)
    folder = studio.runs.folder(run.id)
    pids = [studio.runs.get(run.id).pid]
    if '--children' in options:
        pids += grandchildren(folder.path)
    if '--silent' not in options:
        until(lambda: studio.runs.get(run.id).step)
    studio.runs.stop(run.id)
    assert studio.runs.stop(run.id).stopping
    done = ended(studio, run.id, seconds=15)
    assert (done.state, done.reason) == ('stopped', 'stopped by the user')
    assert not [pid for pid in pids if psutil.pid_exists(int(pid or 0)) and not _is_zombie(int(pid or 0))]
    until(lambda: not [process for process in psutil.process_iter() if _works_on(process, str(folder.path))])
    assert studio.runs.start(new_run(studio).id).is_active


def test_stop_after_the_end_changes_nothing(open_studio: Open) -> None:
    studio = open_studio('--steps', '1')
    run = new_run(studio)
    studio.runs.start(run.id)
    done = ended(studio, run.id)
    assert studio.runs.stop(run.id) == studio.runs.get(run.id) == done
    assert done.state == 'finished'


def test_what_a_run_wrote_can_be_read(open_studio: Open) -> None:
    studio = open_studio('--steps', '8', '--rollouts', '4')
    run = new_run(studio, tasks=2)
    studio.runs.start(run.id)
    done = ended(studio, run.id)
    assert (done.step, done.total, done.has_adapter, done.latest['rewards/TfcodeEnv/mean']) == (8, 8, True, 1.0)
    names = [name for name in studio.runs.metric_names(run.id) if not name.startswith('machine/')]
    assert names == ['loss', 'rewards/TfcodeEnv/mean']
    assert studio.runs.metrics(run.id, ['loss', 'entropy'], after_step=6) == {'loss': ([7, 8], [1 / 7, 1 / 8])}
    assert [each.type for each in studio.runs.events(run.id, types=['state', 'artifact'])] == [
        'state', 'state', 'artifact', 'artifact', 'state'
    ]  # fmt: skip
    heat = studio.runs.heatmap(run.id)
    assert [row.title for row in heat] == ['Task 0', 'Task 1']
    assert [(cell.n, cell.errors) for cell in heat[0].cells] == [(2, 1), (2, 0)] * 4
    assert studio.runs.rollout_count(run.id) == 32
    assert studio.runs.rollout_count(run.id, outcome='error') == 8
    (last, *_) = studio.runs.rollouts(run.id, limit=1)
    assert last.step == 8
    record = studio.runs.rollout(run.id, last.id)
    assert (record.prompt, record.task, record.index) == ('Do {"it"}', last.task, last.index)
    assert len(studio.runs.group(run.id, 8, last.task)) == 2
    assert studio.runs.log_tail(run.id, 2)[0] == 'step 8'


def test_a_chart_keeps_its_spikes_when_it_is_thinned(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run = new_run(studio)
    with studio.database.write() as session:
        values = [{'r': run.id, 's': step, 'v': 9.0 if step == 4321 else 0.5} for step in range(10_000)]
        session.execute(text("INSERT INTO metric VALUES (:r, 'loss', :s, :s, :v)"), values)
    began = time.monotonic()
    steps, values = studio.runs.metrics(run.id, buckets=250)['loss']
    assert time.monotonic() - began < 10
    assert len(steps) <= 502 and max(values) == 9.0 and steps[values.index(9.0)] == 4321
    assert (steps[0], steps[-1]) == (0, 9999) and steps == sorted(steps)


def test_deleting_frees_rows_and_only_its_folder(open_studio: Open) -> None:
    studio = open_studio('--steps', '50', '--interval', '0.02', '--rollouts', '2')
    run, other = new_run(studio), new_run(studio)
    studio.runs.start(run.id)
    with pytest.raises(StillActive, match='running'):
        studio.runs.delete(run.id)
    ended(studio, run.id)
    size = studio.runs.folder_bytes(run.id)
    assert studio.runs.delete(run.id) == size > 0
    assert [path.name for path in studio.settings.runs_folder.iterdir()] == [other.id]
    with pytest.raises(StoreError):
        studio.runs.get(run.id)
    with studio.database.read() as session:
        for table in ('metric', 'event', 'rollout'):
            assert session.execute(text(f'SELECT count(*) FROM {table}')).scalar() == 0
        assert session.execute(text('PRAGMA foreign_key_check')).all() == []


def test_runs_are_listed_newest_first(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    made = [new_run(studio, f'Run {number}') for number in range(3)]
    studio.runs.start(made[0].id)
    page = studio.runs.list(RunQuery(per_page=2))
    assert [row.id for row in page.rows] == [made[2].id, made[1].id]
    assert page.total == 3
    assert studio.runs.list(RunQuery(states=('queued',))).total == 2
    assert [row.id for row in studio.runs.list(RunQuery(search='run 1')).rows] == [made[1].id]


def _works_on(process: psutil.Process, folder: str) -> bool:
    try:
        command = process.cmdline()
        return command[-1:] == [folder] and not any(part.endswith('wait.py') for part in command)
    except psutil.Error:
        return False


def _is_zombie(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_the_order_of_the_queue_can_be_changed_and_put_back(open_studio: Open) -> None:
    studio = open_studio('--steps', '4', '--interval', '0', '--hold', 'training', watch=False)
    made = [new_run(studio, name) for name in ('One', 'Two', 'Three', 'Four')]
    for run in made:
        studio.runs.start(run.id)

    def names() -> list[str]:
        return [view.name for view in studio.runs.waiting()]

    assert names() == ['Two', 'Three', 'Four']
    assert studio.runs.get(made[2].id).reason == 'Waits for "One" and the run before it to end'
    before = studio.runs.move(made[3].id, 0)
    assert names() == ['Four', 'Two', 'Three']
    assert studio.runs.get(made[3].id).reason == 'Waits for "One" to end'
    assert studio.runs.get(made[2].id).reason == 'Waits for "One" and 2 runs before it to end'
    studio.runs.stop(made[1].id)
    studio.runs.reorder(before)
    assert names() == ['Three', 'Four'], 'what left the queue meanwhile is skipped'
    with pytest.raises(StoreError, match='does not wait'):
        studio.runs.move(made[0].id, 0)
    studio.runs.resume(made[1].id)
    assert names() == ['Three', 'Four', 'Two']


def test_as_many_work_at_once_as_the_settings_allow(open_studio: Open) -> None:
    studio = open_studio('--steps', '4', '--interval', '0', '--hold', 'training', watch=False, runs_at_once=2)
    made = [new_run(studio, name) for name in ('One', 'Two', 'Three')]
    for run in made:
        studio.runs.start(run.id)
    assert [view.name for view in studio.runs.working()] == ['One', 'Two']
    assert [view.name for view in studio.runs.waiting()] == ['Three']
    studio.start()
    for run in made:
        (studio.runs.folder(run.id).path / 'go').touch()
    assert {ended(studio, run.id).state for run in made} == {'finished'}
    assert studio.runs.working() == ()


def test_gpus_are_dealt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('studio.launchers.devices.gpus', lambda: 4)
    monkeypatch.delenv('CUDA_VISIBLE_DEVICES', raising=False)
    assert gpu_share(0, 1) == {} == gpu_share(0, 5)
    assert [gpu_share(place, 2)['CUDA_VISIBLE_DEVICES'] for place in (0, 1)] == ['0,2', '1,3']
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '4,5,6,7')
    assert gpu_share(1, 3)['CUDA_VISIBLE_DEVICES'] == '5'


def test_a_checkpoint_is_asked_for_while_there_is_something_to_save(open_studio: Open) -> None:
    studio = open_studio('--steps', '4', '--interval', '0', '--hold', 'training')
    run = new_run(studio)
    with pytest.raises(StoreError, match='not training'):
        studio.runs.checkpoint(run.id)
    studio.runs.start(run.id)
    until(lambda: (view := studio.runs.get(run.id)).state == 'training' and view.step == 2)
    studio.runs.checkpoint(run.id)
    assert studio.runs.folder(run.id).requested(CHECKPOINT)
    assert studio.runs.saved(run.id).checkpoint == 0
    (studio.runs.folder(run.id).path / 'go').touch()
    ended(studio, run.id)
    assert studio.runs.saved(run.id).checkpoint == 2
    with pytest.raises(StoreError, match='not training'):
        studio.runs.checkpoint(run.id)


def test_a_deletion_that_fails_loses_nothing(open_studio: Open) -> None:
    studio = open_studio(watch=False)
    run = new_run(studio)

    def fail(_: object) -> None:
        raise StoreError('The disk is full: nothing was saved')

    event.listen(studio.database.engine, 'commit', fail)
    with pytest.raises(StoreError, match='disk is full'):
        studio.runs.delete(run.id)
    event.remove(studio.database.engine, 'commit', fail)
    assert studio.runs.get(run.id).name == run.name
    assert len(studio.runs.folder(run.id).tasks()) == 2
    studio.runs.delete(run.id)
    assert not list(studio.settings.runs_folder.iterdir())
