"""The adapter registry: what runs leave, and what is brought in, becomes a version under a name that outlives its run.

Every version has a folder of its own, ``adapters/<id>``: ``files`` in PEFT layout, ``proof`` with what the parity proof
compares. Weights are hard links to those of the run where the file system has them, so they take their space once.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sqlalchemy import func
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select

from studio.adapters.compare import compare
from studio.adapters.files import describe, freed_bytes, gather, staged
from studio.adapters.importing import bring_in
from studio.adapters.rows import (
    adapter_row,
    adapter_under,
    check_name,
    folded,
    known_base,
    known_row,
    named_base,
    named_row,
    new_row,
    row_of_run,
    take_number,
    target_of,
    version_row,
)
from studio.adapters.views import AdapterVersionView, Comparison, Imported, NamedAdapter, ProofView
from studio.errors import NotFound
from studio.runs.results import pack
from studio.runs.views import StillActive
from studio.store.database import Busy, Database
from studio.store.ids import is_id, new_id
from studio.store.tables import AdapterTable, AdapterVersionTable, RunTable
from trainer.errors import ConfigError, FieldError, RlvrError, StoreError
from trainer.evaluation import Evaluation
from trainer.events import FINAL_STATES
from trainer.proof import ProofResult
from trainer.runfolder import RunFolder

MAX_NOTES_CHARS: Final = 20_000
RETRY_S: Final = 60.0
"""After this, an adapter that could not be kept is tried again."""
_log = logging.getLogger(__name__)


class Adapters:
    """The adapters of a store. Thread-safe. Raises ``NotFound``, ``ConfigError`` with the field, ``StoreError``.

    A version is named by its id everywhere; ``find`` also takes ``name``, ``name:v2`` and the id of a run.
    """

    def __init__(self, database: Database, folder: Path, runs_folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._runs_folder = runs_folder
        self._again_at: dict[tuple[str, datetime | None], float] = {}

    def list(self) -> list[NamedAdapter]:
        """Every name with its versions, the name with the newest version first."""
        with self._database.read() as session:
            rows = session.exec(
                select(AdapterTable, AdapterVersionTable)
                .join(AdapterVersionTable, col(AdapterVersionTable.adapter_id) == col(AdapterTable.id))
                .where(col(AdapterVersionTable.deleted_at).is_(None))
                .order_by(col(AdapterVersionTable.created_at).desc(), col(AdapterVersionTable.id).desc())
            ).all()
        found: dict[str, tuple[AdapterTable, list[AdapterVersionView]]] = {}
        for adapter, version in rows:
            found.setdefault(adapter.id, (adapter, []))[1].append(self._view(adapter, version))
        return [
            NamedAdapter(id=adapter.id, name=adapter.name, versions=tuple(sorted(views, key=lambda v: -v.number)))
            for adapter, views in found.values()
        ]

    def count(self) -> int:
        """How many versions there are."""
        with self._database.read() as session:
            live = col(AdapterVersionTable.deleted_at).is_(None)
            return session.exec(select(func.count()).select_from(AdapterVersionTable).where(live)).one()

    def stamp(self) -> Hashable:
        """A value that is another one when a version came, went, was renamed or got on with its proof. Quick."""
        state = AdapterVersionTable.proof_state
        with self._database.read() as session:
            query = (
                select(AdapterVersionTable.id, AdapterTable.name, AdapterVersionTable.number, state)
                .join(AdapterTable, col(AdapterVersionTable.adapter_id) == col(AdapterTable.id))
                .where(col(AdapterVersionTable.deleted_at).is_(None))
                .order_by(AdapterVersionTable.id)
            )
            return tuple(tuple(row) for row in session.exec(query).all())

    def get(self, id: str) -> AdapterVersionView:
        """A version by its id."""
        with self._database.read() as session:
            version = version_row(session, id)
            return self._view(adapter_row(session, version.adapter_id), version)

    def find(self, reference: str) -> AdapterVersionView:
        """A version by its id, by the id of its run, or as ``name:v2`` or ``name`` (the newest)."""
        with self._database.read() as session:
            row = session.get(AdapterVersionTable, reference) if is_id(reference) else None
            if row is None or row.deleted_at is not None:
                row = row_of_run(session, reference) or named_row(session, reference)
            if row is None:
                raise NotFound(f'There is no adapter {reference!r}', hint='`rlvr adapters list` shows what there is.')
            return self._view(adapter_row(session, row.adapter_id), row)

    def of_run(self, run_id: str) -> AdapterVersionView | None:
        """The newest version that a run left, if it is registered and was not deleted."""
        with self._database.read() as session:
            row = row_of_run(session, run_id)
            return self._view(adapter_row(session, row.adapter_id), row) if row is not None else None

    def rename(self, adapter_id: str, name: str) -> None:
        """Give all versions under a name another one. Raises ``ConfigError`` where it is taken."""
        name = check_name(name)
        try:
            with self._database.write() as session:
                row = adapter_row(session, adapter_id)
                row.name, row.key = name, folded(name)
        except IntegrityError:
            problem = f'"{name}" is there already'
            raise ConfigError(
                problem, [FieldError(loc='name', msg=problem)], hint='Move versions there one by one instead.'
            ) from None

    def move(self, id: str, name: str) -> AdapterVersionView:
        """Put a version under another name, new or known: it becomes that one's newest version."""
        name = check_name(name)
        with self._database.write() as session:
            version = version_row(session, id)
            target = adapter_under(session, name)
            if target.id != version.adapter_id:
                version.adapter_id, version.number = target.id, take_number(target)
        return self.get(id)

    def annotate(self, id: str, notes: str) -> AdapterVersionView:
        """Replace the notes of a version."""
        if len(notes) > MAX_NOTES_CHARS:
            problem = f'At most {MAX_NOTES_CHARS:,} characters, not {len(notes):,}'
            raise ConfigError(problem, [FieldError(loc='notes', msg=problem)])
        with self._database.write() as session:
            version_row(session, id).notes = notes.replace('\0', '')
        return self.get(id)

    def freed_by_deleting(self, id: str) -> int:
        """Bytes that deleting a version frees; weights that its run still holds are freed with the run."""
        self.get(id)
        return freed_bytes(self._folder / id)

    def delete(self, id: str) -> int:
        """Remove a version and its files; return the bytes freed. Raises ``StillActive`` while it is being proven."""
        freed = freed_bytes(self._folder / id)
        with self._database.write() as session:
            version = version_row(session, id)
            if version.proof_state == 'running':
                raise StillActive('This adapter is being proven', hint='Cancel the proof first, then delete it.')
            version.deleted_at, version.proof_state = datetime.now(UTC), 'none'
            version.lineage, version.files, version.proof = {}, [], None
        shutil.rmtree(self._folder / id, ignore_errors=True)
        return freed

    def files_path(self, id: str) -> Path:
        """The folder of a version in PEFT layout."""
        self.get(id)
        return self._folder / id / 'files'

    def proof_path(self, id: str) -> Path:
        """The folder in which the parity proof of a version works; may be missing."""
        return self._folder / id / 'proof'

    def keep_proof(self, id: str, result: ProofResult) -> None:
        """Keep what a proof found; it takes the place of the one before. Where the base model has moved stays known."""
        with self._database.write() as session:
            row = version_row(session, id)
            proof = ProofView(
                state=result.state, result=result, reason='; '.join(result.problems), base=named_base(row)
            )
            row.proof_state, row.proof = result.state, proof.model_dump(mode='json', exclude={'state'})

    def zip(self, id: str) -> Path:
        """A zip of a version in PEFT layout, made once and then kept."""
        view = self.get(id)
        return pack(Path(view.path), self._folder / id / 'adapter.zip')

    def compare(self, a: str, b: str) -> Comparison:
        """In what two versions differ: lineage, settings, held-out success, size."""
        return compare(self.get(a), self.get(b))

    def sweep(self) -> None:
        """Remove what a registration, an import or a deletion that was cut short left behind."""
        if not self._folder.is_dir():
            return
        with self._database.read() as session:
            gone = session.exec(
                select(AdapterVersionTable.id).where(col(AdapterVersionTable.deleted_at).is_not(None))
            ).all()
        for path in (*self._folder.glob('.*.partial'), *(self._folder / id for id in gone)):
            shutil.rmtree(path, ignore_errors=True)

    def keep_up(self) -> int:
        """Register the adapters of runs that ended since; return how many. Cheap where there is nothing to do."""
        made = 0
        for run_id, ended_at in self._ended_runs():
            again_at = self._again_at.get((run_id, ended_at), 0.0)
            if time.monotonic() < again_at:
                continue
            self._again_at[run_id, ended_at] = time.monotonic() + RETRY_S
            try:
                made += self.register(run_id) is not None
            except Busy:
                del self._again_at[run_id, ended_at]
                raise
            except (RlvrError, OSError) as error:
                if not again_at:  # a log that grows would fill a full disk further
                    _log.warning('The adapter of run %s could not be kept: %s', run_id, error)
        return made

    def register(self, run_id: str, *, name: str = '') -> AdapterVersionView | None:
        """Keep the adapter of a run as a version, unless it is one already; ``None`` where it has no weights.

        Under ``name``, else with the other versions of that run, else under the name of the run.
        """
        with self._database.read() as session:
            run = session.get(RunTable, run_id)
        if run is None:
            raise NotFound(f'There is no run {run_id}')
        ended_at = run.ended_at or run.created_at
        folder = RunFolder(self._runs_folder / run_id)
        if not (folder.adapter / 'adapter_model.safetensors').is_file():
            return None
        id = new_id()
        with gather(folder, self._folder, id, fallback_step=run.step) as gathered, self._database.write() as session:
            known = known_row(session, run_id, gathered.sha256)
            if known is not None:
                known.run_ended_at = ended_at
                return None
            target = target_of(session, run, name)
            row = new_row(id, target, gathered, model=run.model)
            row.run_id, row.run_name, row.run_ended_at = run_id, run.name, ended_at
            session.add(row)
            session.flush()
            gathered.settle()
        return self.get(id)

    def bring_in(self, source: Path, *, name: str = '') -> Imported:
        """Make a version of an adapter of others: a zip or a folder, under ``name`` or that of the file.

        Raises ``ConfigError`` with the path of each fault; nothing is stored then.
        """
        name = check_name(name or _shown(source))
        id = new_id()
        try:
            with staged(self._folder, id) as (staging, place):
                (staging / 'files').mkdir()
                brought = bring_in(source, staging / 'files')
                gathered = describe(staging, place)
                gathered.made_at = datetime.now(UTC)
                with self._database.write() as session:
                    session.add(new_row(id, adapter_under(session, name), gathered, model=known_base(brought.base)))
                    session.flush()
                    gathered.settle()
        except OSError as error:
            raise StoreError(
                f'The adapter could not be stored: {error.strerror or error}', hint='See whether the disk is full.'
            ) from error
        return Imported(version=self.get(id), left_out=brought.left_out)

    def _ended_runs(self) -> Sequence[tuple[str, datetime | None]]:
        kept = select(AdapterVersionTable.id).where(
            col(AdapterVersionTable.run_id) == col(RunTable.id),
            col(AdapterVersionTable.run_ended_at) >= func.coalesce(col(RunTable.ended_at), col(RunTable.created_at)),
        )
        query = (
            select(RunTable.id, RunTable.ended_at)
            .where(col(RunTable.has_adapter), col(RunTable.state).in_(FINAL_STATES), ~kept.exists())
            .order_by(col(RunTable.created_at))
        )
        with self._database.read() as session:
            return [(id, ended_at) for id, ended_at in session.exec(query).all()]

    def _view(self, adapter: AdapterTable, row: AdapterVersionTable) -> AdapterVersionView:
        return AdapterVersionView(
            id=row.id,
            adapter_id=adapter.id,
            name=adapter.name,
            number=row.number,
            run_id=row.run_id,
            run_name=row.run_name,
            model=row.model,
            step=row.step,
            rank=row.rank,
            size=row.size,
            sha256=row.sha256,
            notes=row.notes,
            lineage=row.lineage,
            files=tuple(row.files),
            before=Evaluation.model_validate(row.before) if row.before else None,
            after=Evaluation.model_validate(row.after) if row.after else None,
            proof=ProofView.model_validate({**(row.proof or {}), 'state': row.proof_state}),
            created_at=row.created_at,
            path=str((self._folder / row.id / 'files').resolve()),
        )


def _shown(source: Path) -> str:
    """A name for what is imported without one."""
    return source.resolve().stem if source.suffix == '.zip' else source.resolve().name
