"""The files of an adapter version: taken from a run folder, described by size and checksum."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from studio.adapters.views import AdapterFile
from trainer.checkpoints import sha256
from trainer.errors import RunFolderError
from trainer.evaluation import Stage, read_evaluation
from trainer.model_card import write_model_card
from trainer.proof import EXPECTED
from trainer.runfolder import RunFolder

WEIGHTS: Final = 'adapter_model.safetensors'
CONFIG: Final = 'adapter_config.json'
_log = logging.getLogger(__name__)


@dataclass
class Gathered:
    """An adapter's files in a folder beside its place, and what is known of them. ``settle`` moves them there."""

    staging: Path
    place: Path
    files: tuple[AdapterFile, ...]
    sha256: str
    step: int
    rank: int | None
    lineage: dict[str, Any]
    made_at: datetime
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    provable: bool = False

    def settle(self) -> None:
        """Move the files to their place; the last thing before the commit."""
        self.staging.rename(self.place)


@contextmanager
def gather(run: RunFolder, root: Path, id: str, *, fallback_step: int) -> Iterator[Gathered]:
    """Take the adapter of a run, and what its proof needs. Nothing is left of it unless the block ends well."""
    with staged(root, id) as (staging, place):
        files = staging / 'files'
        shutil.copytree(run.adapter, files, copy_function=_take)
        if not (files / 'plots').is_dir():
            write_model_card(run, files)
        provable = (run.path / EXPECTED).is_file()
        if provable:
            (staging / 'proof').mkdir()
            for path in (run.path / EXPECTED, run.held_out):
                if path.is_file():
                    shutil.copy2(path, staging / 'proof' / path.name)
        gathered = describe(staging, place, fallback_step=fallback_step)
        gathered.provable = provable
        gathered.lineage = _completed(gathered.lineage, run)
        gathered.before, gathered.after = _measured(run.path, 'before'), _measured(run.path, 'after')
        yield gathered


@contextmanager
def staged(root: Path, id: str) -> Iterator[tuple[Path, Path]]:
    """A folder to fill, and the place it belongs to; neither is left where the block fails."""
    root.mkdir(parents=True, exist_ok=True)
    staging, place = root / f'.{id}.partial', root / id
    staging.mkdir()
    try:
        yield staging, place
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def describe(staging: Path, place: Path, *, fallback_step: int = 0) -> Gathered:
    """What the files of a staged version say of it."""
    folder = staging / 'files'
    files = tuple(
        AdapterFile(name=str(path.relative_to(folder)), size=path.stat().st_size, sha256=sha256(path))
        for path in sorted(folder.rglob('*'))
        if path.is_file()
    )
    lineage = read_object(folder / 'lineage.json')
    step, rank = lineage.get('step'), read_object(folder / CONFIG).get('r')
    return Gathered(
        staging=staging,
        place=place,
        files=files,
        sha256=next(file.sha256 for file in files if file.name == WEIGHTS),
        step=step if isinstance(step, int) else fallback_step,
        rank=rank if isinstance(rank, int) else None,
        lineage=lineage,
        made_at=datetime.fromtimestamp((folder / WEIGHTS).stat().st_mtime, UTC),
    )


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty where there is none that can be read."""
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError, RecursionError):  # of an older or foreign adapter: it says less
        return {}
    return data if isinstance(data, dict) else {}


def freed_bytes(folder: Path) -> int:
    """Bytes that removing a folder frees: a file that is linked from elsewhere too stays."""
    stats = [path.lstat() for path in folder.rglob('*') if not path.is_dir()] if folder.is_dir() else []
    return sum(stat.st_size for stat in stats if stat.st_nlink == 1)


def _measured(run: Path, stage: Stage) -> dict[str, Any] | None:
    try:
        found = read_evaluation(run, stage)
    except RunFolderError as error:  # a damaged file must not hide the adapter
        _log.warning('%s', error)
        return None
    return found.model_dump(mode='json') if found is not None else None


def _completed(lineage: dict[str, Any], run: RunFolder) -> dict[str, Any]:
    """The lineage with what the run folder says where the file, of an earlier version, says nothing."""
    config = run.config()
    tasks = {'tasks': run.tasks(), 'held_out': run.held_out_tasks()}
    known: dict[str, Any] = {
        'run': {'id': config.id, 'name': config.name, 'training_type': config.training_type},
        'cold_start': config.cold_start.model_dump(mode='json', by_alias=True) if config.cold_start else None,
        **{
            key: [{'id': task.id, 'title': task.title, 'version': task.version, 'hash': task.hash} for task in some]
            for key, some in tasks.items()
        },
    }
    return {**known, **lineage}


def _take(source: str, target: str) -> str:
    """Link the weights, which nobody changes in place; copy what is small."""
    if source.endswith('.safetensors'):
        try:
            os.link(source, target)
        except OSError:  # another file system, or one without links
            return str(shutil.copy2(source, target))
        return target
    return str(shutil.copy2(source, target))
