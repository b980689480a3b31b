"""The adapters that runs left: held-out success before and after, where each comes from, its files, how to load it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nicegui import run as background
from nicegui import ui

from studio.results import AdapterView
from studio.run_views import RunTask, RunView
from studio.ui.components.before_after import before_after
from studio.ui.components.elements import Button, Icon, Text, chip, spacer
from studio.ui.components.panel import panel, search_box
from studio.ui.components.wording import ago, plural, signed, size
from studio.ui.layout import Shell
from studio.ui.pages.run_parts import pairs, share
from studio.ui.theme import toast
from trainer.errors import ConfigError
from trainer.models import find_model

if TYPE_CHECKING:
    from studio.services import Studio


@dataclass(frozen=True)
class Details:
    """What the right side shows beside the adapter itself: its run, its tasks, its files with their checksums."""

    run: RunView
    tasks: tuple[RunTask, ...]
    files: tuple[tuple[str, int, str], ...]
    rank: int | None


async def page(shell: Shell, run: str = '') -> None:
    """Draw the page; ``run`` picks an adapter."""
    adapters = await background.io_bound(shell.studio.results.adapters)
    if adapters is None:
        return
    with shell.topbar('Adapters'):
        Text(f'{len(adapters):,}', classes='t3 num')
    if not adapters:
        with ui.element('div').classes('empty').style('padding: 120px 16px; width: 100%'):
            Icon('layers', 'ic-l')
            Text('No adapters yet. A run leaves one when it ends.')
            Button('New run', icon='plus', on_click=lambda: ui.navigate.to('/train'))
        return
    chosen = next((adapter for adapter in adapters if adapter.run_id == run), adapters[0])
    details = await background.io_bound(read_details, shell.studio, chosen)
    with ui.element('div').classes('ad'):
        _list(adapters, chosen)
        if details is not None:
            _detail(shell.studio, chosen, details)


def read_details(studio: Studio, adapter: AdapterView) -> Details:
    """Read what lies beside an adapter."""
    folder = Path(adapter.path)
    files = tuple(
        (str(path.relative_to(folder)), path.stat().st_size, _sha256(path, adapter))
        for path in sorted(folder.rglob('*'))
        if path.is_file()
    )
    return Details(
        run=studio.runs.get(adapter.run_id), tasks=studio.runs.tasks(adapter.run_id), files=files, rank=_rank(folder)
    )


def load_snippet(adapter: AdapterView) -> str:
    """Python that loads base and adapter with transformers and peft."""
    try:
        source = find_model(adapter.model).source
    except ConfigError:
        source = adapter.model
    return (
        'from peft import PeftModel\n'
        'from transformers import AutoModelForCausalLM, AutoTokenizer\n'
        '\n'
        f'base = {source!r}\n'
        f'adapter = {adapter.path!r}\n'
        'tokenizer = AutoTokenizer.from_pretrained(base)\n'
        "model = AutoModelForCausalLM.from_pretrained(base, dtype='auto')\n"
        'model = PeftModel.from_pretrained(model, adapter).eval()\n'
    )


def _list(adapters: list[AdapterView], chosen: AdapterView) -> None:
    with ui.element('aside').classes('vl').props('aria-label="Adapters"'):
        search_box('Find an adapter', '', lambda text: find(text))
        rows: list[tuple[str, ui.element]] = []
        for adapter in adapters:
            with ui.element('a').classes('vi') as row:
                row.props['href'] = f'/adapters?run={adapter.run_id}'
                if adapter.run_id == chosen.run_id:
                    row.props['aria-current'] = 'true'
                Text(adapter.name, classes='dn ell').props['title'] = adapter.name
                after = adapter.after
                Text('' if after is None or after.mean is None else f'{after.mean:.2f}', classes='sc')
                Text(f'Step {adapter.step:,} · {size(adapter.size)} · {ago(adapter.created_at)}', classes='mt ell')
            rows.append((adapter.name.casefold(), row))
        none = Text('None fits.', 'div', 't3 t-small pad')
        none.set_visibility(False)

        def find(text: str) -> None:
            hits = [(row, all(word in name for word in text.casefold().split())) for name, row in rows]
            for row, hit in hits:
                row.set_visibility(hit)
            none.set_visibility(not any(hit for _, hit in hits))


def _detail(studio: Studio, adapter: AdapterView, details: Details) -> None:
    with ui.element('div').classes('det'):
        with ui.element('div').classes('dh'):
            Text(adapter.name, 'h2')
            if details.rank is not None:
                chip(f'LoRA rank {details.rank}', 'z-lg')
            chip(size(adapter.size), 'z-lg num')
            chip(f'step {adapter.step:,}', 'z-lg num')
            spacer()
            with ui.element('a').classes('btn pri').props(f'href="/adapters/{adapter.run_id}/download" download'):
                Icon('download')
                Text('Download')
        with ui.element('div').classes('dg'):
            with ui.element('div'):
                _held_out(studio, adapter)
                _snippet(adapter)
            with ui.element('div'):
                _lineage(adapter, details)
                _files(adapter, details)


def _held_out(studio: Studio, adapter: AdapterView) -> None:
    if adapter.before is None and adapter.after is None:
        with panel('Held-out success'):
            Text('Not measured: the run had no held-out tasks.', 'div', 't3 t-small pad')
        return

    async def open_task(task: str) -> None:
        rows = await background.io_bound(studio.runs.rollouts, adapter.run_id, task=task, stage='after', limit=1)
        if rows:
            ui.navigate.to(f'/runs/{adapter.run_id}/rollouts/{rows[0].id}')
        else:
            toast('The attempts at this task were not recorded', 'warn')

    found = pairs(adapter.before, adapter.after)
    before_after(share(adapter.before), share(adapter.after), found, on_open=open_task)


def _snippet(adapter: AdapterView) -> None:
    text = load_snippet(adapter)
    with panel('Load with transformers and peft', icon='code') as head:
        with head:
            spacer()
            Button(icon='copy', kind='gho icn sm', label='Copy the code', on_click=_copier(text))
        with ui.element('div').classes('cmd').props('tabindex=0 role=region aria-label="Code that loads the adapter"'):
            Text(text, 'div', 'code')


def _lineage(adapter: AdapterView, details: Details) -> None:
    try:
        model = find_model(adapter.model).title
    except ConfigError:
        model = adapter.model
    trained = [task for task in details.tasks if task.role == 'train']
    held_out = len(details.tasks) - len(trained)
    with panel('Lineage', icon='git-branch'), ui.element('ol').classes('lin'):
        _node('box', model, f'base model · {adapter.model}')
        versions = ', '.join(sorted({f'v{task.version}' for task in trained if task.version}))
        _node(
            'list-checks',
            f'{plural(len(trained), "task")}, {held_out} held out',
            f'frozen copies{f", {versions}" if versions else ""}',
        )
        _node('activity', details.run.name, f'GRPO, {plural(details.run.step, "step")}', href=f'/runs/{adapter.run_id}')
        gain = ''
        if adapter.before and adapter.after and adapter.before.mean is not None and adapter.after.mean is not None:
            gain = f' · held-out {signed(adapter.after.mean - adapter.before.mean)}'
        _node('layers', f'Adapter at step {adapter.step:,}', f'{ago(adapter.created_at)}{gain}', current=True)


def _node(icon: str, title: str, text: str, *, href: str = '', current: bool = False) -> None:
    with ui.element('li'):
        with ui.element('span').classes('nd cur' if current else 'nd'):
            Icon(icon)
        with ui.element('span').classes('vs vs-0'):
            if href:
                with ui.element('a').classes('w5 ell').props(f'href="{href}"'):
                    Text(title)
            else:
                Text(title, 'b', 'w5 ell')
            Text(text, classes='t3 t-micro ell').props['title'] = text
        if current:
            chip('this one', 'acc')


def _files(adapter: AdapterView, details: Details) -> None:
    with panel('Files', icon='folder') as head:
        with head:
            spacer()
            Text(size(adapter.size), classes='t3 t-small num')
        with ui.element('dl').classes('pp'):
            for name, count, digest in details.files:
                Text(name, 'dt', 'mono')
                Text(size(count), 'dd')
                with ui.element('dd').classes('sha mono'):
                    Text(f'sha256 {digest[:12]}…{digest[-6:]}').props['title'] = digest
                    copy = _copier(digest)
                    Button(icon='copy', kind='gho icn xs', label=f'Copy the checksum of {name}', on_click=copy)


def _copier(text: str) -> Callable[[], None]:
    def copy() -> None:
        ui.clipboard.write(text)
        toast('Copied')

    return copy


def _sha256(path: Path, adapter: AdapterView) -> str:
    if path.name == 'adapter_model.safetensors':
        return adapter.sha256
    with path.open('rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def _rank(folder: Path) -> int | None:
    try:
        rank = json.loads((folder / 'adapter_config.json').read_text(encoding='utf-8')).get('r')
    except (OSError, ValueError):  # no PEFT config: nothing to say about the rank
        return None
    return rank if isinstance(rank, int) else None
