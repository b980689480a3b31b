"""Final workspaces on disk: stored once, within their limit, dull ones dropped first, nothing of them believed."""

from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainer.errors import RunFolderError
from trainer.events import Redone
from trainer.kept_workspaces import MAX_FILE_BYTES, KeptWorkspace, Tree, WorkspaceFolder
from trainer.recording import Rollout
from trainer.verdict import Verdict
from trainer.workspace_capture import Capture
from trainer.workspace_keeper import BLOCK, WorkspaceKeeper, WorkspaceStore

Make = Callable[[dict[str, bytes]], Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    numbers = iter(range(10_000))

    def made(files: dict[str, bytes]) -> Path:
        folder = tmp_path / f'final-{next(numbers)}'
        folder.mkdir()
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder

    return made


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / 'run'
    folder.mkdir()
    return folder


def rollout(name: str, reward: float | None = 0.0, *, step: int = 1, group: int = 0, index: int = 0, **more) -> Rollout:  # type: ignore[no-untyped-def]
    verdict = Verdict.not_scored('broken') if reward is None else Verdict.scored(reward)
    return Rollout(step=step, task='t', group=group, index=index, prompt='p', verdict=verdict, workspace=name, **more)


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def keeper(run: Path, notices: list[str]) -> Iterator[WorkspaceKeeper]:
    keeper = WorkspaceKeeper(run, limit_bytes=1024**2, notice=notices.append)
    yield keeper
    keeper.close()


def contents(run: Path) -> list[Path]:
    return sorted(WorkspaceFolder(run).files.glob('*/*'))


def test_what_is_kept_comes_back_as_it_was(run: Path, make: Make, tmp_path: Path, keeper: WorkspaceKeeper) -> None:
    final = make({'a.txt': b'one\n', 'deep/er/b.bin': bytes(range(256)), 'empty': b''})
    (final / 'deep/run.sh').write_bytes(b'#!/bin/sh\n')
    (final / 'deep/run.sh').chmod(0o755)
    (final / 'link').symlink_to('deep/er/b.bin')
    (final / os.fsdecode(b'not-utf8-\xff')).write_bytes(b'x')
    released: list[bool] = []
    name = keeper.take(final, lambda: released.append(True))
    keeper.keep(rollout(name, 1.0), 77)
    keeper.close()
    folder = WorkspaceFolder(run)
    kept = folder.get(name)
    assert kept is not None
    assert released == [True]
    assert (kept.offset, kept.outcome, kept.why_not_whole) == (77, 'passed', '')
    target = tmp_path / 'again'
    target.mkdir()
    folder.unpack(kept, target)
    assert (target / 'a.txt').read_bytes() == b'one\n'
    assert (target / 'link').readlink() == Path('deep/er/b.bin')
    assert (target / 'deep/run.sh').stat().st_mode & 0o777 == 0o755
    assert {os.fsencode(path.relative_to(target)) for path in target.rglob('*')} == {
        os.fsencode(path.relative_to(final)) for path in final.rglob('*')
    }


def test_each_content_is_stored_once_and_goes_with_its_last_use(run: Path, make: Make) -> None:
    store = WorkspaceStore(WorkspaceFolder(run), 1024**2)
    store.open()
    capture = Capture()
    for index in range(4):
        captured = capture.read(make({'same.txt': b'same', 'own.txt': b'own %d' % index}))
        store.keep(_kept(index, captured.tree), captured.contents)
    assert len(contents(run)) == 5
    store.forget(Redone(('train', 'during'), 1))
    assert (contents(run), store.bytes) == ([], 0)


def test_done_again_takes_the_place_and_a_resume_drops_later_steps(run: Path, make: Make) -> None:
    store = WorkspaceStore(WorkspaceFolder(run), 1024**2)
    store.open()
    capture = Capture()

    def keep(number: int, **more: object) -> None:
        captured = capture.read(make({'a': b'%d' % number}))
        store.keep(_kept(number, captured.tree, **more), captured.contents)

    keep(1, step=1, index=0)
    keep(2, step=2, index=0)
    keep(3, step=2, index=0)
    keep(4, step=9, index=0, stage='after')
    assert {kept.offset for kept in WorkspaceFolder(run).all()} == {1, 3, 4}
    again = WorkspaceStore(WorkspaceFolder(run), 1024**2)
    again.open()
    assert again.bytes == store.bytes
    again.forget(Redone(('train', 'during'), 2))
    assert {kept.offset for kept in WorkspaceFolder(run).all()} == {1, 4}
    assert len(contents(run)) == 2


def test_the_oldest_and_dullest_make_room_first(run: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('trainer.workspace_keeper.ROOM', 1.0)  # one at a time, to see the order
    store = WorkspaceStore(WorkspaceFolder(run), 40 * BLOCK)
    store.open()
    capture = Capture()
    rewards: list[list[float | None]] = [
        [1.0, 0.0],  # a failure that a pass stands beside
        [0.0, 0.0],  # dull
        [0.5, 0.5],  # dull
        [None, 0.0],  # an error, and a failure alone: dull
        [1.0, 1.0],
    ]
    order: list[tuple[int, int]] = []

    def here() -> set[tuple[int, int]]:
        return {(kept.step, kept.index) for kept in WorkspaceFolder(run).all()}

    def keep(step: int, index: int, reward: float | None) -> None:
        captured = capture.read(make({'own': b'%d %d' % (step, index)}))
        offset = step * 10 + index
        store.keep(_kept(offset, captured.tree, reward, step=step, index=index), captured.contents)

    for step, group in enumerate(rewards):
        for index, reward in enumerate(group):
            keep(step, index, reward)
    assert len(here()) == 10, 'there is room for all: two blocks each'
    known = here()
    for index in range(60):
        keep(100, index, 1.0)
        order += sorted(known - here())
        known &= here()
    assert store.bytes <= 40 * BLOCK
    dull = [(1, 0), (1, 1), (2, 0), (2, 1), (3, 1)]
    assert order == [*dull, (0, 1), (0, 0), (3, 0), (4, 0), (4, 1)]


def test_what_alone_is_over_the_limit_drops_nothing(run: Path, make: Make) -> None:
    store = WorkspaceStore(WorkspaceFolder(run), 4 * BLOCK)
    store.open()
    capture = Capture()
    small, large = capture.read(make({'a': b'a'})), capture.read(make({'b': os.urandom(9 * BLOCK)}))
    store.keep(_kept(1, small.tree, index=0), small.contents)
    store.keep(_kept(2, large.tree, index=1), large.contents)
    assert [kept.offset for kept in WorkspaceFolder(run).all()] == [1]


def test_large_files_and_what_is_no_file_are_left_out_and_said(run: Path, make: Make, tmp_path: Path) -> None:
    final = make({'fine.txt': b'fine'})
    with (final / 'huge.bin').open('wb') as file:
        file.truncate(MAX_FILE_BYTES + 1)
    os.mkfifo(final / 'pipe')
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(final)  # a socket's path has to be short
        try:
            server.bind('socket')
        finally:
            os.chdir(here)
    tree = Capture().read(final).tree
    assert [entry.shown for entry in tree.entries] == ['fine.txt']
    assert [line.split(':')[0] for line in tree.left_out] == ['huge.bin', 'pipe', 'socket']
    kept = _kept(1, tree)
    assert kept.why_not_whole == 'not kept whole: huge.bin: larger than 16 MB'
    with pytest.raises(RunFolderError, match=r'huge\.bin'):
        WorkspaceFolder(run).unpack(kept, tmp_path)


def test_a_full_disk_and_an_unreadable_workspace_are_said_once_and_end_nothing(
    run: Path, make: Make, keeper: WorkspaceKeeper, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes
    finals = [make({'a': b'%d' % index}) for index in range(3)]

    def full(path: Path, data: bytes) -> int:
        write(path, data[: len(data) // 2])
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(Path, 'write_bytes', full)
    for index in range(3):
        keeper.keep(rollout(keeper.take(finals[index], lambda: None), index=index), index)
    gone = keeper.take(run / 'not-there', lambda: None)
    keeper.keep(rollout(gone), 5)
    keeper.captured(keeper.take(make({}), lambda: None))  # until all of it was tried
    monkeypatch.undo()
    keeper.keep(rollout(keeper.take(make({'a': b'later'}), lambda: None), index=9), 9)
    keeper.close()
    assert notices == ['Not every final workspace can be kept: No space left on device. Training goes on']
    assert [kept.offset for kept in WorkspaceFolder(run).all()] == [9], 'what can be stored later is'
    assert len(contents(run)) == 1
    assert not list(run.rglob('*.partial'))


def test_only_what_was_recorded_is_stored(run: Path, make: Make, keeper: WorkspaceKeeper) -> None:
    names = [keeper.take(make({'a': b'a'}), lambda: None) for _ in range(3)]
    keeper.drop(names[0])
    keeper.keep(rollout(names[1]), 1)
    keeper.keep(rollout('0' * 16), 2)
    keeper.close()
    assert WorkspaceFolder(run).names() == [names[1]]


def test_a_process_that_writes_nothing_reads_for_the_one_that_does(
    run: Path, make: Make, keeper: WorkspaceKeeper
) -> None:
    other = WorkspaceKeeper(None, limit_bytes=0, notice=pytest.fail)
    name = other.take(make({'a': b'there'}), lambda: None)
    captured = other.captured(name)
    other.close()
    assert captured is not None
    keeper.add(name, captured)
    keeper.keep(rollout(name), 3)
    keeper.close()
    kept = WorkspaceFolder(run).get(name)
    assert kept is not None
    assert WorkspaceFolder(run).content(kept.tree.entries[0]) == b'there'


@pytest.mark.parametrize('path', ['../out', '/etc/x', 'a/../../out', 'a//b', './a', 'no/such/folder', 'a\0b'])
def test_names_that_lead_out_are_refused(run: Path, tmp_path: Path, make: Make, path: str) -> None:
    kept = _stored(run, make, lambda data: data['tree']['entries'][0].update(path=_base64(path)))
    _refused(run, kept, tmp_path)
    assert not (tmp_path / 'out').exists()


def test_links_that_lead_out_are_refused(run: Path, tmp_path: Path, make: Make) -> None:
    def change(data: dict) -> None:  # type: ignore[type-arg]
        entries = data['tree']['entries']
        entries.insert(0, {'path': _base64('door'), 'kind': 'link', 'target': _base64('../..')})
        entries[1]['path'] = _base64('door/out')

    _refused(run, _stored(run, make, change), tmp_path)
    assert not list(tmp_path.rglob('out'))


@pytest.mark.parametrize('size', [1, 3, MAX_FILE_BYTES])
def test_a_content_of_another_size_or_checksum_is_refused(run: Path, tmp_path: Path, make: Make, size: int) -> None:
    kept = _stored(run, make, lambda data: data['tree']['entries'][0].update(size=size))
    _refused(run, kept, tmp_path)


def test_damaged_and_linked_files_are_refused(run: Path, tmp_path: Path, make: Make) -> None:
    kept = _stored(run, make, lambda data: None)
    (file,) = contents(run)
    file.write_bytes(file.read_bytes()[:-1])
    _refused(run, kept, tmp_path)
    file.unlink()
    file.symlink_to('/etc/hostname')
    _refused(run, kept, tmp_path)
    folder = WorkspaceFolder(run)
    folder.manifest(kept.name).write_text('{"name": ', encoding='utf-8')
    with pytest.raises(RunFolderError, match='damaged'):
        folder.get(kept.name)
    assert folder.get('../../../etc/passwd') is None
    assert list(folder.all()) == []
    assert list(folder.offsets()) == []


def test_what_is_damaged_is_removed_when_a_run_goes_on(run: Path, make: Make) -> None:
    kept = _stored(run, make, lambda data: None)
    folder = WorkspaceFolder(run)
    (folder.episodes / f'{"0" * 16}.json').write_text('{}', encoding='utf-8')
    folder.manifest(kept.name).write_text('{}', encoding='utf-8')
    store = WorkspaceStore(folder, 1024**2)
    store.open()
    assert (store.bytes, list(folder.episodes.iterdir()), contents(run)) == (0, [], [])


def test_a_folder_that_is_a_link_is_not_written_through(
    run: Path, tmp_path: Path, make: Make, notices: list[str]
) -> None:
    (tmp_path / 'elsewhere').mkdir()
    (run / 'workspaces').symlink_to(tmp_path / 'elsewhere')
    keeper = WorkspaceKeeper(run, limit_bytes=1024**2, notice=notices.append)
    keeper.keep(rollout(keeper.take(make({'a': b'a'}), lambda: None)), 1)
    keeper.close()
    assert list((tmp_path / 'elsewhere').iterdir()) == []
    assert len(notices) == 1


def _kept(
    offset: int,
    tree: Tree,
    reward: float | None = 0.0,
    *,
    step: int = 1,
    index: int | None = None,
    stage: str = 'train',
) -> KeptWorkspace:
    return KeptWorkspace(
        name=f'{offset:016x}',
        offset=offset,
        stage=stage,
        step=step,
        task='t',
        group=0,
        index=offset if index is None else index,
        outcome=(Verdict.not_scored('x') if reward is None else Verdict.scored(reward)).outcome,
        reward=reward,
        tree=tree,
    )


def _stored(run: Path, make: Make, change: Callable[[dict], object]) -> KeptWorkspace:  # type: ignore[type-arg]
    """Store a workspace with one file, then change its list as somebody might who means harm."""
    store = WorkspaceStore(WorkspaceFolder(run), 1024**2)
    store.open()
    captured = Capture().read(make({'a': b'ab'}))
    kept = _kept(1, captured.tree)
    store.keep(kept, captured.contents)
    path = WorkspaceFolder(run).manifest(kept.name)
    data = json.loads(path.read_text(encoding='utf-8'))
    change(data)
    path.write_text(json.dumps(data), encoding='utf-8')
    changed = WorkspaceFolder(run).get(kept.name)
    assert changed is not None
    return changed


def _refused(run: Path, kept: KeptWorkspace, tmp_path: Path) -> None:
    target = tmp_path / f'target-{len(list(tmp_path.iterdir()))}'
    target.mkdir()
    with pytest.raises(RunFolderError):
        WorkspaceFolder(run).unpack(kept, target)


def _base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()
