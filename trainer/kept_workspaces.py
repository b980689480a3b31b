"""Final workspaces kept in a run folder: how they are stored, and how they are read back from a folder not trusted.

``workspaces/episodes/<name>.json`` lists what one episode left; ``workspaces/files/<sha256>`` holds each content once,
compressed. The name stands in the episode's record. Reading believes nothing: names, sizes and hashes are checked, and
what is unpacked goes through the same writer as everything that leaves a sandbox.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, ValidationError

from trainer.errors import RunFolderError
from trainer.sandbox.inside.tree import DATA, FILE, FOLDER, LINK, BadRecord, TreeWriter
from trainer.sandbox.protocol import Limits
from trainer.validation import Document
from trainer.verdict import Outcome

FOLDER_NAME: Final = 'workspaces'
MAX_FILE_BYTES: Final = 16 * 1024**2
"""A larger file is left out, and the workspace then cannot be graded again."""
MAX_BYTES: Final = 64 * 1024**2
"""Of one workspace."""
MAX_ENTRIES: Final = 5_000
MAX_MANIFEST_BYTES: Final = 8 * 1024**2
_NAME: Final = re.compile(r'[0-9a-f]{16}')


class Entry(Document):
    """One file, folder or link: its path, and for a file size and hash of the content, for a link its target.

    Paths are bytes, as the file system has them; in JSON they stand as base64.
    """

    model_config = ConfigDict(frozen=True, extra='forbid', ser_json_bytes='base64', val_json_bytes='base64')

    path: bytes = Field(min_length=1, max_length=4096)
    kind: Literal['file', 'folder', 'link']
    mode: int = Field(default=0, ge=0, le=0o777)
    size: int = Field(default=0, ge=0, le=MAX_FILE_BYTES)
    sha256: Annotated[str, Field(pattern=r'^([0-9a-f]{64})?$')] = ''
    target: bytes = Field(default=b'', max_length=4096)

    @property
    def shown(self) -> str:
        """The path as text; bytes that are not UTF-8 become replacement marks."""
        return self.path.decode('utf-8', 'replace')


class Tree(Document):
    """What one workspace held, parents first; ``left_out`` says what of it was not kept, ``path: why`` each."""

    entries: tuple[Entry, ...] = Field(default=(), max_length=MAX_ENTRIES)
    left_out: tuple[str, ...] = Field(default=(), max_length=1000)


class KeptWorkspace(Document):
    """The final workspace of one episode, and what the episode came to; ``offset`` is where its record begins."""

    name: str = Field(pattern=r'^[0-9a-f]{16}$')
    number: int = Field(default=0, ge=0, description='Counts what was kept, so that the oldest is known.')
    offset: int = Field(ge=0)
    stage: str
    step: int
    task: str
    title: str = ''
    group: int
    index: int
    outcome: Outcome
    reward: float | None = None
    reason: str = ''
    tree: Tree

    @property
    def place(self) -> tuple[str, int, int, int]:
        """Which attempt it is of; one that is done again takes its place."""
        return self.stage, self.step, self.group, self.index

    @property
    def why_not_whole(self) -> str:
        """Why this is not all that the checker saw, or nothing."""
        return f'not kept whole: {self.tree.left_out[0]}' if self.tree.left_out else ''


class WorkspaceFolder:
    """The kept workspaces of one run folder, read. Raises ``RunFolderError`` for what is damaged."""

    def __init__(self, run: Path) -> None:
        self.path = run / FOLDER_NAME
        self.episodes = self.path / 'episodes'
        self.files = self.path / 'files'

    def names(self) -> list[str]:
        """The names of all that is kept, in no order."""
        try:
            with os.scandir(self.episodes) as found:
                names = [entry.name.removesuffix('.json') for entry in found]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunFolderError(f'{self.episodes} cannot be read: {error.strerror or error}') from None
        return [name for name in names if _NAME.fullmatch(name)]

    def all(self) -> Iterator[KeptWorkspace]:
        """Everything that is kept and can be read; what goes meanwhile, or is damaged, is passed over."""
        for name in self.names():
            try:
                kept = self.get(name)
            except RunFolderError:
                continue
            if kept is not None:
                yield kept

    def offsets(self) -> Iterator[int]:
        """Where the records of all that is kept begin: much quicker than ``all``, and nothing else is looked at."""
        for name in self.names():
            try:
                offset = json.loads(_read(self.manifest(name), MAX_MANIFEST_BYTES)).get('offset')
            except (OSError, ValueError, AttributeError, RecursionError):
                continue
            if isinstance(offset, int):
                yield offset

    def get(self, name: str) -> KeptWorkspace | None:
        """One workspace; ``None`` where it is not kept, or not any more."""
        if not _NAME.fullmatch(name):
            return None
        try:
            kept = KeptWorkspace.model_validate_json(_read(self.manifest(name), MAX_MANIFEST_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise RunFolderError(f'The workspace {name} cannot be read: {_said(error)}') from None
        if kept.name != name:
            raise RunFolderError(f'The workspace {name} is damaged: it has the name of another')
        return kept

    def manifest(self, name: str) -> Path:
        """Where the list of a workspace is."""
        return self.episodes / f'{name}.json'

    def file(self, sha256: str) -> Path:
        """Where a content is."""
        return self.files / sha256[:2] / sha256[2:]

    def content(self, entry: Entry) -> bytes:
        """What a file held."""
        if not entry.size:
            return b''
        try:
            packed = _read(self.file(entry.sha256), 2 * MAX_FILE_BYTES)
            data = _unpacked(packed, entry.size)
        except (OSError, zlib.error) as error:
            raise RunFolderError(f'{entry.shown} is not there any more: {_said(error)}') from None
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise RunFolderError(f'{entry.shown} is damaged: its content has another checksum')
        return data

    def unpack(self, kept: KeptWorkspace, target: Path) -> None:
        """Write a workspace into the empty folder ``target``. Raises ``RunFolderError`` where it is not whole."""
        if why := kept.why_not_whole:
            raise RunFolderError(f'The workspace was {why}')
        limits = Limits()
        writer = TreeWriter(
            str(target), max_bytes=MAX_BYTES, max_file=limits.file_bytes, max_entries=MAX_ENTRIES, strict=False
        )
        folders = {b''}
        try:
            for entry in kept.tree.entries:
                if entry.path.rpartition(b'/')[0] not in folders:
                    raise BadRecord(f'{entry.shown} is in no folder')
                if entry.kind == 'folder':
                    folders.add(entry.path)
                for record in self._records(entry):
                    writer.add(record)
            writer.finish()
        except (BadRecord, OSError) as error:
            raise RunFolderError(f'The workspace cannot be laid out: {_said(error)}') from None
        finally:
            writer.close()
        if writer.left_out:
            raise RunFolderError(f'The workspace cannot be laid out: {writer.left_out[0]}')

    def _records(self, entry: Entry) -> Iterator[list[bytes]]:
        mode = b'%d' % entry.mode
        if entry.kind == 'folder':
            yield [FOLDER, entry.path, mode]
        elif entry.kind == 'link':
            yield [LINK, entry.path, entry.target]
        else:
            data = self.content(entry)
            yield [FILE, entry.path, mode, b'%d' % len(data)]
            if data:
                yield [DATA, b'0', data]


def _read(path: Path, most: int) -> bytes:
    """A regular file, never one behind a link. Raises ``OSError``."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), 'rb') as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError('it is far too large')
    return data


def _unpacked(packed: bytes, size: int) -> bytes:
    """Undo the compression; what holds more than it says is refused before it fills the memory."""
    engine = zlib.decompressobj()
    data = engine.decompress(packed, size + 1)
    if len(data) != size or not engine.eof:
        raise zlib.error('its size is not the one that was noted')
    return data


def _said(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return 'it is damaged'
    return getattr(error, 'strerror', None) or str(error)
