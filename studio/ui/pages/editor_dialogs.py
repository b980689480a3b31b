"""Two dialogs that show what differs: the version history of a task, and a change made in another tab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from nicegui import run, ui

from studio.documents.service import Documents, VersionView
from studio.ui import theme
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.diff_view import Change, draw_changes, spec_changes
from studio.ui.components.elements import Button, Text, checker_chip, spacer
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.components.wording import ago
from studio.ui.pages.editor_draft import Draft
from trainer.task import Solution

SHOWN_VERSIONS: Final = 200
_BESIDE: Final = ('title', 'topics', 'notes', 'solutions')


async def open_history(documents: Documents, draft: Draft) -> None:
    """Show the versions and what differs; restoring one puts it into the draft, which becomes a new version."""
    versions = await run.io_bound(documents.versions, draft.view.id)
    if versions is None:
        return
    text = 'Every save of a valid, changed spec is a version. Runs keep the copies they were started with.'
    with opened_dialog('Version history', text=text, size='huge') as dialog:
        _History(versions, draft, dialog)


class _History:
    """The list of versions at the left, and at the right what differs in the picked one."""

    def __init__(self, versions: Sequence[VersionView], draft: Draft, dialog: ui.dialog) -> None:
        self._versions, self._draft, self._dialog = versions, draft, dialog
        self._against = 'draft'
        self._client = ui.context.client
        older = [version for version in versions if version.number != draft.view.version]
        self._picked = older[0] if older else versions[0] if versions else None
        self._buttons: dict[int, ui.element] = {}
        with ui.element('div').classes('versions'):
            with ui.element('ol').classes('history').props('aria-label="Versions"'):
                for version in versions[:SHOWN_VERSIONS]:
                    self._draw_version(version)
                if not versions:
                    Text('No version yet: the draft has problems to solve first.', 'li', 't3')
            with ui.element('div').classes('vs what'):
                choices = [Choice('draft', 'Against what is typed'), Choice('before', 'Against the version before')]
                Segmented(choices, 'draft', label='Compare', on_change=self._compare)
                self._changes = ui.element('div').classes('changes')
        with ui.element('div').classes('act'):
            if len(versions) > SHOWN_VERSIONS:
                Text(f'The newest {SHOWN_VERSIONS} of {len(versions):,} versions', classes='t3 t-small')
            spacer()
            Button('Close', on_click=dialog.close)
            self._restore_button = Button('Restore', icon='rotate-ccw', kind='pri', on_click=self._restore)
        self._show()

    def _draw_version(self, version: VersionView) -> None:
        spec = version.task_spec
        with ui.element('li'), ui.element('button').props('type=button').classes('version') as button:
            Text(f'v{version.number}', classes='num w6 n')
            with ui.element('span').classes('vs vs-0 what'):
                Text(' '.join(spec.prompt.split())[:120], classes='ell').props['title'] = spec.prompt[:1000]
                line = Text(f'{ago(version.created_at)} · {version.hash[:4]}…{version.hash[-4:]}', classes='hint mono')
                line.props['title'] = f'{version.created_at.astimezone():%d %b %Y, %H:%M:%S}, hash {version.hash}'
            if version.number == self._draft.view.version:
                Text('current', classes='chip')
            else:
                checker_chip(spec.checker.type)
        button.on('click', lambda: self._pick(version), args=[])
        self._buttons[version.number] = button

    def _pick(self, version: VersionView) -> None:
        self._picked = version
        self._show()

    def _compare(self, against: str) -> None:
        self._against = against
        self._show()

    def _show(self) -> None:
        picked = self._picked
        for number, button in self._buttons.items():
            button.props(f'aria-pressed={"true" if picked and number == picked.number else "false"}')
        self._changes.clear()
        if picked is None:
            self._restore_button.disable('There is no version to restore')
            return
        changes, nothing = self._differences(picked)
        with self._changes:
            draw_changes(changes, nothing=nothing)
        self._restore_button.set_text(f'Restore v{picked.number}')
        if picked.task_spec.to_json() == self._draft.raw:
            self._restore_button.disable('This is what is typed now')
        else:
            self._restore_button.enable()

    def _differences(self, picked: VersionView) -> tuple[list[Change], str]:
        """What restoring would change in the draft, or what the version changed when it was made."""
        if self._against == 'draft':
            return spec_changes(self._draft.raw, picked.task_spec.to_json()), 'This is what is typed now.'
        before = next((version for version in self._versions if version.number == picked.number - 1), None)
        return spec_changes(before.task_spec.to_json() if before else {}, picked.task_spec.to_json()), 'No difference.'

    async def _restore(self) -> None:
        picked, draft = self._picked, self._draft
        if picked is None:
            return
        self._dialog.close()
        before = draft.raw
        draft.put(picked.task_spec.to_json())
        if await draft.save():
            with self._client:
                theme.toast(f'v{picked.number} restored as v{draft.view.version}', undo=lambda: draft.put(before))


def open_conflict(draft: Draft, *, on_take: Callable[[], Any], on_copy: Callable[[], Any]) -> None:
    """Show both sides of a change made in two tabs: what mine would change in what is stored."""
    text = 'Green is yours, red is what is stored now. Nothing is overwritten until you choose.'
    with opened_dialog('Both changes of this task', text=text, size='huge') as dialog:
        with ui.element('div').classes('sides'):
            for where, parts in (('Changed there', draft.changed_there), ('Changed here', draft.changed_here)):
                Text(where, classes='lbl')
                Text(parts_in_words(parts) or 'nothing', classes='mono t-small')
        with ui.element('div').classes('changes'):
            draw_changes(_sides(draft), nothing='Both sides are the same.')

        def then(act: Callable[[], Any]) -> Callable[[], Any]:
            def go() -> Any:
                dialog.close()
                return act()

            return go

        with ui.element('div').classes('act'):
            Button('Save mine as a copy', icon='copy', kind='gho', on_click=then(on_copy))
            spacer()
            Button('Decide later', on_click=dialog.close)
            Button('Take theirs', on_click=then(on_take))
            Button('Keep mine', on_click=then(draft.keep_mine))
            if draft.changed_here and not draft.clashes:
                Button('Keep both', icon='merge', kind='pri', on_click=then(draft.keep_both))


def parts_in_words(parts: Sequence[str]) -> str:
    """Names of changed parts, short: ``prompt, src/a.py and 3 more``; empty where there is none."""
    names = [part.removeprefix('task_spec.').removeprefix('setup_files.') for part in parts]
    return ', '.join(names[:4]) + (f' and {len(names) - 4} more' if len(names) > 4 else '')


def _sides(draft: Draft) -> list[Change]:
    stored = draft.stored
    theirs = {'title': stored.title, 'topics': list(stored.topics), 'notes': stored.notes}
    mine = {'title': draft.title, 'topics': list(draft.topics), 'notes': draft.notes}
    theirs['solutions'], mine['solutions'] = _steps(stored.solutions), _steps(draft.solutions)
    beside = [change for change in spec_changes(theirs, mine) if change.name in _BESIDE]
    return [*beside, *spec_changes(stored.draft, draft.raw)]


def _steps(solutions: Sequence[Solution]) -> list[str]:
    lines = []
    for solution in solutions:
        lines.append(f'{solution.kind} {solution.name}'.strip())
        lines += [f'  file {path}' for path in solution.files]
        lines += [f'  {step.tool} ' + ' '.join(step.args.values()) for step in solution.steps]
    return lines
