"""The models a run can start from: the bundled one, the eligible ones, and what each needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from nicegui import run, ui

from studio.ui.components.elements import Button, Text, chip, note
from studio.ui.components.wording import parameters, size
from studio.ui.layout import Shell
from trainer.models import ModelInfo, offered_models

_KINDS: Final = {
    'bundled': ('Bundled', 'ok'),
    'eligible': ('Eligible', 'acc'),
    'local': ('Local', ''),
    'hub': ('Hub', ''),
}


async def page(shell: Shell) -> None:
    """Draw the table of models."""
    models = offered_models()
    with shell.topbar('Models'):
        Text(str(len(models)), classes='t3 num')
    on_disk = await run.io_bound(lambda: {model.id: bytes_on_disk(model) for model in models})
    if on_disk is None:
        return
    with ui.element('div').classes('main flush'):
        with ui.element('div').classes('tbl-wrap'), ui.element('table').classes('tbl').props('aria-label=Models'):
            with ui.element('thead'), ui.element('tr'):
                for head, classes in (
                    ('Model', ''),
                    ('Kind', ''),
                    ('Size', 'r'),
                    ('RLVR', ''),
                    ('Highest learning rate', 'r hide-s'),
                    ('On this machine', ''),
                    ('', ''),
                ):
                    Text(head, 'th', classes)
            with ui.element('tbody'):
                for model in models:
                    _row(model, on_disk[model.id])
        with ui.element('div').classes('below'):
            note(
                'A run also takes a local folder or a hub id. Its tokenizer is tried first, in seconds and without '
                'weights: it must render tools, keep prefixes, and its tool calls must read back.',
                lead='Another model.',
            )


def _row(model: ModelInfo, stored: int) -> None:
    word, kind = _KINDS[model.kind]
    with ui.element('tr'):
        with ui.element('td').classes('wide'), ui.element('span').classes('vs vs-0'):
            Text(model.title, classes='w5')
            Text(model.about or model.source, classes='hint ell').props['title'] = model.about or model.source
        with ui.element('td'):
            chip(word, kind)
        Text(parameters(model.parameters), 'td', 'r num')
        with ui.element('td'):
            if model.supports_rl:
                chip('Supported', 'ok', icon='circle-check')
            else:
                chip('Not supported', '', icon='ban')
        Text(f'{model.rate_cap:g}'.replace('e-0', 'e-'), 'td', 'r num mono hide-s')
        Text(size(stored) if stored else 'Downloaded when a run starts', 'td', 'num' if stored else 't3 t-small')
        with ui.element('td'):
            Button('Train', icon='play', kind='sm', on_click=lambda: _train(model))


def _train(model: ModelInfo) -> None:
    ui.navigate.to(f'/train?{urlencode({"model": model.id})}')


def bytes_on_disk(model: ModelInfo) -> int:
    """Bytes of a model's files on this machine: its folder, or its place in the hub's cache."""
    folder = Path(model.source)
    if not folder.is_absolute():
        home = Path(os.environ.get('HF_HOME', '~/.cache/huggingface')).expanduser()
        cache = Path(os.environ.get('HF_HUB_CACHE', home / 'hub'))
        folder = cache / f'models--{model.source.replace("/", "--")}' / 'blobs'
    return sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) if folder.is_dir() else 0
