"""Rows of the adapter registry: which name a version belongs to, its number, and how it is found by words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from sqlmodel import Session, col, select

from studio.adapters.files import Gathered
from studio.errors import NotFound
from studio.store.ids import new_id
from studio.store.tables import AdapterTable, AdapterVersionTable, RunTable
from trainer.errors import ConfigError, FieldError
from trainer.models import find_model
from trainer.task import MAX_TITLE_CHARS


def check_name(name: str, *, loc: str = 'name') -> str:
    """A name is free text and kept as typed. Raises ``ConfigError`` at ``loc``."""
    problem = ''
    if not name.strip():
        problem = 'Give the adapter a name'
    elif len(name) > MAX_TITLE_CHARS:
        problem = f'At most {MAX_TITLE_CHARS} characters, not {len(name)}'
    elif any(ord(letter) < 32 or 0xD800 <= ord(letter) <= 0xDFFF for letter in name):
        problem = 'A name cannot hold control characters'
    if problem:
        raise ConfigError(problem, [FieldError(loc=loc, msg=problem)])
    return name.strip()


def folded(name: str) -> str:
    """What makes two names the same."""
    return ' '.join(name.casefold().split())


def version_row(session: Session, id: str) -> AdapterVersionTable:
    """A version that was not deleted. Raises ``NotFound``."""
    row = session.get(AdapterVersionTable, id)
    if row is None or row.deleted_at is not None:
        raise NotFound(f'There is no adapter {id}', hint='It may have been deleted in another tab.')
    return row


def named_base(row: AdapterVersionTable) -> str:
    """Where the base model of a version is now, as somebody named it; empty where it has not moved."""
    return str((row.proof or {}).get('base') or '')


def adapter_row(session: Session, id: str) -> AdapterTable:
    """A name. Raises ``NotFound``."""
    row = session.get(AdapterTable, id)
    if row is None:
        raise NotFound(f'There is no adapter {id}', hint='It may have been deleted in another tab.')
    return row


def known_row(session: Session, run_id: str, sha256: str) -> AdapterVersionTable | None:
    """The version, deleted or not, that these weights of a run became."""
    query = select(AdapterVersionTable).where(
        AdapterVersionTable.run_id == run_id, AdapterVersionTable.sha256 == sha256
    )
    return session.exec(query).first()


def row_of_run(session: Session, run_id: str) -> AdapterVersionTable | None:
    """The newest version that a run left."""
    return next(iter(_live(session, AdapterVersionTable.run_id == run_id)), None)


def named_row(session: Session, reference: str) -> AdapterVersionTable | None:
    """A version as ``name:v2``, ``name v2`` or ``name``."""
    found = re.fullmatch(r'(.+?)(?:[:\s]+v(\d+))', reference, re.DOTALL)
    for name, number in ((reference, None), *(((found[1], int(found[2])),) if found else ())):
        adapter = session.exec(select(AdapterTable).where(AdapterTable.key == folded(name))).first()
        rows = _live(session, AdapterVersionTable.adapter_id == adapter.id) if adapter else []
        hits = [row for row in rows if number is None or row.number == number]
        if hits:
            return max(hits, key=lambda row: row.number)
    return None


def adapter_under(session: Session, name: str) -> AdapterTable:
    """The row of a name, made where there is none."""
    row = session.exec(select(AdapterTable).where(AdapterTable.key == folded(name))).first()
    if row is None:
        row = AdapterTable(id=new_id(), name=name, key=folded(name), created_at=datetime.now(UTC))
        session.add(row)
        session.flush()
    return row


def target_of(session: Session, run: RunTable, name: str) -> AdapterTable:
    """Where a run's adapter belongs: under ``name``, with what the run left before, else under the run's own name.

    Adapters for another base model are never mixed under one name by themselves.
    """
    if name:
        return adapter_under(session, check_name(name))
    before = row_of_run(session, run.id)
    if before is not None:
        return adapter_row(session, before.adapter_id)
    target = adapter_under(session, run.name)
    others = {row.model for row in _live(session, AdapterVersionTable.adapter_id == target.id)}
    return target if others <= {run.model} else adapter_under(session, f'{run.name} ({_title(run.model)})')


def take_number(adapter: AdapterTable) -> int:
    """The number of a new version under a name."""
    adapter.next_number += 1
    return adapter.next_number - 1


def new_row(id: str, adapter: AdapterTable, gathered: Gathered, *, model: str) -> AdapterVersionTable:
    """The row of a new version, with its number."""
    return AdapterVersionTable(
        id=id,
        adapter_id=adapter.id,
        number=take_number(adapter),
        model=model,
        step=gathered.step,
        rank=gathered.rank,
        size=sum(file.size for file in gathered.files),
        sha256=gathered.sha256,
        lineage=gathered.lineage,
        files=[file.model_dump() for file in gathered.files],
        before=gathered.before,
        after=gathered.after,
        proof_state='queued' if gathered.provable else 'none',
        proof_asked_at=datetime.now(UTC) if gathered.provable else None,
        created_at=gathered.made_at,
    )


def known_base(name: str) -> str:
    """The id of a base model that is known here by another name, else the name as it is."""
    try:
        return find_model(name).id
    except ConfigError:
        return name


def _live(session: Session, *where: bool) -> Sequence[AdapterVersionTable]:
    query = select(AdapterVersionTable).where(*where, col(AdapterVersionTable.deleted_at).is_(None))
    newest = (col(AdapterVersionTable.created_at).desc(), col(AdapterVersionTable.id).desc())
    return session.exec(query.order_by(*newest)).all()


def _title(model: str) -> str:
    try:
        return find_model(model).title
    except ConfigError:
        return model.rsplit('/', 1)[-1]
