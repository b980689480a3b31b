"""What a workspace held at a moment, and what changed between two of them: marks for a tree, and diffs to read."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from trainer.errors import SandboxError
from trainer.sandbox import Sandbox
from trainer.validation import Document

MAX_ENTRIES: Final = 2_000
MAX_TEXT_BYTES: Final = 128 * 1024
"""Larger files are compared by their digest alone."""
MAX_TEXTS_BYTES: Final = 4 * 1024**2
MAX_DIFF_LINES: Final = 2_000
UNSEEN: Final = ('.git', '__pycache__', '.pytest_cache', '.mypy_cache', '.ruff_cache', 'node_modules')
"""Folders that are named but not looked into: what programs keep there is no work of the candidate to read."""
Mark = Literal['', 'A', 'M', 'D']


@dataclass(frozen=True)
class FileState:
    """One entry: size in bytes, digest of the content (or what it is instead of a file), and its text if it is short.

    Paths of folders end with a slash.
    """

    size: int
    digest: str
    text: str | None = None
    is_binary: bool = False

    @classmethod
    def of(cls, data: bytes) -> Self:
        """The state of a regular file with this content."""
        try:
            text = None if len(data) > MAX_TEXT_BYTES or b'\0' in data else data.decode('utf-8')
        except UnicodeDecodeError:
            text = None
        return cls(len(data), hashlib.sha256(data).hexdigest(), text, text is None and len(data) <= MAX_TEXT_BYTES)

    @property
    def kind(self) -> str:
        """``file``, or what it is instead: ``folder``, ``link to …``, ``special``, ``unreadable``."""
        return 'file' if len(self.digest) == 64 and ' ' not in self.digest else self.digest


WorkspaceState = Mapping[str, FileState]


class Entry(Document):
    """One file or folder of a workspace; ``mark`` says how it differs from the start: added, modified, deleted."""

    path: str
    is_folder: bool = False
    size: int = 0
    mark: Mark = ''


class FileChange(Document):
    """How one file differs: a unified diff to read, or in ``note`` why there is none."""

    path: str
    mark: Mark
    diff: str = ''
    added: int = 0
    removed: int = 0
    note: str = ''


def workspace_state(sandbox: Sandbox, *, texts: bool = False) -> dict[str, FileState]:
    """Look at every entry of a workspace but those in ``UNSEEN`` folders. Raises ``SandboxError``.

    With ``texts``, keep what short text files hold.
    """
    numbers = (MAX_ENTRIES, MAX_TEXT_BYTES if texts else 0, MAX_TEXTS_BYTES if texts else 0)
    command = ['/usr/bin/env', 'python3', '-I', '-S', '-c', _LIST, *map(str, numbers), *UNSEEN]
    done = sandbox.run(command, channel=b'')
    try:
        rows = json.loads(done.channel)
        return {
            str(path): FileState(int(size), str(digest), None if text is None else str(text), bool(binary))
            for path, size, digest, text, binary in rows
        }
    except (ValueError, TypeError):
        raise SandboxError(f'The workspace cannot be listed: {done.text[-300:] or "no answer"}') from None


def entries(start: WorkspaceState, now: WorkspaceState) -> tuple[Entry, ...]:
    """The workspace as a tree, sorted by path; deleted files are listed too."""
    return tuple(
        Entry(
            path=path.rstrip('/'),
            is_folder=path.endswith('/'),
            size=now[path].size if path in now else start[path].size,
            mark=_mark(start, now, path),
        )
        for path in sorted({*start, *now}, key=lambda path: path.split('/'))
    )


def changes(before: WorkspaceState, after: WorkspaceState, *, max_chars: int | None = None) -> tuple[FileChange, ...]:
    """Every file that differs, sorted by path. Once the diffs hold ``max_chars``, the rest is only named."""
    found: list[FileChange] = []
    chars = 0
    for path in sorted({*before, *after}):
        if path.endswith('/') or not _mark(before, after, path):
            continue
        change = file_change(path, before.get(path), after.get(path))
        if max_chars is not None and chars + len(change.diff) > max_chars:
            change = change.model_copy(update={'diff': '', 'note': 'too much changed to keep its diff'})
        chars += len(change.diff)
        found.append(change)
    return tuple(found)


def file_change(path: str, before: FileState | None, after: FileState | None) -> FileChange:
    """How one file differs between two moments; ``None`` is a file that is not there."""
    mark: Mark = 'A' if before is None else 'D' if after is None else '' if _same(before, after) else 'M'
    texts = [state.text if state else '' for state in (before, after)]
    old, new = texts
    if not mark:
        return FileChange(path=path, mark=mark, note='not changed')
    if old is None or new is None:
        return FileChange(path=path, mark=mark, note=_why_no_diff(before, after))
    lines = unified(path, old, new)
    added, removed = _counted(lines)
    note = ''
    if mark == 'M' and old.replace('\r\n', '\n') == new.replace('\r\n', '\n'):
        note = 'only the line endings differ'
    elif not lines:
        note = 'empty'
    elif len(lines) > MAX_DIFF_LINES:
        note = f'the first {MAX_DIFF_LINES:,} of {len(lines):,} lines'
    return FileChange(
        path=path, mark=mark, diff='\n'.join(lines[:MAX_DIFF_LINES]), added=added, removed=removed, note=note
    )


def unified(name: str, old: str, new: str) -> list[str]:
    """The lines of a unified diff of two texts, without the two that name the files."""
    lines = difflib.unified_diff(_lines(old), _lines(new), name, name, lineterm='')
    return list(lines)[2:]


def _counted(lines: list[str]) -> tuple[int, int]:
    return sum(line.startswith('+') for line in lines), sum(line.startswith('-') for line in lines)


def _lines(text: str) -> list[str]:
    """Lines as a reader counts them; a missing newline at the end is said, as diff does."""
    if not text:
        return []
    lines = text.split('\n')
    if lines[-1]:
        return [*lines[:-1], lines[-1] + '  (no newline at the end)']
    return lines[:-1]


def _mark(start: WorkspaceState, now: WorkspaceState, path: str) -> Mark:
    if path not in start:
        return 'A'
    if path not in now:
        return 'D'
    return '' if _same(start[path], now[path]) else 'M'


def _same(one: FileState, other: FileState) -> bool:
    return (one.size, one.digest) == (other.size, other.digest)


def _why_no_diff(before: FileState | None, after: FileState | None) -> str:
    sizes = ' → '.join(f'{state.size:,} bytes' for state in (before, after) if state is not None)
    for state in (after, before):
        if state is None or state.text is not None:
            continue
        if state.kind != 'file':
            return {'special': 'a device, socket or pipe', 'unreadable': 'cannot be read'}.get(state.kind, state.kind)
        return f'binary: {sizes}' if state.is_binary else f'too large to show: {sizes}'
    return sizes


_LIST: Final = """
import hashlib, json, os, sys
most, longest, left = map(int, sys.argv[1:4])
unseen = sys.argv[4:]
rows = []
for folder, folders, files in os.walk('.'):
    folders.sort()
    for name in [name + '/' for name in folders] + sorted(files):
        path = os.path.join(folder, name)[2:]
        text, binary = None, False
        if name.endswith('/'):
            rows.append((path, 0, 'link' if os.path.islink(path[:-1]) else 'folder', text, binary))
            continue
        try:
            size = os.lstat(path).st_size
            if os.path.islink(path):
                digest = 'link to ' + os.readlink(path)
            elif os.path.isfile(path):
                with open(path, 'rb') as file:
                    digest = hashlib.file_digest(file, 'sha256').hexdigest()
                    if size <= min(longest, left):
                        file.seek(0)
                        data = file.read(longest)
                        left -= len(data)
                        binary = b'\\0' in data
                        text = None if binary else data.decode()
            else:
                digest = 'special'
        except UnicodeDecodeError:
            binary = True
        except OSError:
            size, digest = 0, 'unreadable'
        rows.append((path, size, digest, text, binary))
    folders[:] = [name for name in folders if name not in unseen]
    if len(rows) >= most:
        break
with os.fdopen(int(os.environ['RLVR_CHANNEL']), 'wb') as channel:
    channel.write(json.dumps(rows[:most]).encode())
"""
