"""Archives from anywhere: every trick is refused by name before anything is unpacked (case A7)."""

import io
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from studio.exchange import archive
from studio.exchange.archive import pack, unpack
from studio.exchange.formats import read_all, read_paths
from studio.exchange.pool import Incoming


def zipped(*entries: tuple[str, bytes] | tuple[str, bytes, int]) -> bytes:
    """An archive of ``(name, data, mode)``, with whatever name is asked for."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as file:
        for name, data, *mode in entries:
            info = zipfile.ZipInfo('x')
            info.filename = info.orig_filename = name
            info.create_system = 3
            info.external_attr = (mode[0] if mode else stat.S_IFREG | 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, data)
    return out.getvalue()


def refused(data: bytes) -> dict[str, str]:
    entries, rows = unpack(Incoming('a.zip', data))
    assert all(entry.path in ('good.txt', 'café') for entry in entries)
    return {row.where: row.errors[0].msg for row in rows}


@pytest.mark.parametrize(
    ('name', 'said'),
    [
        ('../outside.txt', 'remove ../'),
        ('a/../../b', 'remove ../'),
        ('/tmp/abs.txt', 'make'),
        ('C:\\x.txt', 'forward slashes'),
        ('a\\..\\b', 'forward slashes'),
        ('~/x', 'make'),
        ('', 'empty'),
        ('bell\x07.txt', 'control characters'),
        ('cut\0.txt', 'control characters'),
        ('a/' * 40 + 'b', 'levels'),
        ('x' * 600, 'at most 512'),
    ],
)
def test_names_that_leave_the_folder_are_refused(name: str, said: str, tmp_path: Path) -> None:
    before = sorted(Path.cwd().iterdir())
    rows = refused(zipped((name, b'x'), ('good.txt', b'y')))
    assert [said in message for message in rows.values()] == [True], rows
    assert sorted(Path.cwd().iterdir()) == before and not list(tmp_path.iterdir())


def test_links_and_what_lies_behind_them_are_refused() -> None:
    link = ('link', b'/tmp', stat.S_IFLNK | 0o777)
    rows = refused(zipped(link, ('link/x', b'x'), ('pipe', b'', stat.S_IFIFO | 0o644), ('good.txt', b'')))
    assert 'is a link' in rows['link'].lower() and "behind the link 'link'" in rows['link/x']
    assert 'no regular file' in rows['pipe']


def test_names_that_differ_only_by_case_are_refused() -> None:
    rows = refused(zipped(('good.txt', b'a'), ('GOOD.txt', b'b'), ('caf\u00e9', b''), ('cafe\u0301', b'')))
    assert "differs from 'good.txt' only by case" in rows['GOOD.txt'].lower()
    assert 'encoding' in rows['cafe\u0301']


def test_encrypted_entries_are_refused() -> None:
    data = bytearray(zipped(('secret.txt', b'x'), ('good.txt', b'')))
    for signature, offset in ((b'PK\x03\x04', 6), (b'PK\x01\x02', 8)):
        at = data.index(signature) + offset
        data[at : at + 2] = struct.pack('<H', 1)
    assert 'encrypted' in refused(bytes(data))['secret.txt']


def test_bombs_are_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 'zip bomb' in refused(zipped(('zeros', bytes(12 * 1024**2))))['a.zip']
    assert 'zip bomb' in refused(zipped(('zeros', bytes(2 * 1024**2)), ('good.txt', b'')))['zeros']
    monkeypatch.setattr(archive, 'MAX_ENTRIES', 3)
    assert 'holds 4 entries' in refused(zipped(*((f'f{n}', b'') for n in range(4))))['a.zip'].lower()
    monkeypatch.setattr(archive, 'MAX_TOTAL_BYTES', 10)
    assert 'unpacks to' in refused(zipped(('a', b'123456'), ('b', b'123456')))['a.zip'].lower()
    monkeypatch.setattr(archive, 'MAX_TOTAL_BYTES', 10**9)
    monkeypatch.setattr(archive, 'MAX_ENTRY_BYTES', 5)
    assert (
        'larger than'
        in refused(
            zipped(
                ('a', b'123456'),
            )
        )['a']
    )


def test_an_archive_that_lies_about_its_sizes_gives_nothing() -> None:
    data = bytearray(zipped(('lie.txt', b'a' * 1000)))
    for signature, offset in ((b'PK\x03\x04', 22), (b'PK\x01\x02', 24)):
        at = data.index(signature) + offset
        data[at : at + 4] = struct.pack('<I', 10)
    assert 'lie.txt' in refused(bytes(data))


@pytest.mark.parametrize('data', [b'PK\x03\x04', b'PK\x05\x06' + b'\0' * 10, zipped(('a', b'x' * 99))[:-30]])
def test_a_broken_archive_is_one_row(data: bytes) -> None:
    (row,) = read_all([Incoming('broken.zip', data)]).found
    assert 'not a readable zip' in row.errors[0].msg.lower()


def test_packing_is_repeatable_and_keeps_modes() -> None:
    files = [('a/run.sh', b'#!/bin/sh\n', 0o755), ('b', b'x', 0o644)]
    assert pack(files) == pack(files)
    entries, rows = unpack(Incoming('a.zip', pack(files)))
    assert not rows and [(entry.path, entry.data, entry.mode) for entry in entries] == files


def test_links_in_a_folder_on_disk_are_refused(tmp_path: Path) -> None:
    task = tmp_path / 'task'
    task.mkdir()
    (task / 'instruction.md').write_text('Do it', encoding='utf-8')
    (task / 'task.toml').symlink_to('/etc/passwd')
    (task / 'out').symlink_to('/etc')
    rows = {row.where: [error.msg for error in row.errors] for row in read_paths([tmp_path]).found}
    assert 'link' in rows['task/task.toml'][0] and 'link' in rows['task/out'][0]
    assert any('link' in message for message in rows['task/'])
