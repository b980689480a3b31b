"""What the shell offers while a command is typed: models, runs, tasks and formats, each with a word on what it is.

Nothing is said here: what stands in the way of an answer is an empty one, and the command itself tells it when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from studio.cli.commands.output import settings
from trainer.errors import RlvrError

if TYPE_CHECKING:
    from studio.settings import Settings
    from studio.store.database import Database

Offered = list[tuple[str, str]]
_LIMIT: Final = 200


def models(incomplete: str) -> Offered:
    """Models a run may start from."""
    from studio.cli.commands.machine import known_models

    try:
        return _fitting(incomplete, ((model.id, model.title) for model in known_models()))
    except RlvrError:
        return []


def runs(incomplete: str, home: Path | None = None) -> Offered:
    """Runs of the studio, newest first."""

    def read(database: Database, chosen: Settings) -> Offered:
        from studio.documents.service import Documents
        from studio.launchers import LocalLauncher
        from studio.runs.service import Runs
        from studio.runs.views import RunQuery

        found = Runs(database, chosen, LocalLauncher(), Documents(database)).list(RunQuery(per_page=1000))
        return [(run.id, f'{run.name} ({run.state})') for run in found.rows]

    return _fitting(incomplete, _stored(read, home))


def tasks(incomplete: str, home: Path | None = None) -> Offered:
    """Tasks of the studio, last changed first."""

    def read(database: Database, _: Settings) -> Offered:
        from studio.documents.service import DocumentQuery, Documents

        found = Documents(database).list(DocumentQuery(per_page=1000))
        return [(task.id, task.title or 'Untitled') for task in found.rows]

    return _fitting(incomplete, _stored(read, home))


def adapters(incomplete: str, home: Path | None = None) -> Offered:
    """Adapters of the studio, the newest of each name."""

    def read(database: Database, chosen: Settings) -> Offered:
        from studio.adapters.service import Adapters

        found = Adapters(database, chosen.home / 'adapters', chosen.runs_folder).list()
        return [(named.name, f'{named.versions[0].model}, v{named.versions[0].number}') for named in found]

    return _fitting(incomplete, _stored(read, home))


def import_formats(incomplete: str) -> Offered:
    """What ``tasks import`` reads."""
    from studio.exchange.formats import AUTO, READERS

    return _fitting(incomplete, [(AUTO, 'Recognise each part'), *((one.name, one.title) for one in READERS)])


def export_formats(incomplete: str) -> Offered:
    """What ``tasks export`` writes."""
    from studio.exchange.formats import WRITERS

    return _fitting(incomplete, ((one.name, one.title) for one in WRITERS))


def _stored(read: Callable[[Database, Settings], Offered], home: Path | None) -> Offered:
    from studio.store.database import Database

    try:
        chosen = settings(home=home)
        # Looking makes no data folder.
        if not chosen.database and not (chosen.home / 'studio.db').is_file():
            return []
        database = Database(chosen.database_url, busy_s=1)
        try:
            return read(database, chosen)
        finally:
            database.close()
    except RlvrError:
        return []


def _fitting(incomplete: str, offered: Iterable[tuple[str, str]]) -> Offered:
    return [(name, about) for name, about in offered if name.startswith(incomplete)][:_LIMIT]
