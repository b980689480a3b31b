"""Paths of a workspace as authors and models write them: relative, inside, one spelling."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

MAX_PATH_CHARS = 512
MAX_PATH_DEPTH = 32


def workspace_path(text: str, *, folder: bool = False) -> str:
    """Return the normal form of a path inside the workspace, or raise ``ValueError`` saying what to change.

    ``a/./b`` becomes ``a/b``; a trailing slash survives only where ``folder`` allows it (it then means "a folder").
    """
    if not text.strip():
        raise ValueError('a path cannot be empty')
    if len(text) > MAX_PATH_CHARS:
        raise ValueError(f'a path has at most {MAX_PATH_CHARS} characters')
    if '\0' in text:
        raise ValueError('a path cannot hold a NUL character')
    if text.startswith('/') or text.startswith('~'):
        raise ValueError(f'stay inside the workspace: make {text!r} relative')
    if '\\' in text or re.match(r'^[A-Za-z]:', text):
        raise ValueError(f'use a relative path with forward slashes, not {text!r}')
    is_folder = text.endswith('/')
    if is_folder and not folder:
        raise ValueError(f'{text!r} names a folder, a file is needed')
    parts = [part for part in text.split('/') if part not in ('', '.')]
    if '..' in parts:
        raise ValueError(f'stay inside the workspace: remove ../ from {text!r}')
    if not parts:
        raise ValueError('name a path inside the workspace, not the workspace itself')
    if len(parts) > MAX_PATH_DEPTH:
        raise ValueError(f'a path has at most {MAX_PATH_DEPTH} levels')
    normal = '/'.join(parts) + ('/' if is_folder else '')
    # Without ./ in front it may be what is refused above: ./~ or ./C:
    return normal if normal == text else workspace_path(normal, folder=folder)


FilePath = Annotated[str, AfterValidator(workspace_path)]
"""A file inside the workspace."""

FileOrFolderPath = Annotated[str, AfterValidator(lambda text: workspace_path(text, folder=True))]
"""A file, or with a trailing slash a folder, inside the workspace."""
