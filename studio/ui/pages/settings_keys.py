"""The API card of the settings: who may use it, and keys to be made, revoked and removed."""

from __future__ import annotations

from typing import Final

from nicegui import run, ui

from studio.security.keys import KeyView, Scope
from studio.services import Studio
from studio.ui.components.dialogs import ask, opened_dialog
from studio.ui.components.elements import Button, Icon, Text, card, chip, note
from studio.ui.components.fields import Field
from studio.ui.components.wording import ago
from studio.ui.theme import toast
from trainer.errors import ConfigError

_MAY: Final[dict[Scope, str]] = {
    'read': 'look at tasks, jobs, rollouts, metrics and adapters',
    'write': 'make, change and delete tasks, jobs and adapters',
    'run': 'start and stop jobs, certify tasks',
}


class KeysCard:
    """The keys of the API, and what it means when there are none."""

    def __init__(self, studio: Studio, *, alone: bool) -> None:
        self._keys, self._alone = studio.keys, alone
        with card('API', icon='key', classes='api') as actions:
            with actions:
                with ui.element('a').classes('btn z-sm').props('href=/docs target=_blank') as link:
                    Icon('file-code', 'ic-s')
                    Text('Reference', classes='cap')
                link.props['title'] = 'Every request, with examples'
                Button('New key', icon='plus', kind='sm', on_click=self._ask).mark('new-key')
            self._body = ui.element('div').classes('bd vs vs-3')

    async def show(self) -> None:
        """Read the keys and draw them."""
        views = await run.io_bound(self._keys.list)
        if views is None:
            return
        self._body.clear()
        with self._body:
            if not views:
                self._say_open()
                return
            with ui.element('ul').classes('keys-made'):
                for view in views:
                    self._draw(view)
            Text('A program sends its key in the header x-api-key.', 'p', 't3 t-small')

    def _say_open(self) -> None:
        if self._alone:
            text = 'While there is no key, every program on this machine may use the API. The first key closes it.'
            note(text, 'warn', icon='lock-open', lead='Open.')
        else:
            note('Other machines reach this studio, so the API takes keys only. There is none yet.', icon='lock')

    def _draw(self, view: KeyView) -> None:
        with ui.element('li'):
            with ui.element('div').classes('vs vs-0 who'):
                with ui.element('div').classes('hs hs-2'):
                    Text(view.name, classes='ell name').props['title'] = view.name
                    if view.revoked_at is not None:
                        chip('Revoked', 'bad')
                    else:
                        for scope in view.scopes:
                            chip(scope, 'mono').props['title'] = f'May {_MAY[scope]}'
                with ui.element('div').classes('hs hs-2 t3 t-small'):
                    Text(view.shown, classes='mono')
                    used = f'used {ago(view.last_used_at)}' if view.last_used_at else 'never used'
                    Text(f'made {ago(view.created_at)} · {used}', classes='ell')
            if view.revoked_at is None:
                Button('Revoke', kind='sm', on_click=lambda: self._ask_revoke(view))
            else:
                Button('Remove', icon='trash-2', kind='sm gho', on_click=lambda: self._ask_remove(view))

    def _ask_revoke(self, view: KeyView) -> None:
        async def revoke() -> None:
            await run.io_bound(self._keys.revoke, view.id)
            await self.show()

        text = f'{view.shown} is refused from now on, and what uses it stops working. This cannot be taken back.'
        ask(f'Revoke "{view.name}"?', text, action='Revoke', keep='Keep it', icon='ban', on_yes=revoke)

    def _ask_remove(self, view: KeyView) -> None:
        async def remove() -> None:
            await run.io_bound(self._keys.remove, view.id)
            await self.show()

        text = f'{view.shown} is taken off the list. It stays refused.'
        if self._alone:
            text += ' When no key is left, every program on this machine may use the API without one.'
        ask(f'Remove "{view.name}"?', text, action='Remove', icon='trash-2', on_yes=remove)

    def _ask(self) -> None:
        with opened_dialog('New key', text='It is shown once. Give each program a key of its own.') as dialog:
            with Field('Name', classes='mt-3') as name_field:
                name = (
                    ui.input(placeholder='What will use it?')
                    .props('outlined dense autofocus maxlength=100')
                    .classes('w-full')
                )
                name.mark('key-name').props['aria-label'] = 'Name'
            with Field('It may', classes='mt-3') as scope_field, ui.element('div').classes('vs vs-1'):
                boxes = {
                    scope: ui.checkbox(f'{scope.capitalize()}: {text}', value=scope == 'read')
                    for scope, text in _MAY.items()
                }
                for box in boxes.values():
                    box.props('dense')

            async def make() -> None:
                name_field.show_error('')
                scope_field.show_error('')
                chosen = [scope for scope, box in boxes.items() if box.value]
                try:
                    made = await run.io_bound(self._keys.create, str(name.value or ''), chosen)
                except ConfigError as error:
                    field = name_field if error.fields[0].loc == 'name' else scope_field
                    field.show_error(error.message)
                    return
                if made is not None:
                    dialog.close()
                    _show_once(made.key, made.view)
                    await self.show()

            name.on('keydown.enter', make, args=[])
            with ui.element('div').classes('act'):
                Button('Cancel', on_click=dialog.close)
                Button('Make the key', icon='key', kind='pri', on_click=make).mark('make-key')


def _show_once(key: str, view: KeyView) -> None:
    """Show a key that was just made; the only place where it can be read."""
    with opened_dialog(
        'Copy the key now', text='It cannot be shown again: only its digest is kept.', size='mid'
    ) as dialog:
        with ui.element('div').classes('hs hs-2 mt-3 w-full'):
            box = ui.input(value=key).props('outlined dense readonly input-class=mono').classes('grow')
            box.mark('new-key-text').props['aria-label'] = f'Key {view.name}'
            box.on('focus', js_handler='(event) => event.target.select()')

            def copy() -> None:
                ui.clipboard.write(key)
                toast('Copied')

            Button('Copy', icon='copy', on_click=copy).props('autofocus')
        with ui.element('div').classes('act'):
            Button('Done', kind='pri', on_click=dialog.close)
