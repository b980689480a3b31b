"""``rlvr tasks variants``: a task with {placeholders} and rows of values become many tasks, as JSONL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from studio.cli.commands.output import check_free, isolation, one_task, print_json, read_text, say, settings, write_file
from studio.cli.commands.progress import counting
from studio.exchange.jsonl import write
from studio.variants.service import Form, Preview, Variant, preview, template_of
from trainer.certify import certify
from trainer.errors import FieldError, TaskError


def tasks_variants(
    task: Path,
    *,
    table: Path | None,
    ranges: Sequence[str],
    in_step: bool,
    kept: Sequence[str],
    title: str,
    out: Path | None,
    force: bool,
    prove: bool,
    line: int | None,
    unsafe: bool,
    as_json: bool,
) -> int:
    """Write the good variants; 2 when a row was refused, else 1 when one that was to be proven is not.

    Raises ``TaskError`` where the task, the table or the ranges cannot work, and ``ConfigError`` where ``out`` is
    there and ``force`` does not say to replace it.
    """
    if (table is None) == (not ranges):
        raise TaskError('Give either --table or --set', hint='For example: --set n=1..20')
    if out is not None:
        check_free(out, force=force)
    form = Form(
        source='table' if table else 'ranges',
        table=read_text(table) if table else '',
        ranges=dict(_pair(text) for text in ranges),
        combine='zip' if in_step else 'product',
        title=title,
        kept=tuple(kept),
    )
    found = preview(template_of(one_task(task, line)), form.recipe())
    if found.problems:
        raise TaskError(
            found.problems[0].msg, found.problems, hint='Braces that are text: write {{name}}, or --keep NAME.'
        )
    failed = _unproven(found, unsafe=unsafe, quiet=as_json) if prove else {}
    good = [variant.task for variant in found.good if variant.task and variant.number not in failed]
    if out is not None:
        write_file(out, write(good).encode('utf-8'))
    _report(found, failed, as_json=as_json)
    if out is not None:
        say(f'{len(good)} variants written to {out}')
    elif not as_json:
        typer.echo(write(good).encode('utf-8'), nl=False)
    return 2 if len(found.good) < len(found.variants) else 1 if failed else 0


def _unproven(found: Preview, *, unsafe: bool, quiet: bool) -> dict[int, str]:
    """The variants whose certificate failed, with the first line that says why."""
    kind, home, python = isolation(unsafe=unsafe), settings().home, settings().python(say)
    failed = {}
    with counting('Certifying', quiet=quiet) as count:
        for number, variant in enumerate(found.good):
            count(number, len(found.good), variant.title)
            if variant.task is not None:
                certificate = certify(variant.task, home=home, isolation=kind, environment=python)
                if certificate.failed:
                    failed[variant.number] = f'{certificate.failed[0].name}: {certificate.failed[0].detail}'
    return failed


def _report(found: Preview, failed: dict[int, str], *, as_json: bool) -> None:
    if as_json:
        print_json([_plain(variant, failed) for variant in found.variants])
        return
    for remark in found.remarks:
        say(f'Note: {remark}')
    for variant in found.variants:
        for problem in variant.problems:
            say(f'row {variant.number} (line {variant.line}): {problem.loc}: {problem.msg}', error=True)
        if variant.number in failed:
            say(f'row {variant.number}: not certified: {failed[variant.number]}', error=True)


def _plain(variant: Variant, failed: dict[int, str]) -> dict[str, Any]:
    return {
        'row': variant.number,
        'line': variant.line,
        'title': variant.title,
        'values': variant.values,
        'ok': variant.ok and variant.number not in failed,
        'errors': [problem.model_dump() for problem in variant.problems],
        'reason': failed.get(variant.number, ''),
        'task': variant.task.model_dump(mode='json', include={'title', 'topics', 'task_spec', 'solutions'})
        if variant.ok and variant.task
        else None,
    }


def _pair(text: str) -> tuple[str, str]:
    name, separator, values = text.partition('=')
    if not separator:
        message = f'--set takes NAME=VALUES, not {text!r}'
        raise TaskError(message, [FieldError(loc='--set', msg=message)], hint='For example: --set n=1..20')
    return name.strip(), values
