"""What an episode changed: the final workspace against the files the task starts with, as a reader wants to see it.

Files that setup commands made count as added: what they do is known to the sandbox alone.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from trainer.recording import Change

MAX_FILES: Final = 50
MAX_FILE_BYTES: Final = 64 * 1024
MAX_DIFF_CHARS: Final = 4_000


def changes(start: Mapping[str, str], workspace: Path) -> tuple[Change, ...]:
    """Added, modified and deleted files of a sanitised final workspace, at most ``MAX_FILES``, with diffs of text."""
    found: list[Change] = []
    final = dict(_files(workspace))
    for path in sorted({*start, *final}):
        if len(found) == MAX_FILES:
            break
        before = start.get(path)
        after = _text(final[path]) if path in final else None
        if path not in final:
            found.append(Change(path=path, kind='D', diff=_diff(path, before, '')))
        elif path not in start:
            found.append(Change(path=path, kind='A', diff=_diff(path, '', after)))
        elif before != after:
            found.append(Change(path=path, kind='M', diff=_diff(path, before, after)))
    return tuple(found)


def _files(workspace: Path) -> Iterator[tuple[str, Path]]:
    """Regular files by their path as text; names that are not UTF-8 show replacement marks."""
    for folder, _, names in os.walk(workspace):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                shown = os.fsencode(path.relative_to(workspace)).decode('utf-8', errors='replace')
                yield shown, path


def _text(path: Path) -> str | None:
    """The content of a small text file; ``None`` for anything else."""
    if path.stat().st_size > MAX_FILE_BYTES:
        return None
    try:
        return path.read_text(encoding='utf-8')
    except UnicodeDecodeError:
        return None


def _diff(path: str, before: str | None, after: str | None) -> str:
    if before is None or after is None:
        return ''
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm='')
    return '\n'.join(lines)[:MAX_DIFF_CHARS]
