"""What one run left: its adapter as it lies in the run folder, with its evaluations, and a zip of it."""

from __future__ import annotations

import json
import logging
import os
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from studio.errors import NotFound
from studio.store.database import Database
from studio.store.tables import RunTable
from trainer.checkpoints import sha256
from trainer.errors import RunFolderError
from trainer.evaluation import Evaluation as EvaluationView
from trainer.evaluation import Stage, TaskResult, read_evaluation
from trainer.runfolder import RunFolder
from trainer.validation import Document

__all__ = ['AdapterView', 'EvaluationView', 'Results', 'TaskResult', 'pack']

_log = logging.getLogger(__name__)


class AdapterView(Document):
    """A trained adapter and where it comes from; ``size`` in bytes, ``sha256`` of its weights."""

    run_id: str
    name: str
    step: int
    model: str
    size: int
    created_at: datetime
    before: EvaluationView | None = None
    after: EvaluationView | None = None
    sha256: str = ''
    path: str = ''


class Results:
    """The results of the runs of a store. Raises ``NotFound``, ``RunFolderError``."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder

    def adapter(self, run_id: str) -> AdapterView:
        """The adapter of a run."""
        with self._database.read() as session:
            row = session.get(RunTable, run_id)
        view = self._view(row) if row else None
        if view is None:
            raise NotFound('This run has no adapter', hint='A run leaves one when it ends or is stopped.')
        return view

    def evaluation(self, run_id: str, stage: Stage) -> EvaluationView | None:
        """Held-out success before or after training; ``None`` until it was measured."""
        return read_evaluation(self._folder / run_id, stage)

    def zip(self, run_id: str) -> Path:
        """A zip of the adapter in PEFT layout, made once per state of its files and then kept."""
        view = self.adapter(run_id)
        folder = Path(view.path)
        return pack(folder, folder.parent / f'adapter-{run_id}.zip')

    def _view(self, row: RunTable) -> AdapterView | None:
        folder = RunFolder(self._folder / row.id)
        weights = folder.adapter / 'adapter_model.safetensors'
        if not weights.is_file():
            return None
        files = [path for path in folder.adapter.rglob('*') if path.is_file()]
        return AdapterView(
            run_id=row.id,
            name=row.name,
            step=_step(folder.adapter, row.step),
            model=row.model,
            size=sum(path.stat().st_size for path in files),
            created_at=datetime.fromtimestamp(weights.stat().st_mtime, UTC),
            before=_readable(folder.path, 'before'),
            after=_readable(folder.path, 'after'),
            sha256=_sha256(weights),
            path=str(folder.adapter.resolve()),
        )


def pack(folder: Path, target: Path) -> Path:
    """A zip of a folder, made once per state of its files."""
    files = sorted(path for path in folder.rglob('*') if path.is_file())
    if target.exists() and target.stat().st_mtime >= max(path.stat().st_mtime for path in files):
        return target
    partial = target.with_suffix(f'.{os.getpid()}.partial')
    try:
        # Stored, not deflated: weights do not shrink, and a large adapter is ready in seconds.
        with zipfile.ZipFile(partial, 'w', zipfile.ZIP_STORED, allowZip64=True) as archive:
            for path in files:
                archive.write(path, path.relative_to(folder))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _readable(run: Path, stage: Stage) -> EvaluationView | None:
    """As ``read_evaluation``; a damaged file must not hide the adapter, nor the adapters of other runs."""
    try:
        return read_evaluation(run, stage)
    except RunFolderError as error:
        _log.warning('%s', error)
        return None


def _step(adapter: Path, otherwise: int) -> int:
    """The step that an adapter is of: the best one is kept, which need not be the last."""
    try:
        return int(json.loads((adapter / 'lineage.json').read_text(encoding='utf-8'))['step'])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return otherwise


def _sha256(weights: Path) -> str:
    """The checksum of the weights, kept beside them: a large file is read once."""
    kept = weights.parent.parent / 'adapter.sha256.json'
    stamp = [weights.stat().st_size, weights.stat().st_mtime_ns]
    try:
        known = json.loads(kept.read_text(encoding='utf-8'))
    except (FileNotFoundError, ValueError):
        known = {}
    if known.get('stamp') == stamp:
        return str(known['sha256'])
    digest = sha256(weights)
    kept.write_text(json.dumps({'stamp': stamp, 'sha256': digest}), encoding='utf-8')
    return digest
