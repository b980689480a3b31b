"""The editor of one task: the RL Task block, the RL Checker block, its solutions, and the playground beside them."""

from __future__ import annotations

from typing import Any

from nicegui import events, run, ui

from studio.document_views import NotFound, draft_problems
from studio.services import Studio
from studio.ui import theme
from studio.ui.components.dialogs import ask
from studio.ui.components.elements import Button, Icon, Text, kbd, note, spacer
from studio.ui.components.wording import plural
from studio.ui.layout import Shell
from studio.ui.pages.editor_blocks import Blocks
from studio.ui.pages.editor_certificate import CertificateCard
from studio.ui.pages.editor_dialogs import open_history
from studio.ui.pages.editor_draft import Draft, save_open_drafts
from studio.ui.pages.editor_playground import PlaygroundCard
from trainer.errors import FieldError

VALIDATE_EVERY_S = 0.25
LOOK_EVERY_S = 3.0


async def page(shell: Shell, studio: Studio, task_id: str) -> None:
    """Draw the editor of a task, or say that it is gone."""
    await save_open_drafts(task_id)
    try:
        view = await run.io_bound(studio.documents.get, task_id)
    except NotFound:
        _draw_missing(shell)
        return
    if view is not None:
        _Editor(shell, studio, view)


class _Editor:
    """One tab's editor: draws the frame, keeps draft, form and status in step."""

    def __init__(self, shell: Shell, studio: Studio, view: Any) -> None:
        self._shell, self._studio = shell, studio
        self._checked: dict[str, Any] | None = None
        self._problems: tuple[FieldError, ...] = ()
        self._ready = self._said_now = False
        self._draft = Draft(studio.documents, view, self._show_state, self._refresh)
        self._draw_topbar()
        with ui.element('div').classes('main'), ui.element('div').classes('ed'):
            with ui.element('div').classes('doc'):
                self._banner = ui.element('div').classes('vs')
                self._listed = ui.element('div').classes('vs')
                self._column = ui.element('div').classes('vs vs-3')
            with ui.element('div').classes('beside'):
                self._playground = PlaygroundCard(studio, self._draft, on_solutions=self._solutions_changed)
                self._certificate = CertificateCard(
                    studio, self._draft, on_certify=self._certify, on_busy=self._show_certifying
                )
        self._blocks = self._draw_blocks(as_json=False)
        self._ready = True
        self._validate()
        self._show_state()
        timers = (ui.timer(VALIDATE_EVERY_S, self._tick), ui.timer(LOOK_EVERY_S, self._look))
        shell.on_leave(self._leave)
        shell.on_theme(self._blocks_dark)
        self._timers = timers

    def _leave(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._draft.leave()
        self._playground.close()
        self._certificate.close()

    def _draw_blocks(self, *, as_json: bool) -> Blocks:
        self._column.clear()
        with self._column:
            blocks = Blocks(self._draft, dark=self._shell.is_dark, as_json=as_json, on_replay=self._playground.replay)
        self._json_button.set_text('Form' if blocks.as_json else 'JSON')
        return blocks

    def _blocks_dark(self, dark: bool) -> None:
        self._blocks.set_dark(dark)

    def _redraw(self, *, as_json: bool = False) -> None:
        self._blocks = self._draw_blocks(as_json=as_json)
        self._checked = None
        self._validate()

    # ----------------------------------------------------------------------------------------------- top bar

    def _draw_topbar(self) -> None:
        view = self._draft.view
        with self._shell.topbar(view.title.strip() or 'Untitled task', crumbs=[('Tasks', '/')]) as self._heading:
            self._heading.classes('sr')
            self._title = ui.input(value=view.title, placeholder='Untitled task').props('borderless dense')
            self._title.classes('title-input').props['aria-label'] = 'Title'
            self._title.on_value_change(self._retitle)
            self._title.on('keydown.enter.prevent', js_handler='(event) => event.target.blur()')
            self._chip = ui.element('span')
            with ui.element('span').classes('saved').props('role=status') as self._saved:
                self._saved_icon = Icon('check', 'ic-s')
                self._saved_text = Text()
            spacer()
            Button('Version history', icon='history', kind='gho hide-s', on_click=self._history)
            self._json_button = Button('JSON', icon='braces', kind='gho hide-s', on_click=self._toggle_json)
            self._draw_menu()
            with Button('Certify', icon='badge-check', key='c', on_click=self._certify) as self._certify_button:
                kbd('C').classes('hide-s')
            self._stop_button = Button(icon='x', kind='gho icn', label='Cancel the certificate')
            self._stop_button.on('click', lambda: self._certificate.cancel(), args=[])
            self._stop_button.set_visibility(False)
            self._publish_button = Button('Publish', icon='flag', kind='pri', on_click=self._publish)
            Button(kind='sr', label='Save now', key='mod+s', on_click=self._draft.save)

    def _draw_menu(self) -> None:
        with Button(icon='ellipsis', kind='gho icn', label='More actions'), ui.menu().classes('menu'):
            for text, icon, act, classes in (
                ('Duplicate', 'copy', self._duplicate, ''),
                ('Export as JSONL', 'download', self._export, ''),
                ('Version history', 'history', self._history, 'only-s'),
                ('Form or JSON', 'braces', self._toggle_json, 'only-s'),
                ('Delete', 'trash-2', self._delete, 'c-bad'),
            ):
                with ui.menu_item(on_click=act).classes(f'mi {classes}'):
                    Icon(icon)
                    Text(text)

    def _show_state(self) -> None:
        if not self._ready:
            return
        draft, view = self._draft, self._draft.view
        self._said_now = draft.saved_just_now
        icon, kind = 'check', ''
        if draft.state == 'saving' or draft.state == 'dirty':
            icon, kind, text = 'hourglass', 'busy', 'Saving…'
        elif draft.state in ('failed', 'conflict'):
            icon, kind = 'circle-alert', 'bad'
            text = f'Not saved: {draft.message}' if draft.state == 'failed' else 'Changed in another tab'
        elif self._problems:
            text = f'Draft saved · {plural(len(self._problems), "problem")}'
        else:
            text = f'Saved v{view.version}' + (' · just now' if draft.saved_just_now else '')
        self._saved_icon.set(icon)
        self._saved.classes(replace=f'saved {kind}')
        self._saved_text.set_text(text)
        published = view.status == 'published'
        self._chip.classes(replace='chip ok' if published else 'chip out')
        self._chip.clear()
        with self._chip:
            Text('Published' if published else 'Draft')
        self._publish_button.set_text('Unpublish' if published else 'Publish')
        self._publish_button.classes(remove='pri' if published else '', add='' if published else 'pri')
        why = self._why_not_publish()
        if why and not published:
            self._publish_button.disable(why)
        else:
            self._publish_button.enable()
        self._show_banner()

    def _why_not_publish(self) -> str:
        if self._problems:
            return f'{plural(len(self._problems), "problem")} to solve first: {self._problems[0].msg}'
        return '' if self._draft.title.strip() else 'Give the task a title first'

    def _show_banner(self) -> None:
        self._banner.clear()
        if self._draft.state == 'failed':
            with self._banner, note(self._draft.message, 'bad', icon='circle-alert', lead='Not saved.'):
                spacer()
                Button('Try again', kind='xs', on_click=self._draft.save)
        if self._draft.state == 'conflict':
            with self._banner, note('This task was changed in another tab.', 'warn', icon='triangle-alert'):
                spacer()
                Button('Reload', kind='xs', on_click=self._reload)
                Button('Keep mine', kind='xs', on_click=self._draft.keep_mine)

    # ------------------------------------------------------------------------------------------------ checks

    async def _tick(self) -> None:
        if self._checked != self._draft.raw:
            self._validate()
            self._playground.show_status()
        elif self._said_now and not self._draft.saved_just_now:
            self._show_state()
        await self._draft.tick()
        await self._certificate.tick()

    async def _look(self) -> None:
        await self._draft.look()
        await self._certificate.load()

    def _validate(self) -> None:
        """Check what is typed, and show each problem at its field and in the list."""
        self._checked = dict(self._draft.raw)
        _, self._problems, remarks = draft_problems(self._draft.raw)
        self._blocks.show_problems(self._problems, remarks)
        self._listed.clear()
        if self._problems:
            with self._listed, ui.element('div').classes('note problems'):
                Icon('info', 'ic-s')
                with ui.element('span'):
                    Text(f'{plural(len(self._problems), "problem")} to solve before this can be published', 'b')
                    with ui.element('ul'):
                        for problem in self._problems[:12]:
                            with ui.element('li'), ui.element('button').props('type=button') as button:
                                Text(problem.loc or 'task_spec', classes='mono')
                                Text(problem.msg)
                            button.on('click', lambda loc=problem.loc: self._blocks.reveal(loc), args=[])
        self._show_state()

    def _solutions_changed(self) -> None:
        self._draft.edited()
        self._blocks.show_solutions()

    def _retitle(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        if event.value == self._draft.title:
            return
        self._draft.title = event.value or ''
        self._heading.set_text(self._draft.title.strip() or 'Untitled task')
        ui.page_title(f'{self._draft.title.strip() or "Untitled task"} · RLVR Studio')
        self._draft.edited()

    # ----------------------------------------------------------------------------------------------- actions

    def _toggle_json(self) -> None:
        self._redraw(as_json=not self._blocks.as_json)

    def _reload(self) -> None:
        self._draft.take(self._draft.stored)
        self._refresh()

    def _refresh(self) -> None:
        self._title.value = self._draft.title
        self._heading.set_text(self._draft.title.strip() or 'Untitled task')
        self._redraw()

    async def _publish(self) -> None:
        if not await self._draft.save():
            return
        view = self._draft.view
        documents = self._studio.documents
        if view.status == 'published':
            changed = await run.io_bound(documents.unpublish, view.id)
        else:
            changed = await run.io_bound(lambda: documents.publish(view.id, revision=view.revision))
        if changed is not None:
            self._draft.view = self._draft.stored = changed
            self._show_state()
            theme.toast(
                'Published' if changed.status == 'published' else 'A draft again: it is not offered for training'
            )

    async def _certify(self) -> None:
        """Certify what is stored, which must be what is typed."""
        if self._certificate.is_busy:
            return
        if self._problems:
            first = self._problems[0]
            self._certificate.refuse(
                'Only a valid version can be certified', f'{first.loc or "task_spec"}: {first.msg}'
            )
        elif not await self._draft.save():
            why = self._draft.message or 'This task was changed in another tab.'
            self._certificate.refuse('Only a saved version can be certified', why)
        else:
            await self._certificate.certify()

    def _show_certifying(self, words: str) -> None:
        button = self._certify_button
        button.set_text(words or 'Certify')
        if button.icon is not None:
            button.icon.set('hourglass' if words else 'badge-check')
        button.props('aria-busy=true') if words else button.props(remove='aria-busy')
        self._stop_button.set_visibility(bool(words))

    async def _history(self) -> None:
        await self._draft.save()
        await open_history(self._studio.documents, self._draft, self._redraw)

    async def _duplicate(self) -> None:
        await self._draft.save()
        copy = await run.io_bound(self._studio.documents.duplicate, self._draft.view.id)
        if copy is not None:
            ui.navigate.to(f'/tasks/{copy.id}')

    async def _export(self) -> None:
        await self._draft.save()
        text = await run.io_bound(self._studio.documents.export, [self._draft.view.id])
        if text is not None:
            ui.download.content(text, 'task.jsonl', 'application/jsonl')

    def _delete(self) -> None:
        async def go() -> None:
            id = self._draft.view.id
            self._draft.take(self._draft.stored)
            await run.io_bound(self._studio.documents.delete, id)
            ui.navigate.to('/')

            async def undo() -> None:
                await run.io_bound(self._studio.documents.restore, id)
                ui.navigate.to(f'/tasks/{id}')

            theme.toast('1 task deleted', undo=undo)

        ask(
            'Delete this task?',
            'Runs that used it keep their copy. You can undo this for a few seconds.',
            action='Delete the task',
            on_yes=go,
            keep='Keep it',
            icon='trash-2',
        )


def _draw_missing(shell: Shell) -> None:
    with shell.topbar('Task not found', crumbs=[('Tasks', '/')]):
        pass
    with ui.element('div').classes('main'), ui.element('div').classes('card nothing empty'):
        Icon('file-x', 'ic-l t3')
        Text('There is no task at this address. It may have been deleted in another tab.')
        Button('Open the library', kind='sm', on_click=lambda: ui.navigate.to('/'))
