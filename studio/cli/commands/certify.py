"""``rlvr certify``: is the reward of a task proven, and if not, which line says so and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from studio.cli.commands.grading import chosen_solution
from studio.cli.commands.output import isolation, one_task, print_json, print_table, say, settings
from studio.cli.commands.progress import counting
from trainer.certify import Certificate, certify

COLOURS: Final = {'certified': 'green', 'failed': 'red'}


def certify_task(
    task: Path, solution: str, *, repeats: int, thorough: bool, line: int | None, unsafe: bool, as_json: bool
) -> int:
    """Certify a task of a file; 0 when it is certified, else 1. Raises ``TaskError`` and ``SandboxUnavailable``."""
    file = one_task(task, line)
    given = chosen_solution(file, solution)
    if given is not None:
        others = tuple(one for one in file.solutions if one.kind != 'reference')
        file = file.model_copy(update={'solutions': (given.model_copy(update={'kind': 'reference'}), *others)})
    kind, python = isolation(unsafe=unsafe), settings().python(say)
    with counting('Certifying', quiet=as_json) as count:
        certificate = certify(
            file,
            home=settings().home,
            isolation=kind,
            environment=python,
            repeats=repeats,
            thorough=thorough,
            on_progress=count,
        )
    if as_json:
        print_json(_plain(certificate))
    else:
        _show(certificate)
    return 0 if certificate.state == 'certified' else 1


def _plain(certificate: Certificate) -> dict[str, object]:
    return {
        'state': certificate.state,
        'hash': certificate.hash,
        'probes': [{'name': p.name, 'ok': p.ok, 'detail': p.detail} for p in certificate.probes],
        'weak': certificate.weak,
        'isolation': certificate.isolation,
        'duration_ms': certificate.duration_ms,
    }


def _show(certificate: Certificate) -> None:
    """The failed lines first, then the rest, then what it means."""
    failed = certificate.failed
    good = [probe for probe in certificate.probes if probe.ok]
    print_table(
        ['', 'What was tried', 'What came out'],
        [('failed' if not probe.ok else 'ok', probe.name, probe.detail) for probe in (*failed, *good)],
    )
    took = f'hash {certificate.hash[:12]}, {certificate.isolation}, {certificate.duration_ms / 1000:.1f} s'
    if failed:
        lines = 'line' if len(failed) == 1 else 'lines'
        verdict = f'Not certified: {len(failed)} of {len(certificate.probes)} {lines} failed'
    else:
        verdict = 'Certified'
    typer.secho(f'{verdict} ({took})', fg=COLOURS[certificate.state])
    if certificate.weak:
        say(f'Weak: {certificate.weak}')
