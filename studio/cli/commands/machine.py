"""``rlvr sandbox probe``, ``doctor`` and ``models``: what this machine can do, measured where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

import typer

from studio.cli.commands.output import print_json, print_table, settings

if TYPE_CHECKING:
    from trainer.models import ModelInfo

NEEDED_GB: Final = 2.0
DEVICE: Final = """
import torch
if torch.cuda.is_available():
    bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    print(torch.cuda.get_device_name(0) + (', bf16' if bf16 else ', fp16 only'))
elif torch.backends.mps.is_available():
    print('Apple GPU')
else:
    print('CPU only: fit for the starter model')
"""


@dataclass(frozen=True)
class Finding:
    """One thing looked at; ``fix`` says how to get it where it is missing."""

    name: str
    ok: bool
    detail: str = ''
    fix: str = ''


def sandbox_probe(name: str, *, as_json: bool) -> int:
    """Measure a kind of isolation; 0 when it holds. Raises ``typer.BadParameter`` for an unknown name."""
    from studio.cli.commands.progress import working
    from trainer.sandbox import Isolation
    from trainer.sandbox.probe import probe

    kinds: dict[str, Isolation] = {kind: kind for kind in get_args(Isolation)}
    name = name or settings().sandbox
    if name not in kinds:
        raise typer.BadParameter(f'{name!r} is none of {", ".join(kinds)}', param_hint='--isolation')
    with working('Trying to get out of a sandbox'):
        report = probe(kinds[name])
    if as_json:
        print_json([row.model_dump(mode='json') for row in report.rows])
    else:
        print_table([report.name, '', ''], [(row.name, _mark(row.ok), row.detail) for row in report.rows])
        if report.fix:
            typer.secho(report.fix, err=True, fg='yellow')
    return 0 if report.proven else 1


def doctor(*, as_json: bool) -> int:
    """Look at everything the studio needs; 0 when nothing needed is missing."""
    from studio.cli.commands.progress import working

    with working('Looking at this machine'):
        findings = [_python(), *_packages(), _device(), _sandbox(), _starter(), *_data_folder()]
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_table(
            ['', '', 'found', 'fix'],
            [(item.name, _mark(item.ok), item.detail, '' if item.ok else item.fix) for item in findings],
        )
    return 0 if all(finding.ok for finding in findings) else 1


def known_models() -> list[ModelInfo]:
    """The bundled models, the folders under ``<home>/models``, and the eligible list, in this order."""
    from trainer.models import find_model, offered_models

    local = sorted(path.parent for path in (settings().home / 'models').glob('*/config.json'))
    models = [*offered_models(), *(find_model(str(folder)) for folder in local)]
    order = ('bundled', 'local', 'eligible')
    return sorted(models, key=lambda model: order.index(model.kind))


def models_list(*, as_json: bool) -> None:
    """List the models a run may start from."""
    models = known_models()
    if as_json:
        keys = {'id', 'title', 'kind', 'supports_rl', 'parameters', 'source', 'about'}
        print_json([model.model_dump(mode='json', by_alias=True, include=keys) for model in models])
        return
    print_table(
        ['id', 'kind', 'RL', 'parameters'],
        [
            (model.id, model.kind, _mark(model.supports_rl), f'{model.parameters:,}' if model.parameters else '')
            for model in models
        ],
    )


def models_check(model: str, *, as_json: bool) -> int:
    """Run the pre-flight of a model; 0 when it can be trained on tools."""
    from studio.cli.commands.progress import working
    from studio.launchers.local import child_environment
    from trainer.models import preflight

    with working('Reading the tokenizer'):
        result = preflight(model, environment=child_environment(os.environ))
    if as_json:
        print_json(result.model_dump(mode='json'))
    else:
        why = f'{result.problem}. {result.hint}' if result.problem else result.note
        print_table(['model', 'tool calls can be read', ''], [(model, _mark(result.ok), why)])
    return 0 if result.ok else 1


def _mark(ok: bool) -> str:
    return 'yes' if ok else 'NO'


def _python() -> Finding:
    version = '.'.join(map(str, sys.version_info[:3]))
    return Finding('Python', sys.version_info >= (3, 11), version, 'Install Python 3.11 or newer.')


def _packages() -> list[Finding]:
    found = []
    for name in ('torch', 'transformers', 'trl', 'peft', 'nicegui'):
        there = util.find_spec(name) is not None
        found.append(
            Finding(name, there, metadata.version(name) if there else 'missing', 'Reinstall: pip install rlvr-studio')
        )
    return found


def _device() -> Finding:
    """Ask in a process of its own: the training stack is never loaded here."""
    if util.find_spec('torch') is None:
        return Finding('device', False, 'unknown without torch', 'Reinstall: pip install rlvr-studio')
    done = subprocess.run([sys.executable, '-c', DEVICE], capture_output=True, text=True, check=False)
    said = (done.stdout or done.stderr).strip().splitlines()
    return Finding('device', done.returncode == 0, said[-1] if said else '', 'torch does not load: reinstall it.')


def _sandbox() -> Finding:
    from trainer.sandbox.probe import probe

    report = probe('bubblewrap')
    broken = [row.detail if row.name == 'available' else row.name for row in report.rows if not row.ok]
    detail = f'{report.name}, {len(report.rows)} attempts to escape refused' if report.proven else '; '.join(broken)
    return Finding('sandbox', report.proven, detail, report.fix)


def _starter() -> Finding:
    from trainer.models import STARTER_FOLDER

    weights = list(STARTER_FOLDER.glob('*.safetensors'))
    detail = f'{sum(path.stat().st_size for path in weights) / 1e6:.1f} MB' if weights else 'no weights'
    return Finding('starter model', bool(weights), detail, 'The installation is incomplete: install it again.')


def _data_folder() -> list[Finding]:
    home = settings().home
    try:
        home.mkdir(parents=True, exist_ok=True)
        probe = home / '.doctor'
        probe.write_text('', encoding='utf-8')
        probe.unlink()
    except OSError as error:
        return [Finding('data folder', False, f'{home}: {error.strerror}', 'Name another with RLVR_HOME.')]
    free = shutil.disk_usage(home).free / 1e9
    return [
        Finding('data folder', True, str(Path(home).resolve())),
        Finding('disk space', free > NEEDED_GB, f'{free:.1f} GB free', f'Free at least {NEEDED_GB:g} GB.'),
    ]
