"""How documents are found: the conditions of a query and the state of a certificate, in SQL.

The full-text index (FTS5, trigrams) follows the search texts by triggers of the migration that made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, column, exists, func, table
from sqlmodel import col, select
from sqlmodel.sql.expression import SelectOfScalar

from studio.documents.text import fold, marked_topic
from studio.documents.tiers import pass_rate, tier
from studio.documents.views import CertificateState, DocumentQuery
from studio.store.tables import CertificateTable, DocumentNumberTable, DocumentTable, VersionTable

MAX_CHARS: Final = 1000
MAX_WORDS: Final = 32
_TRIGRAM: Final = 3
_INDEX: Final = table('document_search', column('rowid'), column('text'), column('document_search'))

ORDER: Final[Mapping[str, Any]] = {
    'updated': col(DocumentTable.updated_at),
    'created': col(DocumentTable.created_at),
    'title': func.lower(col(DocumentTable.title)),
    'status': col(DocumentTable.status),
    'checker': col(DocumentTable.checker),
}


def conditions(query: DocumentQuery) -> list[ColumnElement[bool]]:
    """What a document must fulfil, whatever its status."""
    where: list[ColumnElement[bool]] = [col(DocumentTable.deleted_at).is_(None)]
    topics = [marked_topic(topic) for topic in query.topics if topic]
    words = fold(query.search[:MAX_CHARS]).split()[:MAX_WORDS]
    if words or topics:
        where.append(col(DocumentTable.id).in_(_holding(topics, words)))
    where += [col(DocumentTable.id).not_in(_holding([marked_topic(topic)])) for topic in query.without_topics if topic]
    if query.workspaceid is not None:
        where.append(col(DocumentTable.workspaceid) == query.workspaceid)
    if query.checker:
        where.append(col(DocumentTable.checker) == query.checker)
    if query.certificate:
        where.append(certificate_state() == query.certificate)
    if query.tier:
        where.append(tier(query.subject) == query.tier)
    return where


def order(query: DocumentQuery) -> list[ColumnElement[Any]]:
    """What documents are sorted by; those without a pass rate come last whichever way rates are sorted."""
    by = pass_rate(query.subject) if query.sort == 'rate' else ORDER[query.sort]
    keys: list[Any] = [by, col(DocumentTable.id)]
    first, last = (key.desc() if query.descending else key.asc() for key in keys)
    return [first.nulls_last() if query.sort == 'rate' else first, last]


def certificate_state() -> ColumnElement[CertificateState]:
    """What is proven of the latest version of a document: one word, as in ``CertificateState``."""
    fresh = col(CertificateTable.evidence) == col(DocumentTable.evidence)
    word = case((col(CertificateTable.state) == 'certified', 'certified'), else_='failed')
    latest = select(case((fresh, word), else_='stale')).where(CertificateTable.hash == DocumentTable.hash)
    earlier = exists().where(
        and_(
            col(VersionTable.document_id) == col(DocumentTable.id),
            col(VersionTable.hash) == col(CertificateTable.hash),
        )
    )
    return func.coalesce(
        latest.correlate(DocumentTable).scalar_subquery(),
        case((earlier.correlate(DocumentTable), 'stale'), else_='uncertified'),
    )


def _holding(phrases: Iterable[str], words: Iterable[str] = ()) -> SelectOfScalar[str]:
    """Ids of the documents that hold every phrase and every word; a word shorter than a trigram is looked for."""
    words = list(words)
    phrases = [*phrases, *(word for word in words if len(word) >= _TRIGRAM)]
    found = select(DocumentNumberTable.document_id).join(_INDEX, _INDEX.c.rowid == DocumentNumberTable.number)
    if phrases:
        quoted = ('"' + phrase.replace('"', '""') + '"' for phrase in phrases)
        found = found.where(_INDEX.c.document_search.op('MATCH')(' '.join(quoted)))
    for word in words:
        if len(word) < _TRIGRAM:
            found = found.where(func.instr(_INDEX.c.text, word) > 0)
    return found
