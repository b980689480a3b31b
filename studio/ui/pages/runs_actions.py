"""What can be done with a run from its page or the list: stop, checkpoint, resume, delete. Each asks what it must.

What it says hangs at the page: the dialog or row that asked may be gone by then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from nicegui import run as background
from nicegui import ui

from studio.runs.views import RunView, Saved
from studio.ui.components.dialogs import ask, opened_dialog
from studio.ui.components.elements import Button, Icon, Text
from studio.ui.components.fields import Field
from studio.ui.components.wording import duration, size
from studio.ui.theme import toast
from trainer.errors import RlvrError

if TYPE_CHECKING:
    from studio.services import Studio

After = Callable[[], Awaitable[None]]


def entry(text: str, icon: str, action: Callable[[], Any], classes: str = '') -> None:
    """Draw an entry of a run's menu."""
    with ui.menu_item(on_click=action).classes(f'mi {classes}'):
        Icon(icon, 'ic-s')
        Text(text)


async def stop(studio: Studio, view: RunView, after: After) -> None:
    """Ask, say what is kept, then stop."""
    saved = await background.io_bound(studio.runs.saved, view.id)
    if saved is None:
        return

    async def really() -> None:
        await background.io_bound(studio.runs.stop, view.id)
        studio.supervisor.wake()
        await after()

    title = f'Take "{view.name}" out of the queue?' if view.waiting else f'Stop the run at step {saved.step}?'
    ask(
        title,
        what_is_kept(view, saved) if view.waiting else f'"{view.name}". {what_is_kept(view, saved)}',
        action='Take it out' if view.waiting else 'Stop the run',
        keep='Keep it' if view.waiting else 'Keep training',
        icon='square',
        on_yes=really,
    )


def what_is_kept(view: RunView, saved: Saved) -> str:
    """What of a run is there after a stop, in words."""
    if view.waiting:
        return 'It has not begun. Nothing is lost but its place in the queue.'
    if not saved.step:
        return 'No step is done yet, so there is nothing to keep. It can be resumed from its beginning.'
    text = f'The trainer saves the adapter and a checkpoint of step {saved.step}. Rollouts in progress are dropped.'
    last = f'of step {saved.checkpoint}' if saved.checkpoint else 'yet to be written, so nothing is kept then'
    return f'{text} If it does not end within {duration(saved.grace_s)} it is ended: the last checkpoint is {last}.'


async def checkpoint(studio: Studio, view: RunView, after: After) -> None:
    """Ask the trainer for a checkpoint."""
    client = ui.context.client
    asked = await background.io_bound(studio.runs.checkpoint, view.id)
    if asked is not None:
        with client.layout:
            toast(f'A checkpoint of step {asked.step + 1} is written when that step is done')
        await after()


async def resume(studio: Studio, view: RunView, after: After) -> None:
    """Go on with a run; one that is finished asks for more steps first."""
    if view.state == 'finished':
        _more_steps(studio, view, after)
        return
    await _resume(studio, view, after, None)


async def _resume(studio: Studio, view: RunView, after: After, steps: int | None) -> None:
    client = ui.context.client
    again = await background.io_bound(lambda: studio.runs.resume(view.id, steps=steps))
    if again is not None:
        with client.layout:
            toast(f'"{again.name}" waits for its turn' if again.waiting else f'"{again.name}" goes on')
        await after()


def _more_steps(studio: Studio, view: RunView, after: After) -> None:
    with opened_dialog('Go on with more steps', text=f'The run has finished its {view.total:,} steps.') as dialog:
        with Field('Steps in all', hint=f'more than {view.total:,}', classes='mt-3') as field:
            box = ui.input(value=str(view.total * 2)).props('outlined dense autofocus inputmode=numeric')
            box.props['aria-label'] = 'Steps in all'

        async def go() -> None:
            text = str(box.value or '').strip()
            if not text.isdecimal() or int(text) <= view.total:
                field.show_error(f'A whole number above {view.total:,} is needed')
                return
            try:
                await _resume(studio, view, after, int(text))
            except RlvrError as error:
                field.show_error(error.message)
                return
            dialog.close()

        box.on('keydown.enter', go, args=[])
        with ui.element('div').classes('act'):
            Button('Cancel', on_click=dialog.close)
            Button('Resume', icon='play', kind='pri', on_click=go)


async def delete(studio: Studio, view: RunView, after: After) -> None:
    """Say how much it frees, ask, then delete."""
    client = ui.context.client
    taken = await background.io_bound(studio.runs.folder_bytes, view.id)

    async def really() -> None:
        freed = await background.io_bound(studio.runs.delete, view.id)
        with client.layout:
            toast(f'Deleted, {size(freed or 0)} freed')
        await after()

    adapter = ' Its adapter stays under Adapters.' if view.has_adapter else ''
    ask(
        f'Delete "{view.name}"?',
        f'Frees {size(taken or 0)}: metrics, rollouts, checkpoints and log.{adapter} This cannot be undone.',
        action='Delete the run',
        keep='Keep it',
        icon='trash-2',
        on_yes=really,
    )
