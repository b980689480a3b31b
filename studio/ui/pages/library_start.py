"""The library without tasks: three ways to begin, and the tutorial."""

from __future__ import annotations

from typing import Final

from nicegui import run, ui

from studio.documents import samples
from studio.services import Studio
from studio.ui import theme
from studio.ui.components.elements import Button, Icon, Text, chip
from studio.ui.components.wording import plural
from studio.ui.layout import Shell
from studio.ui.pages.library_import import ImportDrop

_EXAMPLES: Final = (
    ('wrench', 'Fix a bug, graded by tests', 'pytest'),
    ('file-check', 'Produce the right files', 'file_exists'),
    ('terminal', 'One shell command', 'exit_code'),
    ('percent', 'Partial credit from a script', 'script'),
)
_RECORDING: Final = (
    ('p', 'list_dir', ' .'),
    ('o', 'a.txt  README.md', ''),
    ('p', 'run_command', ' sort -u a.txt > b.txt'),
    ('x', 'exit 0 · 12 ms', ''),
    ('p', 'read_file', ' b.txt'),
)
_PROOFS: Final = (
    ('Untouched fails', 'Doing nothing earns no reward.'),
    ('Reference passes', 'The task can be solved.'),
    ('Repeats agree', 'Graded again and again, one verdict.'),
    ('Forgeries fail', 'Known tricks earn nothing.'),
)


def draw_start(shell: Shell, studio: Studio) -> None:
    """Draw the three ways to begin."""
    with shell.topbar('Tasks'):
        Text('0', classes='t3 num')
        ui.element('span').classes('sp')
        Button('New task', icon='plus', kind='pri', shortcut='N', on_click=shell.new_task)
    with ui.element('div').classes('main flush'), ui.element('div').classes('start'):
        with ui.element('header'):
            Text('Write your first task', 'h2')
            Text('A task is a prompt, a starting workspace and a checker that turns the end state into a reward.', 'p')
        with ui.element('div').classes('ways'):
            _templates()
            _import(studio)
            _record(shell)
        with ui.element('div').classes('tutorial card'):
            Icon('sparkles', 'c-acc')
            with ui.element('span').classes('vs vs-0'):
                Text('Or see the whole loop first', 'b')
                Text('32 short tasks that the bundled starter model learns on a laptop, and 16 held out to measure it.')
            ui.element('span').classes('sp')
            Button('Load the tutorial tasks', icon='download', on_click=lambda: _load_tutorial(studio))
        with ui.element('section').classes('card proof').props('aria-label="What a certificate proves"'):
            with ui.element('div'):
                Icon('badge-check', 'ic-l c-ok')
            for title, text in _PROOFS:
                with ui.element('div'):
                    Text(title, 'b')
                    Text(text)
        Text(
            'A certificate is these checks, made before you train. It is bound to the version of the task.',
            'p',
            'hint proof-note',
        )


def _templates() -> None:
    with ui.element('section').classes('card way'):
        with ui.element('div').classes('art').props('aria-hidden=true'):
            for icon, title, kind in _EXAMPLES:
                with ui.element('div').classes('tpl'):
                    Icon(icon, 'ic-s')
                    Text(title)
                    chip(kind, 'mono')
        with ui.element('div').classes('tx'):
            Text('Start from a template', 'h3')
            Text('Each one comes with files, a checker and a reference solution.', 'p')
            ui.element('span').classes('sp')
            Button('Choose a template', icon='plus', kind='pri', on_click=lambda: ui.navigate.to('/templates'))


def _import(studio: Studio) -> None:
    with ui.element('section').classes('card way'):
        with ui.element('div').classes('art'):
            drop = ImportDrop(studio.transfer, _refresh)
        with ui.element('div').classes('tx'):
            Text('Import tasks', 'h3')
            Text('You see every line that was refused, with its number and the reason, before anything is stored.', 'p')
            ui.element('span').classes('sp')
            Button('Choose a file', icon='folder-open').on('click', js_handler=drop.pick)


def _record(shell: Shell) -> None:
    with ui.element('section').classes('card way'):
        with ui.element('div').classes('art').props('aria-hidden=true'), ui.element('div').classes('rec-demo'):
            with ui.element('div').classes('bar'):
                ui.element('span').classes('dot pulse')
                Text('Recording')
                Text('00:42', classes='end t3 num')
            with ui.element('div').classes('term'):
                for kind, word, rest in _RECORDING:
                    with ui.element('div'):
                        Text(word, classes=kind)
                        if rest:
                            Text(rest)
        with ui.element('div').classes('tx'):
            Text('Record a solution', 'h3')
            Text('Solve it yourself with the four tools the model gets. Your steps become the reference solution.', 'p')
            ui.element('span').classes('sp')
            Button('Open a sandbox', icon='video', on_click=shell.new_task)


async def _load_tutorial(studio: Studio) -> None:
    if await load_tutorial(studio):
        await _refresh()


async def load_tutorial(studio: Studio) -> bool:
    """Put the tutorial tasks into the library and say so; loading them twice adds nothing."""
    loaded = await run.io_bound(samples.load_tutorial, studio.documents)
    if loaded is None:
        return False
    train, held_out = loaded
    theme.toast(f'{plural(len(train), "tutorial task")} to train on, {len(held_out)} held out')
    return True


async def _refresh() -> None:
    await ui.context.client.sub_pages_router.refresh()
