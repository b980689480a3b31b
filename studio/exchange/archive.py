"""Zip archives from anywhere: every entry is judged by its name and kind before one byte of it is unpacked.

Nothing is ever written to disk. Refused are: paths that leave the folder or are absolute, links and devices, names that
differ only by case, encrypted entries, and whole archives that are too large, too many or packed too tight. It does not
look into archives inside archives.
"""

from __future__ import annotations

import io
import lzma
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from studio.exchange.pool import Entry, Found, Incoming, refusal
from trainer.paths import workspace_path

MAX_ENTRIES: Final = 150_000
MAX_TOTAL_BYTES: Final = 256 * 1024**2
MAX_ENTRY_BYTES: Final = 16 * 1024**2
MAX_RATIO: Final = 200
RATIO_COUNTS_FROM: Final = 1024**2
"""Below this size text may be packed as tight as it likes: a file of one letter is no bomb."""
BROKEN: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(ValueError, OverflowError, RuntimeError, EOFError, OSError),
)
"""Everything that reading a damaged or forged archive raises."""
_SIGNATURES: Final = (b'PK\x03\x04', b'PK\x05\x06', b'PK\x07\x08')


def is_zip(data: bytes) -> bool:
    """Whether bytes are a zip archive, whatever the file is called."""
    return data.startswith(_SIGNATURES)


def unpack(incoming: Incoming) -> tuple[list[Entry], list[Found]]:
    """The files of an archive, and a row for each entry (or the whole archive) that was refused."""
    name = incoming.name or 'archive'
    try:
        archive = zipfile.ZipFile(io.BytesIO(incoming.data))
    except BROKEN as error:
        return [], [refusal(name, name, f'not a readable zip archive: {error}')]
    with archive:
        infos = [info for info in archive.infolist() if not is_noise(info.filename)]
        if problem := _bomb(infos):
            return [], [refusal(name, name, problem)]
        problems = judge([(info.orig_filename, kind_of(info)) for info in infos])
        entries, refused = [], []
        for info, problem in zip(infos, problems, strict=True):
            if not problem and info.filename.endswith('/'):
                continue
            problem = problem or _packing_problem(info)
            data = b''
            if not problem:
                data, problem = _read(archive, info)
            if problem:
                refused.append(refusal(name, info.orig_filename, problem))
            else:
                path = workspace_path(info.filename)
                entries.append(Entry(name, path, data, (info.external_attr >> 16) & 0o777 or 0o644))
    return entries, refused


def judge(names: Iterable[tuple[str, str]]) -> list[str]:
    """Say for each ``(name, kind)`` why it must not come in, or an empty text; kind is file, folder, link or other."""
    names = list(names)
    links = {name.rstrip('/') for name, kind in names if kind == 'link'}
    seen: dict[str, str] = {}
    verdicts = []
    for name, kind in names:
        problem = _name_problem(name, kind, links)
        key = unicodedata.normalize('NFC', name.rstrip('/')).casefold()
        if not problem and key in seen and not (kind == 'folder' and seen[key] == name):
            problem = _twice(seen[key], name)
        seen.setdefault(key, name)
        verdicts.append(problem)
    return verdicts


def pack(files: Iterable[tuple[str, bytes, int]]) -> bytes:
    """A zip of ``(path, data, mode)``; the same input gives the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as archive:
        for path, data, mode in files:
            info = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(info, data)
    return out.getvalue()


def _name_problem(name: str, kind: str, links: set[str]) -> str:
    if kind == 'link':
        return 'is a link: links are not imported'
    if kind == 'other':
        return 'is no regular file'
    parts = PurePosixPath(name.rstrip('/')).parts
    under = next((link for depth in range(1, len(parts)) if (link := '/'.join(parts[:depth])) in links), '')
    if under:
        return f'lies behind the link {under!r}'
    if any(unicodedata.category(letter) == 'Cc' for letter in name):
        return 'has control characters in its name'
    try:
        workspace_path(name, folder=kind == 'folder')
    except ValueError as error:
        return str(error)
    return ''


def _twice(earlier: str, name: str) -> str:
    if earlier == name:
        return 'is there twice'
    same = unicodedata.normalize('NFC', earlier) == unicodedata.normalize('NFC', name)
    return f'differs from {earlier!r} only by {"the encoding of its accents" if same else "case"}'


def _bomb(infos: list[zipfile.ZipInfo]) -> str:
    """Why an archive is not opened at all. Declared sizes are enough: unpacking stops at them."""
    if len(infos) > MAX_ENTRIES:
        return f'holds {len(infos)} entries; at most {MAX_ENTRIES} are read at once'
    total = sum(info.file_size for info in infos)
    if total > MAX_TOTAL_BYTES:
        return f'unpacks to {total // 1024**2} MB; at most {MAX_TOTAL_BYTES // 1024**2} MB are read at once'
    packed = sum(info.compress_size for info in infos)
    if total > RATIO_COUNTS_FROM * 8 and total > MAX_RATIO * max(packed, 1):
        return f'unpacks to {total // max(packed, 1)} times its size, as only a zip bomb does'
    return ''


def _packing_problem(info: zipfile.ZipInfo) -> str:
    if info.flag_bits & 0x1:
        return 'is encrypted: unpack it and zip it again without a password'
    if info.file_size > MAX_ENTRY_BYTES:
        return f'is larger than {MAX_ENTRY_BYTES // 1024**2} MB'
    if info.file_size > RATIO_COUNTS_FROM and info.file_size > MAX_RATIO * max(info.compress_size, 1):
        return f'unpacks to {info.file_size // max(info.compress_size, 1)} times its size, as only a zip bomb does'
    return ''


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[bytes, str]:
    try:
        with archive.open(info) as file:
            data = file.read(info.file_size + 1)
    except BROKEN as error:
        return b'', f'cannot be unpacked: {error}'
    return (data, '') if len(data) == info.file_size else (b'', 'is not as long as the archive says')


def kind_of(info: zipfile.ZipInfo) -> str:
    """What an entry is: file, folder, link or other."""
    kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system == 3 else 0
    if kind == stat.S_IFLNK:
        return 'link'
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return 'other'
    return 'folder' if info.filename.endswith('/') else 'file'


def is_noise(name: str) -> bool:
    """What a Mac adds to every archive."""
    return name.startswith('__MACOSX/') or name.rsplit('/', 1)[-1] == '.DS_Store'
