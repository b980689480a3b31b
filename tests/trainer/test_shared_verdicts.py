"""One verdict for equal final workspaces of a batch: what counts as equal, and what is never handed on."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainer.rollout.verdicts import SharedVerdicts
from trainer.task import TaskSpec, parse_task_spec
from trainer.verdict import Verdict


def task(command: str = 'true') -> TaskSpec:
    return parse_task_spec({'prompt': 'x', 'checker': {'type': 'exit_code', 'config': {'command': command}}})[0]


def workspace(folder: Path) -> Path:
    (folder / 'inner').mkdir(parents=True)
    (folder / 'inner' / 'a.txt').write_text('x')
    (folder / 'link').symlink_to('inner/a.txt')
    return folder


class Check:
    def __init__(self, *verdicts: Verdict) -> None:
        self.calls = 0
        self._verdicts = verdicts or (Verdict.scored(1.0),)

    def __call__(self) -> Verdict:
        self.calls += 1
        return self._verdicts[min(self.calls, len(self._verdicts)) - 1]


def test_equal_workspaces_are_checked_once(tmp_path: Path) -> None:
    verdicts, check = SharedVerdicts(), Check()
    for name in ('one', 'two'):
        assert verdicts.of(task(), workspace(tmp_path / name), check).solved
    assert check.calls == 1
    assert SharedVerdicts().of(task(), tmp_path / 'one', check).solved
    assert check.calls == 2, 'another batch starts afresh'


@pytest.mark.parametrize(
    'change',
    [
        lambda folder: (folder / 'inner' / 'a.txt').write_text('y'),
        lambda folder: (folder / 'inner' / 'a.txt').chmod(0o755),
        lambda folder: (folder / 'inner').chmod(0o700),
        lambda folder: (folder / 'inner' / 'a.txt').rename(folder / 'inner' / 'b.txt'),
        lambda folder: (folder / 'empty').mkdir(),
        lambda folder: ((folder / 'link').unlink(), (folder / 'link').symlink_to('inner')),
    ],
    ids=['content', 'mode', 'mode of a folder', 'name', 'empty folder', 'target of a link'],
)
def test_whatever_a_checker_can_see_tells_them_apart(tmp_path: Path, change) -> None:  # type: ignore[no-untyped-def]
    verdicts, check = SharedVerdicts(), Check()
    verdicts.of(task(), workspace(tmp_path / 'one'), check)
    other = workspace(tmp_path / 'two')
    change(other)
    verdicts.of(task(), other, check)
    verdicts.of(task('false'), tmp_path / 'one', check)
    assert check.calls == 3


def test_errors_are_not_handed_on(tmp_path: Path) -> None:
    verdicts, check = SharedVerdicts(), Check(Verdict.not_scored('disk full'), Verdict.scored(0.5))
    folder = workspace(tmp_path / 'one')
    assert [verdicts.of(task(), folder, check).reward for _ in range(3)] == [None, 0.5, 0.5]

    def broken() -> Verdict:
        raise OSError('gone')

    with pytest.raises(OSError, match='gone'):
        verdicts.of(task('false'), folder, broken)
    assert verdicts.of(task('false'), folder, check).reward == 0.5


def test_a_workspace_that_cannot_be_compared_is_checked_for_itself(tmp_path: Path) -> None:
    verdicts, check = SharedVerdicts(), Check()
    folder = workspace(tmp_path / 'one')
    deep = folder
    for _ in range(70):
        deep = deep / 'd'
    deep.mkdir(parents=True)
    for _ in range(2):
        verdicts.of(task(), folder, check)
    assert check.calls == 2


def test_those_that_come_meanwhile_wait_for_the_first(tmp_path: Path) -> None:
    verdicts, started, go, calls = SharedVerdicts(), threading.Event(), threading.Event(), []
    folder = workspace(tmp_path / 'one')

    def check() -> Verdict:
        calls.append(1)
        started.set()
        assert go.wait(20)
        return Verdict.scored(0.25)

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(verdicts.of, task(), folder, check)
        assert started.wait(20)
        others = [pool.submit(verdicts.of, task(), folder, check) for _ in range(3)]
        go.set()
        assert [one.result(20).reward for one in (first, *others)] == [0.25] * 4
    assert len(calls) == 1
