"""``rlvr adapters``: list, import, export, delete, and prove that one behaves as it did in training."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer

from studio.adapters.service import Adapters
from studio.adapters.views import AdapterVersionView
from studio.cli.commands.output import isolation, print_json, print_table, say, settings
from studio.side_jobs.service import SideJobs, SideJobView
from studio.store.database import Database
from trainer.errors import ConfigError, FieldError
from trainer.proof import EXPECTED, ProofResult

POLL_S = 0.2


def adapters_list(*, home: Path | None, as_json: bool) -> None:
    """List every version, the newest of each name first."""
    with _adapters(home) as adapters:
        versions = [version for named in adapters.list() for version in named.versions]
    if as_json:
        print_json([_json(version) for version in versions])
        return
    print_table(
        ['id', 'adapter', 'base model', 'step', 'success', 'proof', 'size'],
        [
            (
                version.id,
                version.label,
                version.model,
                str(version.step),
                '' if version.success is None else f'{version.success:.2f}',
                version.proof.state,
                _size(version.size),
            )
            for version in versions
        ],
    )


def adapters_import(source: Path, *, name: str, home: Path | None, as_json: bool) -> None:
    """Bring in the zip or folder of a LoRA adapter."""
    with _adapters(home) as adapters:
        done = adapters.bring_in(source, name=name)
    if as_json:
        print_json({**_json(done.version), 'left_out': list(done.left_out)})
        return
    typer.echo(f'{done.version.label} for {done.version.model}, {_size(done.version.size)}')
    if done.left_out:
        say(f'Left out, because no adapter needs them: {", ".join(done.left_out[:10])}')


def adapters_export(adapter: str, *, out: Path | None, home: Path | None, as_json: bool) -> None:
    """Write a version as a zip in PEFT layout, or into a new folder where ``out`` has no ``.zip``."""
    with _adapters(home) as adapters:
        version = adapters.find(adapter)
        target = out or Path(f'{version.file_name}.zip')
        if target.exists():
            raise ConfigError(f'{target} is there already', hint='Name another file with --out.')
        try:
            if target.suffix == '.zip':
                shutil.copyfile(adapters.zip(version.id), target)
            else:
                shutil.copytree(version.path, target)
        except OSError as error:
            raise ConfigError(f'{target} cannot be written: {error.strerror}') from error
    if as_json:
        print_json({**_json(version), 'path': str(target.resolve())})
    else:
        typer.echo(str(target))


def adapters_delete(adapter: str, *, yes: bool, home: Path | None, as_json: bool) -> None:
    """Delete a version and its files; asks first, unless ``yes``."""
    with _adapters(home) as adapters:
        version = adapters.find(adapter)
        freed = adapters.freed_by_deleting(version.id)
        if not yes:
            typer.confirm(f'Delete {version.label} for good? It frees {_size(freed)}', abort=True, err=True)
        freed = adapters.delete(version.id)
    if as_json:
        print_json({'id': version.id, 'freed_bytes': freed})
    else:
        typer.echo(f'{version.label} is deleted, {_size(freed)} are free')


def adapters_prove(adapter: str, *, base: str, unsafe: bool, home: Path | None, as_json: bool) -> int:
    """Prove a version, or the adapter in a run folder; 0 where it behaves as in training, 1 where it does not."""
    configured = settings(home=home)
    with _adapters(home) as adapters:
        version = None if Path(adapter).is_dir() else adapters.find(adapter)
        folder, proof = _of_folder(Path(adapter)) if version is None else _of_version(adapters, version)
    arguments = ['--adapter', str(folder.resolve()), '--expected', str((proof / EXPECTED).resolve())]
    arguments += ['--held-out', str((proof / 'heldout.jsonl').resolve()), '--base', base]
    arguments += ['--home', str(configured.home.resolve()), '--isolation', isolation(unsafe=unsafe)]
    job = _follow(arguments)
    if job.state == 'cancelled':
        return 130
    if job.state != 'done':
        raise ConfigError(job.message, [FieldError(loc='adapter', msg=job.message)], hint=job.hint)
    result = ProofResult.model_validate(job.result)
    if version is not None:
        with _adapters(home) as adapters:
            adapters.keep_proof(version.id, result)
    if as_json:
        print_json(result.model_dump(mode='json'))
    else:
        _show(result)
    return 0 if result.state == 'proven' else 1


@contextmanager
def _adapters(home: Path | None) -> Iterator[Adapters]:
    configured = settings(home=home)
    database = Database(configured.database_url)
    database.migrate()
    try:
        adapters = Adapters(database, configured.home / 'adapters', configured.runs_folder)
        adapters.keep_up()
        yield adapters
    finally:
        database.close()


def _of_folder(path: Path) -> tuple[Path, Path]:
    """An adapter and what was recorded of it: of a run folder, of the adapter in one, or of both in one folder."""
    for adapter, proof in ((path / 'adapter', path), (path, path.resolve().parent), (path, path)):
        if (adapter / 'adapter_config.json').is_file() and (proof / EXPECTED).is_file():
            return adapter, proof
    raise ConfigError(
        f'{path} holds nothing to compare with',
        [FieldError(loc='adapter', msg=f'{EXPECTED} is missing')],
        hint=f'Name a run folder that has ended: it holds adapter/ and {EXPECTED}.',
    )


def _of_version(adapters: Adapters, version: AdapterVersionView) -> tuple[Path, Path]:
    return Path(version.path), adapters.proof_path(version.id)


def _follow(arguments: list[str]) -> SideJobView:
    """Make the proof, with its progress on stderr; Ctrl-C ends it."""
    jobs = SideJobs()
    job = jobs.start('proof', 'cli', 'trainer.parity', arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: jobs.cancel(job.id))
    shown = ''
    try:
        while True:
            seen = jobs.view(job.id)
            text = f'{seen.text} {seen.done}/{seen.total}' if seen.total else seen.text
            if text != shown and sys.stderr.isatty():
                sys.stderr.write(f'\r\x1b[K{text}')
                sys.stderr.flush()
            shown = text
            if seen.state != 'running':
                break
            _wait(jobs, job.id)
    finally:
        jobs.close()
        if shown and sys.stderr.isatty():
            sys.stderr.write('\r\x1b[K')
    return jobs.view(job.id)


def _wait(jobs: SideJobs, id: str) -> None:
    with suppress(subprocess.TimeoutExpired):
        jobs.wait(id, POLL_S)


def _show(result: ProofResult) -> None:
    if result.verdicts is not None:
        seen = result.verdicts
        typer.echo(f'Held-out attempts: {seen.solved_then} solved in training, {seen.solved_now} now')
        if seen.exact:
            typer.echo(f'Same verdict: {seen.same} of {seen.attempts}')
    typer.echo(f'Largest difference of a logit: {result.logit_difference:.2g} (at most {result.logit_tolerance:g})')
    for problem in result.problems:
        say(problem, error=True)
    typer.echo('Proven: it behaves as in training' if result.state == 'proven' else 'Not proven')


def _json(version: AdapterVersionView) -> dict[str, Any]:
    kept = {'id', 'name', 'number', 'run_id', 'model', 'step', 'rank', 'size', 'sha256', 'notes', 'created_at', 'path'}
    data = version.model_dump(mode='json', include=kept)
    before, after = (view.mean if view else None for view in (version.before, version.after))
    return {**data, 'before': before, 'after': after, 'proof': version.proof.state}


def _size(count: int) -> str:
    return f'{count / 1e6:.1f} MB' if count >= 100_000 else f'{count / 1e3:.1f} kB'
