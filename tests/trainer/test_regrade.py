"""A run keeps its final workspaces; a changed checker grades them again, and the right verdicts flip."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from scripted_runs import ScriptedRun, new_policy, scripted
from test_rollout import DONE, WRITE, ScriptedEngine

from trainer.events import Evaluating, Notice, Resumed, RolloutEvent, read_events
from trainer.grpo import GrpoRun
from trainer.held_out import HeldOut
from trainer.kept_workspaces import KeptWorkspace, WorkspaceFolder
from trainer.recording import Rollout
from trainer.regrade import Change, Ground, Regraded, counted, obstacle, recorded, regrade
from trainer.rollout.chat import Chat
from trainer.rollout.environment import TfcodeEnv
from trainer.rollout.play import EpisodeLimits, Player, record
from trainer.rollout.shared import SharedPlayer
from trainer.runfolder import RunFolder
from trainer.sandbox import SandboxScope
from trainer.sandbox.python_env import base_environment
from trainer.task import TaskFile, TaskSpec, parse_task
from trainer.team import Team


def task(id: str, command: str, **spec: Any) -> TaskFile:
    checker = {'type': 'exit_code', 'config': {'command': command}}
    return parse_task({'id': id, 'title': id, 'task_spec': {'prompt': 'Write x to a.txt', 'checker': checker, **spec}})[
        0
    ]


IS_X = 'test "$(cat a.txt)" = x'
IS_Y = 'test "$(cat a.txt)" = y'
BROKEN = 'no-such-program a.txt'
GIVEN = (task('right', IS_X), task('wrong', IS_Y), task('broken', BROKEN), task('same', IS_X))


class RealRun(ScriptedRun):
    """A scripted run whose episodes have real sandboxes, and whose workspaces are kept."""

    def player(self, policy: Any) -> Player:
        assert self.journal.workspaces is not None
        keep = self.journal.workspaces.take
        engine = ScriptedEngine(self.tokenizer, [WRITE, DONE])
        limits = EpisodeLimits(300, 4, 1.0)
        return Player(Chat(self.tokenizer), engine, limits, lambda: TfcodeEnv(self.home, 'bubblewrap', keep=keep))


@pytest.fixture(scope='module')
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp('kept') / 'run'
    with scripted(folder, GIVEN, rl={'maxSteps': 2}, maxErrorShare=1.0, evalEvery=0, saveEvery=0) as made:
        assert isinstance(made, ScriptedRun)
        real = RealRun(**{name: getattr(made, name) for name in made.__dataclass_fields__})
        made.journal.keep_workspaces(64)
        stage = GrpoRun(real, HeldOut((), made.journal, k=0, temperature=1.0, seed=1))
        stage.train(new_policy(real))
    return RunFolder(folder)


@pytest.fixture(scope='module')
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    home = tmp_path_factory.mktemp('home')
    return Ground(home, 'bubblewrap', base_environment(home))


def graded(run: RunFolder, ground: Ground, tasks: dict[str, TaskSpec | str]) -> list[Regraded]:
    found: list[Regraded] = []
    regrade(run, list(WorkspaceFolder(run.path).all()), tasks, ground, on_result=found.append)
    return found


def test_every_recorded_episode_has_its_workspace(run: RunFolder) -> None:
    episodes = recorded(run)
    assert len(episodes) == 16
    folder = WorkspaceFolder(run.path)
    for offset, event in episodes.items():
        record = Rollout.model_validate(run.rollout(offset))
        kept = folder.get(record.workspace)
        assert kept is not None
        assert (kept.offset, kept.step, kept.task, kept.reward) == (offset, event.step, event.task, event.reward)
        assert [(entry.shown, folder.content(entry)) for entry in kept.tree.entries] == [('a.txt', b'x')]
    assert len(list(folder.files.glob('*/*'))) == 1, 'one content, stored once'
    assert not [event for event in read_events(run.events)[0] if isinstance(event, Notice)]


def test_a_changed_checker_flips_what_it_should(run: RunFolder, ground: Ground) -> None:
    specs = {one.id: one.task_spec for one in GIVEN}
    changed: dict[str, TaskSpec | str] = {
        **specs,
        'right': task('right', IS_Y).task_spec,
        'wrong': task('wrong', IS_X).task_spec,
        'broken': task('broken', IS_X).task_spec,
    }
    before = run.events.read_bytes(), run.rollouts.read_bytes()
    found = graded(run, ground, changed)
    each = {one.task: one.change for one in found}
    expected: dict[str, Change] = {
        'right': 'pass_to_fail', 'wrong': 'fail_to_pass', 'broken': 'error_to_scored', 'same': 'unchanged',
    }  # fmt: skip
    assert each == expected
    assert all(one.change == expected[one.task] for one in found)
    assert sum(counted(found).values()) == 16
    assert before == (run.events.read_bytes(), run.rollouts.read_bytes()), 'what was earned stays'


def test_the_runs_own_checkers_say_the_same_again(run: RunFolder, ground: Ground) -> None:
    found = graded(run, ground, {one.id: one.task_spec for one in run.tasks()})
    assert {one.change for one in found} == {'unchanged'}
    assert {one.after.outcome for one in found if one.after} == {'passed', 'failed', 'error'}


def test_what_cannot_be_graded_says_why(run: RunFolder, ground: Ground) -> None:
    kept = next(WorkspaceFolder(run.path).all())
    part = kept.model_copy(update={'tree': kept.tree.model_copy(update={'left_out': ('big.bin: larger than 16 MB',)})})
    found: list[Regraded] = []
    regrade(run, [kept, part], {}, ground, on_result=found.append)
    regrade(run, [part], {kept.task: GIVEN[0].task_spec}, ground, on_result=found.append)
    assert [one.change for one in found] == ['not_graded'] * 3
    assert {one.why_not for one in found} == {
        'the run has no such task', 'not kept whole: big.bin: larger than 16 MB',
    }  # fmt: skip


def test_cancelling_ends_what_runs(run: RunFolder, ground: Ground) -> None:
    forever = task('right', 'touch /tmp/started; sleep 600').task_spec
    kept: list[KeptWorkspace] = [one for one in WorkspaceFolder(run.path).all() if one.task == 'right']
    scope = SandboxScope()
    timer = threading.Timer(1.0, scope.end)
    timer.start()
    regrade(run, kept, {'right': forever}, ground, on_result=pytest.fail, scope=scope)
    timer.join()


def test_what_a_resume_does_again_is_not_counted_twice(run: RunFolder, tmp_path: Path) -> None:
    copy = RunFolder(tmp_path)
    last = [event for event in read_events(run.events)[0] if not isinstance(event, Notice)][-1]
    again = Resumed(seq=last.seq + 1, step=1).model_dump_json().encode()
    copy.events.write_bytes(run.events.read_bytes() + again + b'\n')
    assert {event.step for event in recorded(copy).values()} == {1}
    evaluated = RolloutEvent(seq=last.seq + 2, step=1, task='a', index=0, stage='after', outcome='passed', offset=10**9)
    begun = Evaluating(seq=last.seq + 3, stage='after', step=1)
    for event, found in ((evaluated, {'train', 'after'}), (begun, {'train'})):
        copy.events.write_bytes(copy.events.read_bytes() + event.model_dump_json().encode() + b'\n')
        assert {one.stage for one in recorded(copy).values()} == found


class Mirror(Team):
    """A team of two whose other process has always done the same."""

    def gather(self, value: Any) -> list[Any]:
        return [pickle.loads(pickle.dumps(value)) for _ in range(self.size)]


def test_workspaces_of_other_processes_are_kept_by_the_one_that_writes(tmp_path: Path, ground: Ground) -> None:
    with scripted(tmp_path / 'run', GIVEN[:2]) as run:
        run.journal.keep_workspaces(64)
        keeper = run.journal.workspaces
        assert keeper is not None
        player = SharedPlayer(
            Chat(run.tokenizer),
            ScriptedEngine(run.tokenizer, [WRITE, DONE]),
            EpisodeLimits(300, 4, 1.0),
            lambda: TfcodeEnv(ground.home, 'bubblewrap', keep=keeper.take),
            team=Mirror(0, 2),
            workspaces=keeper,
        )
        episodes = player.play([GIVEN[0], GIVEN[1]])
        player.close()
        rollout = record(episodes[1], step=1, stage='train', group=0, index=0, advantage=None)
        run.journal.rollout(rollout, 'train')
    (kept,) = WorkspaceFolder(tmp_path / 'run').all()
    assert (kept.name, [entry.shown for entry in kept.tree.entries]) == (rollout.workspace, ['a.txt'])


def test_a_task_that_begins_otherwise_cannot_be_graded() -> None:
    frozen = task('one', IS_X, setup_files={'data.csv': '1', 'tests.sh': 'a'}).task_spec

    def after(command: str = IS_X, **spec: Any) -> str:
        return obstacle(frozen, task('one', command, **spec).task_spec)

    assert after(setup_files={'data.csv': '1', 'tests.sh': 'a'}, max_steps=3) == ''
    assert after('sh tests.sh', setup_files={'data.csv': '1', 'tests.sh': 'b'}) == '', 'it is put back'
    assert 'tests.sh' in after(setup_files={'data.csv': '1', 'tests.sh': 'b'})
    assert 'data.csv' in after('sh tests.sh', setup_files={'data.csv': '2', 'tests.sh': 'a'})
    assert 'data.csv' in after('sh tests.sh', setup_files={'tests.sh': 'a'})
    assert 'setup commands' in after(setup_files={'data.csv': '1', 'tests.sh': 'a'}, setup_commands=['touch b'])
