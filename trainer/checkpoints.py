"""Checkpoints: written whole or not at all, and proven by their checksums before anything goes on from them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from trainer.errors import RunFolderError
from trainer.runfolder import write_json
from trainer.validation import Document

MANIFEST: Final = 'manifest.json'


class Manifest(Document):
    """What a checkpoint holds: ``files`` maps each name to its sha256, ``adapter`` is the checksum of the tensors."""

    step: int
    adapter: str
    files: dict[str, str]


@dataclass(frozen=True)
class Checkpoint:
    """A proven checkpoint."""

    path: Path
    step: int
    adapter: str


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write into; it becomes ``target`` when the block ends well, else nothing is left of it."""
    partial = target.with_name(f'.{target.name}.partial')
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        for path in partial.rglob('*'):
            _sync(path)
        old = target.with_name(f'.{target.name}.old')
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            target.rename(old)
        partial.rename(target)
        _sync(target.parent)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def save(root: Path, step: int, fill: Callable[[Path], None], *, adapter: str, keep: int) -> Checkpoint:
    """Write ``root/step-N`` with what ``fill`` puts there and its manifest, then drop all but the newest ``keep``."""
    target = root / f'step-{step}'
    with whole_folder(target) as folder:
        fill(folder)
        files = {str(path.relative_to(folder)): sha256(path) for path in sorted(folder.rglob('*')) if path.is_file()}
        write_json(folder / MANIFEST, Manifest(step=step, adapter=adapter, files=files).model_dump())
    for _, path in _by_step(root)[:-keep]:
        shutil.rmtree(path)
    return Checkpoint(target, step, adapter)


def newest(root: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, and what is wrong with each newer one. Raises ``RunFolderError``.

    Without any checkpoint there is nothing to go on from; with broken ones alone, that is an error.
    """
    broken: list[str] = []
    for _, path in reversed(_by_step(root)):
        try:
            return verified(path), broken
        except RunFolderError as error:
            broken.append(error.message)
    if broken:
        raise RunFolderError(
            'No checkpoint is whole: ' + '; '.join(broken), hint='Delete them to begin again from the first step.'
        )
    return None, []


def verified(path: Path) -> Checkpoint:
    """Prove every file of a checkpoint. Raises ``RunFolderError`` that names what is missing or changed."""
    try:
        manifest = Manifest.model_validate_json((path / MANIFEST).read_bytes())
    except (OSError, ValidationError):
        raise RunFolderError(f'checkpoint {path.name} is broken: {MANIFEST} is missing or damaged') from None
    for name, expected in manifest.files.items():
        file = path / name
        if not file.is_file():
            raise RunFolderError(f'checkpoint {path.name} is broken: {name} is missing')
        if sha256(file) != expected:
            raise RunFolderError(f'checkpoint {path.name} is broken: {name} was changed')
    return Checkpoint(path, manifest.step, manifest.adapter)


def discard_after(root: Path, step: int) -> None:
    """Remove checkpoints later than a step: training goes on from there and will write them anew."""
    for number, path in _by_step(root):
        if number > step:
            shutil.rmtree(path)


def sha256(path: Path) -> str:
    """Hex sha256 of a file, read in pieces."""
    with path.open('rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def _by_step(root: Path) -> list[tuple[int, Path]]:
    found = []
    for path in root.iterdir() if root.is_dir() else ():
        if match := re.fullmatch(r'step-(\d+)', path.name):
            found.append((int(match[1]), path))
    return sorted(found)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
