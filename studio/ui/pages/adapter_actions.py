"""What can be done with an adapter version: rename, move, delete, compare. Each asks what it must."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from nicegui import run as background
from nicegui import ui

from studio.adapters.views import AdapterVersionView, NamedAdapter
from studio.ui.components.dialogs import ask, opened_dialog
from studio.ui.components.elements import Button
from studio.ui.components.fields import Field
from studio.ui.components.wording import size
from studio.ui.theme import toast
from trainer.errors import RlvrError

if TYPE_CHECKING:
    from studio.services import Studio

After = Callable[[], Awaitable[None]]


def rename(studio: Studio, version: AdapterVersionView, after: After) -> None:
    """Ask for another name of all versions under this one."""
    _ask_name(
        'Rename the adapter',
        'All versions under this name are renamed; their numbers stay.',
        version.name,
        'Rename',
        lambda name: studio.adapters.rename(version.adapter_id, name),
        after,
    )


def move(studio: Studio, version: AdapterVersionView, names: Sequence[str], after: After) -> None:
    """Ask for the name that this version belongs under."""
    others = [name for name in names if name != version.name]
    known = f'A new name, or one of: {", ".join(others[:6])}' if others else 'A new name'
    _ask_name(
        f'Move {version.label}',
        f'It becomes the newest version under the other name. {known}.',
        '',
        'Move',
        lambda name: studio.adapters.move(version.id, name),
        after,
    )


async def delete(studio: Studio, version: AdapterVersionView, after: After) -> None:
    """Say how much it frees, ask, then delete; a proof that is being made ends first."""
    client = ui.context.client
    freed = await background.io_bound(studio.adapters.freed_by_deleting, version.id)

    async def really() -> None:
        await background.io_bound(studio.proofs.cancel, version.id)
        done = await background.io_bound(studio.adapters.delete, version.id)
        with client.layout:
            toast(f'{version.label} is deleted, {size(done or 0)} freed')
        await after()

    stays = '' if (freed or 0) >= version.size else ' The weights stay in its run until that is deleted.'
    ask(
        f'Delete {version.label}?',
        f'Frees {size(freed or 0)}: its files, lineage and notes.{stays} This cannot be undone.',
        action='Delete the adapter',
        keep='Keep it',
        icon='trash-2',
        on_yes=really,
    )


def compare(named: Sequence[NamedAdapter], chosen: AdapterVersionView) -> None:
    """Ask which two versions to put beside each other."""
    versions = [version for adapter in named for version in adapter.versions]
    options = {version.id: version.label for version in versions}
    rest = [version for version in versions if version.id != chosen.id]
    same = [version for version in rest if version.adapter_id == chosen.adapter_id and version.number < chosen.number]
    with opened_dialog('Compare versions', text='Lineage, settings, held-out success, size.') as dialog:
        picked: list[Any] = []
        for label, value in (('First', (same or rest)[0].id), ('Second', chosen.id)):
            with Field(label, classes='mt-3'):
                box = ui.select(options, value=value, with_input=True).props('outlined dense')
                box.props['aria-label'] = label
                picked.append(box)

        def go() -> None:
            dialog.close()
            ui.navigate.to(f'/adapters/{picked[0].value}/compare/{picked[1].value}')

        with ui.element('div').classes('act'):
            Button('Cancel', on_click=dialog.close)
            Button('Compare', icon='git-compare', kind='pri', on_click=go)


def _ask_name(title: str, text: str, value: str, action: str, do: Callable[[str], Any], after: After) -> None:
    with opened_dialog(title, text=text) as dialog:
        with Field('Name', classes='mt-3') as field:
            box = ui.input(value=value).props('outlined dense autofocus')
            box.props['aria-label'] = 'Name'

        async def go() -> None:
            try:
                await background.io_bound(do, str(box.value or ''))
            except RlvrError as error:
                field.show_error(f'{error.message}. {error.hint}'.strip())
                return
            dialog.close()
            await after()

        box.on('keydown.enter', go, args=[])
        with ui.element('div').classes('act'):
            Button('Cancel', on_click=dialog.close)
            Button(action, kind='pri', on_click=go)
