"""Rows of calibrations: who attempts, what of it is counted, and the views made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlmodel import Session, col, select

from studio.calibrations.forecast import reward_key
from studio.calibrations.views import JobView, Subject, subject_title, usual_tokens
from studio.documents.rows import task_file
from studio.documents.tiers import batches
from studio.store.tables import (
    CalibrationJobTable,
    CalibrationSubjectTable,
    CalibrationTable,
    DocumentTable,
    VersionTable,
)
from trainer.calibration_messages import Counted
from trainer.checkpoints import sha256
from trainer.errors import ConfigError, FieldError
from trainer.models import find_model
from trainer.task import TaskFile, content_hash
from trainer.verdict import outcome_of

WEIGHTS: Final = 'adapter_model.safetensors'


def new_subject(
    model: str, adapter: str, adapter_id: str | None, temperature: float | None, tokens: int | None
) -> CalibrationSubjectTable:
    """A row that is not stored yet. Raises ``ConfigError`` at ``model`` or ``adapter``."""
    info = find_model(model)
    folder, digest = '', ''
    if adapter:
        try:
            path = Path(adapter).expanduser().resolve()
            folder, digest = str(path), adapter_hash(path)
        except (OSError, ValueError, RuntimeError) as error:
            raise _no_adapter(adapter, f' ({error})') from None
    heat = info.preset.temperature if temperature is None else temperature
    length = tokens or usual_tokens(info.preset)
    return CalibrationSubjectTable(
        key=content_hash([info.id, digest, heat, length])[:16],
        model=info.id,
        adapter=folder,
        adapter_id=adapter_id,
        adapter_hash=digest,
        temperature=heat,
        tokens=length,
        used_at=datetime.now(UTC),
    )


def adapter_hash(folder: Path) -> str:
    """Hash of an adapter's weights. Raises ``ConfigError`` at ``adapter`` where there are none."""
    if not (folder / WEIGHTS).is_file() or not (folder / 'adapter_config.json').is_file():
        raise _no_adapter(str(folder))
    return sha256(folder / WEIGHTS)


def _no_adapter(folder: str, why: str = '') -> ConfigError:
    said = f'{folder[:200]!r} holds no adapter{why}'
    hint = f'Name a folder with adapter_config.json and {WEIGHTS}.'
    return ConfigError(said, [FieldError(loc='adapter', msg=said)], hint=hint)


def keep_subject(session: Session, wanted: CalibrationSubjectTable) -> CalibrationSubjectTable:
    """The stored row of a subject, made where it is new; it is the one that was used last."""
    row = session.get(CalibrationSubjectTable, wanted.key)
    if row is None:
        session.add(wanted)
        return wanted
    row.used_at = wanted.used_at
    row.adapter, row.adapter_id = wanted.adapter, wanted.adapter_id or row.adapter_id
    return row


def count(session: Session, subject: str, hash: str, counted: Counted) -> None:
    """Add the attempts at a task to what is known of its version."""
    row = session.get(CalibrationTable, (subject, hash))
    if row is None:
        row = CalibrationTable(subject=subject, hash=hash, rewards={}, updated_at=datetime.now(UTC))
        session.add(row)
    scored = [reward for reward in counted.rewards if reward is not None]
    rewards = dict(row.rewards)
    for reward in scored:
        rewards[reward_key(reward)] = rewards.get(reward_key(reward), 0) + 1
    row.rewards = rewards
    row.passes += sum(outcome_of(reward) == 'passed' for reward in scored)
    row.attempts += len(scored)
    row.errors += len(counted.rewards) - len(scored)
    row.error = counted.error[:500] or row.error
    row.updated_at = datetime.now(UTC)
    who = session.get(CalibrationSubjectTable, subject)
    if who is not None:
        who.attempts += len(counted.rewards)
        who.seconds += counted.seconds


def latest_versions(session: Session, ids: Iterable[str]) -> list[TaskFile]:
    """Frozen copies of the latest versions, in the order asked for; documents without one are left out."""
    found: dict[str, TaskFile] = {}
    wanted = list(dict.fromkeys(ids))
    for some in batches(wanted):
        query = (
            select(DocumentTable, VersionTable.task_spec)
            .join(VersionTable, col(VersionTable.document_id) == col(DocumentTable.id))
            .where(col(DocumentTable.id).in_(some), col(DocumentTable.deleted_at).is_(None))
            .where(VersionTable.number == DocumentTable.version)
        )
        # The solutions are the author's: a model that attempts the task never sees them.
        found |= {row.id: _without_solutions(row, spec) for row, spec in session.exec(query).all()}
    return [found[id] for id in wanted if id in found]


def _without_solutions(row: DocumentTable, spec: Mapping[str, Any]) -> TaskFile:
    return task_file(row, spec).model_copy(update={'solutions': (), 'notes': ''})


def subject_view(row: CalibrationSubjectTable, adapter_name: str = '') -> Subject:
    """The view of a subject; ``adapter_name`` is what the registry calls its adapter."""
    adapter = adapter_name or (Path(row.adapter).name if row.adapter else '')
    return Subject(
        key=row.key,
        model=row.model,
        adapter=row.adapter,
        adapter_id=row.adapter_id,
        adapter_hash=row.adapter_hash,
        temperature=row.temperature,
        tokens=row.tokens,
        attempts=row.attempts,
        seconds=row.seconds,
        used_at=row.used_at,
        title=subject_title(row.model, adapter, row.temperature, row.tokens),
    )


def job_view(row: CalibrationJobTable, subject: Subject) -> JobView:
    """The view of a job as it is stored."""
    tried = row.counted.get('tasks', 0)
    return JobView.model_validate(
        {
            'id': row.id,
            'subject': subject,
            'state': row.state,
            'k': row.k,
            'tasks': len(row.tasks),
            'tried': tried,
            'checked': tried * row.k,
            'errors': row.counted.get('errors', 0),
            'reason': row.reason,
            'created_at': row.created_at,
        }
    )
