"""What one opens from the playground: the changed files with their diffs, and the dry runs made before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nicegui import ui

from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.diff_text import diff_text
from studio.ui.components.elements import Button, Icon, Text
from studio.ui.components.split_list import SplitList
from studio.ui.components.verdict_view import verdict_badge, verdict_chip, verdict_details
from studio.ui.components.wording import MINUS, ago, plural
from studio.workspaces.changes import FileChange, Mark
from studio.workspaces.playground import DryRun

MARKS: dict[Mark, str] = {'': 'Not changed', 'M': 'Modified', 'A': 'Added', 'D': 'Deleted'}
_SHOWN_FILES = 20


def show_changes(changes: Sequence[FileChange], path: str = '') -> None:
    """Open the files that differ from the start, at one of them."""
    text = 'Against the workspace as the setup made it. What git and caches keep in folders of their own is left out.'
    with _closable('Changes since the start', text):
        if changes:
            paths = [change.path for change in changes]
            SplitList(
                changes,
                label='Changed files',
                draw_row=_file_row,
                draw=_file,
                picked=paths.index(path) if path in paths else 0,
            )
        else:
            Text('Nothing has changed since the start.', 'p', 't3')


def show_dry_runs(runs: Sequence[DryRun], number: int = 0) -> None:
    """Open the dry runs made before, newest first, at one of them."""
    text = 'Each with what changed since the one before it in the same tab. They are kept until the studio is closed.'
    with _closable('Dry runs', text):
        if runs:
            numbers = [run.number for run in runs]
            SplitList(
                runs,
                label='Dry runs, newest first',
                draw_row=_run_row,
                draw=_run,
                picked=numbers.index(number) if number in numbers else 0,
            )
        else:
            Text('The checker has not been run yet.', 'p', 't3')


@contextmanager
def _closable(title: str, text: str) -> Iterator[None]:
    """A wide dialog to read, with one button that closes it."""
    with opened_dialog(title, text=text, size='wide') as dialog:
        yield
        with ui.element('div').classes('act'):
            Button('Close', on_click=dialog.close).props('autofocus')


def counts(change: FileChange) -> None:
    """How many lines a diff adds and removes."""
    if change.added:
        Text(f'+{change.added}', classes='c-ok t-micro num')
    if change.removed:
        Text(f'{MINUS}{change.removed}', classes='c-bad t-micro num')


def _mark(change: FileChange) -> None:
    Text(change.mark, classes=f'mk {change.mark.lower()}').props['title'] = MARKS[change.mark]


def _file_row(change: FileChange) -> None:
    _mark(change)
    Text(change.path, classes='ell mono').props['title'] = change.path
    counts(change)


def _file(change: FileChange) -> None:
    with ui.element('div').classes('hs path'):
        Text(change.path, 'h3', 'mono ell').props['title'] = change.path
        Text(MARKS[change.mark], classes='t3 t-small nowrap')
        counts(change)
    _body(change)


def _body(change: FileChange) -> None:
    if change.note:
        Text(f'{change.note[0].upper()}{change.note[1:]}', 'p', 't2 t-small note-line')
    if change.diff:
        diff_text(change.diff, label=f'Changes in {change.path}')


def _run_row(run: DryRun) -> None:
    Text(f'#{run.number}', classes='num t3 n')
    verdict_chip(run.verdict)
    Text(ago(run.at), classes='t3 t-micro nowrap num')


def _run(run: DryRun) -> None:
    with ui.element('div').classes('hs path'):
        Text(f'Dry run {run.number}', 'h3', 'sr')
        verdict_badge(run.verdict)
        Text(plural(run.steps, 'step'), classes='t3 t-small nowrap')
    verdict_details(run.verdict)
    Text('Changed since the start' if run.is_first else 'Changed since the dry run before', 'h4')
    if not run.changes and not run.task_diff:
        Text('Nothing: neither the workspace nor the task.', 'p', 't3 t-small')
    if run.task_diff:
        _fold('The task: its setup or its checker', run.task_diff, 'git-compare')
    for change in run.changes[:_SHOWN_FILES]:
        with ui.element('details').classes('fold') as fold:
            with ui.element('summary'), ui.element('span').classes('hs hs-1'):
                _file_row(change)
            _body(change)
        if len(run.changes) == 1 and not run.task_diff:
            fold.props('open')
    if len(run.changes) > _SHOWN_FILES:
        Text(f'… and {plural(len(run.changes) - _SHOWN_FILES, "more file")}', 'p', 't3 t-small')


def _fold(title: str, diff: str, icon: str) -> None:
    with ui.element('details').classes('fold').props('open'):
        with ui.element('summary'), ui.element('span').classes('hs hs-1'):
            Icon(icon, 'ic-s')
            Text(title)
        diff_text(diff, label=title)
