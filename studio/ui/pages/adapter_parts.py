"""The cards of an adapter version: held-out success, lineage, notes, files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from nicegui import run as background
from nicegui import ui

from studio.adapters.views import AdapterVersionView
from studio.runs.views import RunView
from studio.ui.components.before_after import before_after
from studio.ui.components.elements import Button, Icon, Text, chip, spacer
from studio.ui.components.panel import panel
from studio.ui.components.wording import ago, plural, signed, size
from studio.ui.pages.adapter_list import step_words
from studio.ui.pages.run_parts import pairs, share
from studio.ui.theme import toast
from trainer.errors import ConfigError
from trainer.models import find_model

if TYPE_CHECKING:
    from studio.services import Studio


def held_out_panel(studio: Studio, version: AdapterVersionView, run: RunView | None) -> None:
    """Held-out success before and after; a task opens its attempts while the run is there."""
    if version.before is None and version.after is None:
        why = (
            'Its author did not say. Evaluate it on your own tasks: rlvr evaluate TASKS --adapter FOLDER.'
            if version.imported
            else 'Not measured: the run had no held-out tasks, or was stopped before they were attempted.'
        )
        with panel('Held-out success'):
            Text(why, 'div', 't3 t-small pad')
        return

    async def open_task(task: str) -> None:
        rows = await background.io_bound(studio.runs.rollouts, run.id if run else '', task=task, stage='after', limit=1)
        if rows:
            ui.navigate.to(f'/runs/{run.id if run else ""}/rollouts/{rows[0].id}')
        else:
            toast('The attempts at this task were not recorded', 'warn')

    measured = version.after or version.before
    how = f'k = {measured.k} attempts a task, temperature {measured.temperature:g}' if measured else ''
    found = pairs(version.before, version.after)
    before_after(
        share(version.before),
        share(version.after),
        found,
        how=how,
        names=('Before, base model', f'After, v{version.number}'),
        on_open=open_task if run is not None else None,
    )


def lineage_panel(version: AdapterVersionView, run: RunView | None) -> None:
    """What it was made of, from the base model down to this version."""
    lineage = version.lineage
    model = _mapping(lineage.get('model'))
    with panel('Lineage', icon='git-branch'), ui.element('ol').classes('lin'):
        _node('box', _model_title(version.model), _base_words(version.model, model))
        if cold := _mapping(lineage.get('cold_start')):
            _node('video', 'SFT cold start', f'{cold.get("epochs", "?")} epochs on demonstrations')
        if version.imported:
            _node('download', 'Imported', 'what its author says of it is in lineage.json and README.md')
        else:
            _node('list-checks', *_tasks_words(lineage))
            _node(
                'activity',
                version.run_name,
                f'{_method(lineage)}{"" if run is not None else " · the run was deleted"}',
                href=f'/runs/{version.run_id}' if run is not None else '',
            )
        before, after = (view.mean if view else None for view in (version.before, version.after))
        gain = f' · held-out {signed(after - before)}' if before is not None and after is not None else ''
        _node('layers', f'v{version.number}', f'{step_words(version)} · {ago(version.created_at)}{gain}', current=True)


def notes_panel(version: AdapterVersionView, save: Callable[[str], Awaitable[None]]) -> None:
    """Free text about a version, saved when the field is left."""
    with panel('Notes', icon='file-text'), ui.element('div').classes('pad'):
        box = ui.textarea(value=version.notes, placeholder='What it is good for, what to try next').props(
            'outlined dense autogrow aria-label=Notes maxlength=20000'
        )
        kept = version.notes

        async def leave() -> None:
            nonlocal kept
            text = str(box.value or '')
            if text != kept:
                await save(text)
                kept = text

        box.on('blur', leave, args=[])


def files_panel(version: AdapterVersionView) -> None:
    """The files with their sizes and checksums."""
    with panel('Files', icon='folder') as head:
        with head:
            spacer()
            Text(size(version.size), classes='t3 t-small num')
        with ui.element('dl').classes('pp'):
            for file in version.files:
                Text(file.name, 'dt', 'mono')
                Text(size(file.size), 'dd')
                with ui.element('dd').classes('sha mono'):
                    Text(f'sha256 {file.sha256[:12]}…{file.sha256[-6:]}').props['title'] = file.sha256
                    label = f'Copy the checksum of {file.name}'
                    Button(icon='copy', kind='gho icn xs', label=label, on_click=_copier(file.sha256))


def _node(icon: str, title: str, text: str, *, href: str = '', current: bool = False) -> None:
    with ui.element('li'):
        with ui.element('span').classes('nd cur' if current else 'nd'):
            Icon(icon)
        with ui.element('span').classes('vs vs-0'):
            if href:
                with ui.element('a').classes('w5 ell') as link:
                    link.props['href'] = href
                    Text(title)
            else:
                Text(title, 'b', 'w5 ell').props['title'] = title
            Text(text, classes='t3 t-micro').props['title'] = text
        if current:
            chip('this one', 'acc')


def _tasks_words(lineage: dict[str, Any]) -> tuple[str, str]:
    trained, held_out = (_listed(lineage.get(key)) for key in ('tasks', 'held_out'))
    versions = sorted({f'v{task["version"]}' for task in trained if task.get('version')})
    named = f', {", ".join(versions[:6])}' if versions else ''
    return f'{plural(len(trained), "task")}, {len(held_out)} held out', f'frozen copies{named}'


def _method(lineage: dict[str, Any]) -> str:
    plan, run = _mapping(lineage.get('plan')), _mapping(lineage.get('run'))
    method = 'SFT' if run.get('training_type') == 'conversationalTraining' else 'GRPO'
    steps = plan.get('steps')
    return f'{method}, {steps:,} steps planned' if isinstance(steps, int) else method


def _base_words(id: str, model: dict[str, Any]) -> str:
    revision, checksum = str(model.get('revision') or ''), str(model.get('sha256') or '')
    exact = f'revision {revision[:7]}' if revision else f'sha256 {checksum[:12]}…' if checksum else id
    return f'base model · {exact}'


def _model_title(id: str) -> str:
    try:
        return find_model(id).title
    except ConfigError:
        return id.rsplit('/', 1)[-1]


def _listed(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _copier(text: str) -> Callable[[], None]:
    def copy() -> None:
        ui.clipboard.write(text)
        toast('Copied')

    return copy
