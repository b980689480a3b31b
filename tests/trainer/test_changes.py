"""What an episode changed, read from the final workspace."""

import os
from pathlib import Path

from trainer.rollout.changes import MAX_FILES, changes


def test_added_modified_deleted_and_untouched(tmp_path: Path) -> None:
    (tmp_path / 'new').mkdir()
    (tmp_path / 'new' / 'a.txt').write_text('one\n')
    (tmp_path / 'b.txt').write_text('two\n')
    (tmp_path / 'same.txt').write_text('same')
    found = changes({'b.txt': '2\n', 'gone.txt': 'x', 'same.txt': 'same'}, tmp_path)
    assert [(change.path, change.kind) for change in found] == [('b.txt', 'M'), ('gone.txt', 'D'), ('new/a.txt', 'A')]
    assert '-2' in found[0].diff and '+two' in found[0].diff


def test_binary_and_large_files_are_named_without_a_diff(tmp_path: Path) -> None:
    (tmp_path / 'a.bin').write_bytes(b'\xff\x00')
    (tmp_path / 'b.txt').write_text('x' * 100_000)
    assert [(change.path, change.diff) for change in changes({}, tmp_path)] == [('a.bin', ''), ('b.txt', '')]


def test_odd_names_and_many_files_are_bounded(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b'/\xff\n')).write_text('x', encoding='utf-8')
    for number in range(MAX_FILES + 20):
        (tmp_path / f'{number}').touch()
    assert len(changes({}, tmp_path)) == MAX_FILES
