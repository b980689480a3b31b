"""The editor of one task: the RL Task block, the RL Checker block, its solutions, and the playground beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nicegui import events, run, ui

from studio.documents.service import Documents, DocumentView
from studio.documents.views import draft_problems
from studio.services import Studio
from studio.ui import theme
from studio.ui.components.dialogs import ask
from studio.ui.components.elements import Button, Icon, Text, kbd, spacer
from studio.ui.components.wording import plural
from studio.ui.layout import Shell
from studio.ui.pages.editor_banner import draw_banner
from studio.ui.pages.editor_blocks import Blocks
from studio.ui.pages.editor_certificate import CertificateCard
from studio.ui.pages.editor_dialogs import open_conflict, open_history
from studio.ui.pages.editor_draft import Draft, save_open_drafts
from studio.ui.pages.editor_playground import PlaygroundCard
from studio.ui.pages.editor_problems import ProblemList
from studio.ui.pages.editor_unsent import put_back
from studio.ui.pages.exporting import open_export
from studio.ui.pages.open_task import open_task
from trainer.errors import FieldError
from trainer.task import MAX_TITLE_CHARS, Solution

VALIDATE_EVERY_S: Final = 0.25
LOOK_EVERY_S: Final = 3.0
NOT_SAVED: Final = {'failed': 'Not saved', 'conflict': 'Changed in another tab', 'gone': 'Deleted in another tab'}
NO_TITLE: Final = 'Give the task a title'


async def page(shell: Shell, studio: Studio, task_id: str) -> None:
    """Draw the editor of a task, or say that it is gone."""
    view = await open_task(shell, studio, task_id)
    if view is not None:
        _Editor(shell, studio, view)


class _Editor:
    """One tab's editor: draws the frame, keeps draft, form and status in step."""

    def __init__(self, shell: Shell, studio: Studio, view: Any) -> None:
        self._shell, self._studio = shell, studio
        self._checked: object = None
        self._problems: tuple[FieldError, ...] = ()
        self._ready = self._said_now = False
        self._draft = Draft(studio.documents, view, self._show_state, self._refresh)
        self._draw_topbar()
        with ui.element('div').classes('main'), ui.element('div').classes('ed') as page:
            page.on('unsent', self._put_back, js_handler='(event) => emit(event.detail)')
            with ui.element('div').classes('doc'):
                self._banner = ui.element('div').classes('vs')
                self._listed = ProblemList(self._reveal)
                self._column = ui.element('div').classes('vs vs-3')
            with ui.element('div').classes('beside'):
                self._playground = PlaygroundCard(studio, self._draft, on_solutions=self._solutions_changed)
                self._certificate = CertificateCard(
                    studio, self._draft, on_certify=self._certify, on_busy=self._show_certifying
                )
        self._blocks = self._draw_blocks(as_json=False)
        self._ready = True
        if not view.title and not view.draft.get('prompt'):
            self._title.run_method('focus')
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
            blocks = Blocks(
                self._draft,
                dark=self._shell.is_dark,
                as_json=as_json,
                on_replay=self._playground.replay,
                current=lambda: self._blocks,
            )
        self._json_button.set_text('Form' if blocks.json else 'JSON')
        return blocks

    def _blocks_dark(self, dark: bool) -> None:
        self._blocks.set_dark(dark)

    def _redraw(self, *, as_json: bool = False) -> None:
        self._blocks = self._draw_blocks(as_json=as_json)
        self._validate()
        self._column.client.run_javascript('rlvrRefocus()')

    # ----------------------------------------------------------------------------------------------- top bar

    def _draw_topbar(self) -> None:
        view = self._draft.view
        with self._shell.topbar(view.title.strip() or 'Untitled task', crumbs=[('Tasks', '/')]) as self._heading:
            self._heading.classes('sr')
            self._title = ui.input(value=view.title, placeholder='Untitled task').props('borderless dense')
            self._title.classes('title-input').props['aria-label'] = 'Title'
            self._title.on_value_change(self._retitle)
            self._title.props['maxlength'] = MAX_TITLE_CHARS
            self._title.props['data-field'] = 'title'
            self._title.on(
                'keydown.enter.prevent',
                lambda: self._blocks.reveal('prompt'),
                js_handler='() => rlvrToPrompt() || emit()',
            )
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
                ('Make variants', 'layers', self._variants, ''),
                ('Try a model on it', 'message-square-text', self._try, ''),
                ('Export…', 'download', self._export, ''),
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
        elif draft.state in ('failed', 'conflict', 'gone'):
            icon, kind = 'circle-alert', 'bad'
            text = {'conflict': 'Changed in another tab', 'gone': 'Deleted in another tab'}.get(
                draft.state, 'Not saved'
            )
        elif self._problems:
            text = f'Draft saved · {plural(len(self._listed.shown), "problem")}'
        elif view.version is None:
            text = 'Draft saved'
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
        self._banner.clear()
        with self._banner:
            draw_banner(draft, on_compare=self._compare, on_take=self._take_theirs)

    def _why_not_publish(self) -> str:
        if self._problems:
            return f'{plural(len(self._listed.shown), "problem")} to solve first: {self._problems[0].msg}'
        return '' if self._draft.title.strip() else NO_TITLE

    # ------------------------------------------------------------------------------------------------ checks

    async def _tick(self) -> None:
        if self._checked != (self._draft.raw, self._draft.title.strip()):
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
        self._checked = (dict(self._draft.raw), self._draft.title.strip())
        _, self._problems, remarks = draft_problems(self._draft.raw)
        self._blocks.show_problems(self._problems, remarks)
        shown = (
            self._problems if self._draft.title.strip() else (FieldError(loc='title', msg=NO_TITLE), *self._problems)
        )
        view = self._draft.view
        self._listed.show(shown, offered=view.version if view.status == 'published' else None)
        self._show_state()

    def _reveal(self, loc: str) -> None:
        if loc == 'title':
            self._title.run_method('focus')
        else:
            self._blocks.reveal(loc)

    def _solutions_changed(self) -> None:
        self._blocks.solutions_changed()

    def _retitle(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        if event.value == self._draft.title:
            return
        self._draft.title = event.value or ''
        self._heading.set_text(self._draft.title.strip() or 'Untitled task')
        ui.page_title(f'{self._draft.title.strip() or "Untitled task"} · RLVR Studio')
        self._draft.edited()

    # ----------------------------------------------------------------------------------------------- actions

    def _toggle_json(self) -> None:
        view = self._blocks.json
        if view is None or view.is_valid:
            self._redraw(as_json=view is None)
            self._column.client.run_javascript('window.scrollTo(0, 0)')
            return
        ask(
            'Leave the JSON view?',
            'What is typed there is no JSON. The form shows the last valid text, and the rest is dropped.',
            action='Drop it and show the form',
            on_yes=self._redraw,
            keep='Keep editing',
        )

    def _compare(self) -> None:
        open_conflict(self._draft, on_take=self._take_theirs, on_copy=self._copy_mine)

    def _take_theirs(self) -> None:
        undo = self._draft.take_theirs()
        with self._column:
            theme.toast('What was stored is shown; yours was put aside', undo=undo)

    async def _copy_mine(self) -> None:
        """Store this tab's text as a task of its own, and follow the other tab here."""
        draft, documents = self._draft, self._studio.documents
        copied = await run.io_bound(_store_copy, documents, draft.raw, draft.title, draft.topics, draft.notes,
                                    draft.solutions)  # fmt: skip
        if copied is not None:
            draft.take_theirs()
            with self._column:
                theme.toast('Yours is stored as a copy')
                ui.navigate.to(f'/tasks/{copied.id}')

    async def _put_back(self, event: events.GenericEventArguments) -> None:
        """The browser held text that was not saved when the studio stopped, or when the page was reloaded."""
        left = dict(event.args)
        fields = {str(key): text for key, text in dict(left['fields']).items() if isinstance(text, str)}
        await save_open_drafts(self._draft.view.id)  # What still came over the old connection is this tab's too.
        await self._draft.look()
        undo = self._draft.snapshot()
        if changed := put_back(self._draft, fields):
            words = ', '.join(changed[:4]) + (f' and {len(changed) - 4} more' if len(changed) > 4 else '')
            before = 'the reload' if left.get('reloaded') else 'the studio stopped'
            theme.toast(f'Back from before {before}: {words}', undo=undo)

    def _refresh(self) -> None:
        self._title.value = self._draft.title
        self._heading.set_text(self._draft.title.strip() or 'Untitled task')
        self._redraw(as_json=self._blocks.json is not None)

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
        await open_history(self._studio.documents, self._draft)

    async def _variants(self) -> None:
        await self._draft.save()
        ui.navigate.to(f'/tasks/{self._draft.view.id}/variants')

    async def _try(self) -> None:
        await self._draft.save()
        ui.navigate.to(f'/try?task={self._draft.view.id}')

    async def _duplicate(self) -> None:
        await self._draft.save()
        copy = await run.io_bound(self._studio.documents.duplicate, self._draft.view.id)
        if copy is not None:
            theme.toast('A copy, a draft of its own')
            ui.navigate.to(f'/tasks/{copy.id}')

    async def _export(self) -> None:
        await self._draft.save()
        open_export(self._studio.transfer, [self._draft.view.id])

    def _delete(self) -> None:
        async def go() -> None:
            id = self._draft.view.id
            await self._draft.save()
            self._draft.take(self._draft.view)
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


def _store_copy(
    documents: Documents,
    raw: Mapping[str, Any],
    title: str,
    topics: Sequence[str],
    notes: str,
    solutions: Sequence[Solution],
) -> DocumentView:
    copied = documents.create(raw=raw, title=f'{title[:193]} (mine)' if title.strip() else '', topics=topics)
    return documents.update(copied.id, notes=notes, solutions=solutions, revision=copied.revision)
