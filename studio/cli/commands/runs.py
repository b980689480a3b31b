"""``rlvr runs list`` and ``export``: the runs of the studio and their numbers, from the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from studio.cli.commands.output import check_free, every_row, print_json, print_table, say, settings
from studio.documents.service import Documents
from studio.launchers import LocalLauncher
from studio.runs.export import FORMATS, Format, RunExport
from studio.runs.results import Results
from studio.runs.service import Runs
from studio.runs.views import RunQuery
from studio.store.database import Database
from trainer.errors import ConfigError


def runs_list(search: str, *, home: Path | None, as_json: bool) -> None:
    """List runs, newest first."""
    with _runs(home) as (runs, _):
        rows = every_row(lambda page: runs.list(RunQuery(search=search, per_page=1000, page=page)))
    if as_json:
        keys = {'id', 'name', 'model', 'state', 'step', 'total', 'created_at', 'latest'}
        print_json([row.model_dump(mode='json', include=keys) for row in rows])
        return
    print_table(
        ['id', 'state', 'step', 'model', 'name'],
        [(row.id, row.state, f'{row.step} of {row.total}', row.model, row.name) for row in rows],
    )


def runs_export(run: str, *, format: str, out: Path | None, force: bool, home: Path | None, as_json: bool) -> None:
    """Write the numbers of a run to a file, a folder or stdout. Raises ``ConfigError``, ``NotFound``."""
    chosen = _format(format)
    if chosen == 'tensorboard' and out is None:
        raise ConfigError('TensorBoard reads folders', hint='Name one with --out FOLDER.')
    with _runs(home) as (_, export):
        file = export.file(export.find(run).id, chosen)
        if out is None:
            for piece in file.pieces:
                sys.stdout.buffer.write(piece)
            return
        target = _target(out, file.name, folder=chosen == 'tensorboard')
        check_free(target, force=force)
        partial = target.with_name(f'.{target.name}.partial')
        try:
            with partial.open('wb') as written:
                for piece in file.pieces:
                    written.write(piece)
            partial.replace(target)
        except OSError as error:
            raise ConfigError(f'{target} cannot be written: {error.strerror}') from None
        finally:
            partial.unlink(missing_ok=True)
    if as_json:
        print_json({'out': str(target), 'format': chosen})
    else:
        say(f'Wrote {target}')


def _target(out: Path, name: str, *, folder: bool) -> Path:
    """The file to write. Raises ``ConfigError``."""
    try:
        if folder:
            out.mkdir(parents=True, exist_ok=True)
        else:
            out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f'{out} cannot be made: {error.strerror}', hint='Name another --out.') from None
    return out / name if folder or out.is_dir() else out


def _format(name: str) -> Format:
    for known in FORMATS:
        if name == known:
            return known
    raise ConfigError(f'{name!r} is no format', hint=f'Use one of {", ".join(FORMATS)}.')


@contextmanager
def _runs(home: Path | None) -> Iterator[tuple[Runs, RunExport]]:
    chosen = settings(home=home)
    chosen.home.mkdir(parents=True, exist_ok=True)
    database = Database(chosen.database_url)
    database.migrate()
    try:
        runs = Runs(database, chosen, LocalLauncher(), Documents(database))
        yield runs, RunExport(database, runs, Results(database, chosen.runs_folder))
    finally:
        database.close()
