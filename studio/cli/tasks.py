"""The options of ``rlvr tasks``; what each command does is in ``studio.cli.commands``, imported when it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from studio.cli.options import (
    Force,
    Home,
    Json,
    Line,
    Receipt,
    TaskPath,
    Unsafe,
    conflicts,
    examples,
    export_formats,
    files,
    import_formats,
    receipt_of,
    tasks,
)

tasks_app = typer.Typer(help='The tasks of the studio: list, import, export, variants.', no_args_is_help=True)


@tasks_app.command('list', epilog=examples('rlvr tasks list', 'rlvr tasks list --search "parse csv" --json'))
def tasks_list(
    search: Annotated[str, typer.Option(help='Words that must occur.')] = '', home: Home = None, json: Json = False
) -> None:
    """List the tasks of the studio."""
    from studio.cli.commands.tasks import tasks_list

    tasks_list(search, home=home, as_json=json)


@tasks_app.command(
    'import',
    epilog=examples(
        'rlvr tasks import tasks.jsonl --dry-run',
        'rlvr tasks import harbor-folder/ bundle.zip --publish',
        'rlvr tasks import export.jsonl --conflicts version',
    ),
)
def tasks_import(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar='FILE|FOLDER', exists=True, help='Files, archives or folders of tasks.', autocompletion=files
        ),
    ],
    format: Annotated[
        str,
        typer.Option(
            help='auto recognises each part; or jsonl, harbor, openai, doc-create.', autocompletion=import_formats
        ),
    ] = 'auto',
    conflict: Annotated[
        str,
        typer.Option(
            '--conflicts',
            metavar='keep|version|copy',
            help='A task that is here and differs: keep it, add a version, or add a copy.',
            autocompletion=conflicts,
        ),
    ] = 'keep',
    publish: Annotated[bool, typer.Option('--publish', help='Publish them at once.')] = False,
    dry_run: Annotated[bool, typer.Option('--dry-run', help='Only say what each row would become.')] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Add tasks to the studio; what is there already is left alone. Exit 2 when a row was refused."""
    from studio.cli.commands.tasks import tasks_import

    raise typer.Exit(
        tasks_import(
            paths, format=format, conflicts=conflict, publish=publish, dry_run=dry_run, home=home, as_json=json
        )
    )


@tasks_app.command(
    'export',
    epilog=examples(
        'rlvr tasks export --out tasks.jsonl',
        'rlvr tasks export --format harbor --out tasks.zip',
        'rlvr tasks export 01JEXAMPLE --format task_spec',
    ),
)
def tasks_export(
    ids: Annotated[list[str] | None, typer.Argument(metavar='ID', help='Default: all.', autocompletion=tasks)] = None,
    format: Annotated[
        str, typer.Option(help='jsonl, harbor, task_spec or doc-create.', autocompletion=export_formats)
    ] = 'jsonl',
    out: Annotated[Path | None, typer.Option(dir_okay=False, help='Default: stdout.', autocompletion=files)] = None,
    force: Force = False,
    home: Home = None,
    json: Receipt = False,
) -> None:
    """Write the latest versions of tasks."""
    from studio.cli.commands.tasks import tasks_export

    tasks_export(ids or None, format=format, out=receipt_of(out, as_json=json), force=force, home=home, as_json=json)


@tasks_app.command(
    'variants',
    epilog=examples(
        'rlvr tasks variants task.json --set n=1..20 --out many.jsonl',
        'rlvr tasks variants task.json --table values.csv --certify',
    ),
)
def tasks_variants(
    task: TaskPath,
    table: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help='CSV, TSV or JSONL with a column for each {name}.',
            autocompletion=files,
        ),
    ] = None,
    ranges: Annotated[
        list[str] | None, typer.Option('--set', metavar='NAME=VALUES', help='As in n=1..20 or city=Oslo,Rome.')
    ] = None,
    in_step: Annotated[bool, typer.Option('--in-step', help='Combine --set in step; else every combination.')] = False,
    keep: Annotated[list[str] | None, typer.Option(metavar='NAME', help='A {NAME} that is text.')] = None,
    title: Annotated[str, typer.Option(help='Title of each, with {names}.')] = '',
    out: Annotated[Path | None, typer.Option(dir_okay=False, help='Default: stdout.', autocompletion=files)] = None,
    force: Force = False,
    prove: Annotated[bool, typer.Option('--certify', help='Write only those that are certified.')] = False,
    line: Line = None,
    unsafe_sandbox: Unsafe = False,
    json: Json = False,
) -> None:
    """Make many tasks of one with {placeholders}, as JSONL. Exit 2 when a row was refused, 1 when one is not proven."""
    from studio.cli.commands.variants import tasks_variants

    raise typer.Exit(
        tasks_variants(
            task,
            table=table,
            ranges=ranges or [],
            in_step=in_step,
            kept=keep or [],
            title=title,
            out=out,
            force=force,
            prove=prove,
            line=line,
            unsafe=unsafe_sandbox,
            as_json=json,
        )
    )
