"""Checkpoints are whole or not there, and broken ones are named (case C6)."""

from pathlib import Path

import pytest

from trainer.checkpoints import MANIFEST, discard_after, newest, save, verified, whole_folder
from trainer.errors import RunFolderError


def fill(folder: Path) -> None:
    (folder / 'optimizer.pt').write_bytes(b'moments')
    (folder / 'adapter_model.safetensors').write_bytes(b'weights')


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_the_newest_is_found_and_only_the_last_are_kept(tmp_path: Path) -> None:
    for step in (2, 9, 10):
        save(tmp_path, step, fill, adapter=f'sum-{step}', keep=2)
    assert names(tmp_path) == ['step-10', 'step-9']
    found, broken = newest(tmp_path)
    assert found is not None
    assert (found.step, found.adapter, broken) == (10, 'sum-10', [])


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def half(folder: Path) -> None:
        fill(folder)
        raise OSError('no space left')

    save(tmp_path, 4, fill, adapter='', keep=2)
    with pytest.raises(OSError, match='no space'):
        save(tmp_path, 8, half, adapter='', keep=2)
    assert names(tmp_path) == ['step-4']


def test_a_killed_writer_leaves_nothing_that_counts(tmp_path: Path) -> None:
    save(tmp_path, 4, fill, adapter='', keep=2)
    (tmp_path / '.step-8.partial').mkdir()
    found, broken = newest(tmp_path)
    assert found is not None
    assert (found.step, broken) == (4, [])


@pytest.mark.parametrize(
    ('harm', 'said'),
    [
        (lambda path: (path / 'optimizer.pt').unlink(), 'step-8 is broken: optimizer.pt is missing'),
        (lambda path: (path / 'optimizer.pt').write_bytes(b'momentS'), 'step-8 is broken: optimizer.pt was changed'),
        (lambda path: (path / MANIFEST).unlink(), f'step-8 is broken: {MANIFEST} is missing or damaged'),
        (lambda path: (path / MANIFEST).write_text('{'), f'step-8 is broken: {MANIFEST} is missing or damaged'),
    ],
)
def test_a_broken_checkpoint_is_named_and_the_one_before_is_taken(tmp_path: Path, harm, said: str) -> None:  # type: ignore[no-untyped-def]
    save(tmp_path, 4, fill, adapter='', keep=2)
    harm(save(tmp_path, 8, fill, adapter='', keep=2).path)
    found, broken = newest(tmp_path)
    assert found is not None
    assert found.step == 4
    assert broken == [f'checkpoint {said}']
    discard_after(tmp_path, 4)
    assert names(tmp_path) == ['step-4']


def test_with_broken_ones_alone_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    made = save(tmp_path, 4, fill, adapter='', keep=2)
    (made.path / 'optimizer.pt').unlink()
    with pytest.raises(RunFolderError, match=r'step-4 is broken: optimizer\.pt is missing'):
        newest(tmp_path)
    with pytest.raises(RunFolderError):
        verified(made.path)


def test_no_checkpoint_is_no_error(tmp_path: Path) -> None:
    assert newest(tmp_path / 'nowhere') == (None, [])


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    for text in ('old', 'new'):
        with whole_folder(tmp_path / 'adapter') as folder:
            (folder / 'weights').write_text(text)
    with pytest.raises(KeyError), whole_folder(tmp_path / 'adapter') as folder:
        raise KeyError
    assert (tmp_path / 'adapter' / 'weights').read_text() == 'new'
    assert names(tmp_path) == ['adapter']
