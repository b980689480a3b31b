"""The playground: the task's sandbox without a model. Four tools by hand, what changed, the verdict, steps to keep.

The workspace is made from the spec as it stands in the form, saved or not. It belongs to this tab, and goes with it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

from nicegui import background_tasks, run, ui

from studio.errors import NotFound
from studio.services import Studio
from studio.ui import theme
from studio.ui.components.elements import Button, Icon, Text, kbd, spacer, sprite
from studio.ui.components.terminal import Diff, Terminal
from studio.ui.components.verdict_view import verdict_badge, verdict_chip, verdict_details
from studio.ui.components.wording import plural
from studio.ui.pages.editor_draft import Draft
from studio.ui.pages.editor_solutions import WORDS
from studio.ui.pages.playground_dialogs import show_changes, show_dry_runs
from studio.ui.pages.playground_replay import ReplayBar
from studio.ui.pages.playground_tree import WorkspaceTree
from studio.workspaces.playground import Answer, DryRun
from trainer.attempt import Cancelled
from trainer.errors import RlvrError
from trainer.task import Solution, SolutionKind, Step
from trainer.tools import TOOL_NAMES
from trainer.verdict import Verdict

_HINTS: Final = {
    'run_command': 'ls -la',
    'read_file': 'README.md',
    'write_file': 'answer.txt',
    'list_dir': '.',
}
_EARLIER: Final = 4
CHECKING: Final = 'Checking…'


class PlaygroundCard:
    """Draws the card; ``on_solutions`` is called after steps were put into the draft's solutions."""

    def __init__(self, studio: Studio, draft: Draft, *, on_solutions: Callable[[], Any]) -> None:
        self._playground, self._draft, self._on_solutions = studio.playground, draft, on_solutions
        self._session = self._pending = ''
        self._closed = False
        client = ui.context.client
        self._alive = lambda: not client.is_deleted
        self._opened_from: dict[str, Any] = {}
        self._tab = uuid4().hex
        self._steps: list[Step] = []
        self._dry_runs: tuple[DryRun, ...] = ()
        self._busy = ''
        with ui.element('section').classes('card play').props('aria-label=Playground'):
            self._draw_header()
            with ui.element('div').classes('pg'):
                self._terminal = Terminal('Nothing ran yet. The first call makes the workspace.')
                self._tree = WorkspaceTree(
                    on_changed=self._show_changes, on_file=lambda path: self._offer('read_file', path)
                )
            self._draw_toolbar()
            self._replay = ReplayBar(play=self._step, grade=self._check_now)
            self._draw_verdict()
        self._first = ui.timer(0.1, self._load_dry_runs, once=True)
        self.show_status()

    def close(self) -> None:
        """Give the workspace back."""
        session, self._session, self._closed = self._session, '', True
        if session:
            background_tasks.create(_quietly(self._playground.close, session), name='close a playground')

    # -------------------------------------------------------------------------------------------------- draw

    def _draw_header(self) -> None:
        with ui.element('div').classes('hd'):
            Icon('terminal', 'lead')
            Text('Playground', 'h2')
            with ui.element('span').classes('chip').props('role=status') as self._chip:
                self._chip_icon = Icon('shield', 'ic-xs')
                self._chip_text = Text()
            spacer()
            self._changed = Button('Changes', icon='git-compare', kind='gho sm', on_click=self._show_changes)
            self._cancel = Button('Cancel', icon='circle-stop', kind='dan sm', on_click=self._cancel_now)
            reset = 'Reset workspace'
            self._reset = Button(reset, icon='rotate-ccw', kind='gho sm reset', label=reset, on_click=self._reset_now)
        self._changed.set_visibility(False)

    def _draw_toolbar(self) -> None:
        with ui.element('div').classes('toolbar'):
            self._tool = ui.select(list(TOOL_NAMES), value='run_command', on_change=self._tool_changed)
            self._tool.props('outlined dense options-dense aria-label=Tool popup-content-class=mono-menu')
            self._tool.props['dropdown-icon'] = sprite('chevrons-up-down')
            self._tool.classes('sel')
            self._input = ui.input(placeholder=_HINTS['run_command']).props('outlined dense spellcheck=false')
            self._input.props['aria-label'] = 'Command or path'
            self._input.classes('line').on('keydown.enter.exact.prevent', self._run_now)
            with Button('Run', on_click=self._run_now) as self._run:
                kbd('⏎')
        with ui.element('div').classes('content-row') as self._content_row:
            self._content = ui.textarea(placeholder='The whole new content').props('outlined dense rows=4')
            self._content.props['aria-label'] = 'Content'
            self._content.classes('code-box')
            # ⌘⏎ is the checker's; in this box a plain ⏎ is a new line.
        self._content_row.set_visibility(False)

    def _draw_verdict(self) -> None:
        with ui.element('div').classes('verd'):
            with ui.element('div').classes('top'):
                with Button(
                    'Run checker', icon='scale', kind='pri', key='mod+enter', on_click=self._check_now
                ) as check:
                    kbd('mod⏎')
                self._check = check
                self._badge = ui.element('span').classes('hs')
            self._details = ui.element('div').classes('details').props('aria-live=polite')
            with ui.element('div').classes('hist') as self._history:
                self._earlier_word = Text('Earlier', classes='hint')
                self._earlier = ui.element('span').classes('hs hs-6')
                self._all = Button('All dry runs', kind='gho xs', on_click=lambda: show_dry_runs(self._dry_runs))
                spacer()
                self._keep_button()
        self._history.set_visibility(False)

    def _keep_button(self) -> None:
        with Button('Keep steps', icon='save', kind='sm') as self._keep:
            self._keep.props['title'] = 'Keep your steps as a solution of this task'
            with ui.menu().classes('menu'):
                for kind, (title, _, meaning) in WORDS.items():
                    with ui.menu_item(on_click=lambda kind=kind: self._keep_as(kind)).classes('mi'):
                        Icon('video')
                        with ui.element('span').classes('vs vs-0 nowrap'):
                            Text(f'As {title.lower()}', classes='w5')
                            Text(meaning, classes='hint')

    # ------------------------------------------------------------------------------------------------ status

    def show_status(self) -> None:
        """Say what the workspace is: not started, ready, busy, or made from another state of the task."""
        changed = bool(self._session) and self._opened_from != _starting(self._draft.raw)
        if self._busy:
            kind, icon, text = 'info', 'hourglass', self._busy
        elif changed:
            kind, icon, text = 'warn', 'triangle-alert', 'Task changed since'
        elif self._session:
            kind, icon, text = 'ok', 'shield-check', 'Sandbox ready'
        else:
            kind, icon, text = '', 'shield', 'Not started'
        self._chip.classes(replace=f'chip {kind}')
        self._chip.props['title'] = 'Reset the workspace to start from the task as it is now.' if changed else text
        self._chip_icon.set(icon)
        self._chip_text.set_text(text)
        self._cancel.set_visibility(bool(self._busy))
        self._reset.set_visibility(not self._busy)
        for button in (self._run, self._check):
            button.disable('Wait for the call that runs, or cancel it') if self._busy else button.enable()
        self._replay.busy('Wait for the call that runs, or cancel it' if self._busy else '')
        self._history.set_visibility(bool(self._dry_runs or self._steps))
        self._all.set_visibility(bool(self._dry_runs))
        self._all.set_text(f'All {plural(len(self._dry_runs), "dry run")}' if len(self._dry_runs) > 1 else 'Details')
        self._keep.set_text(f'Keep {plural(len(self._steps), "step")}')
        self._keep.set_visibility(bool(self._steps))

    async def _guarded(self, word: str, work: Callable[[], Any]) -> Any:
        """Do one thing at a time off the event loop; what fails is told in the terminal."""
        if self._busy:
            return None
        self._busy = word
        self.show_status()
        try:
            return await run.io_bound(work)
        except Cancelled as error:
            self._ended(error)
            return None
        except NotFound as error:
            # Closed for want of use, or with the limit on open ones: what was done in it is gone.
            self._forget()
            self._terminal.problem(error.message, 'The next call makes a fresh workspace.')
            return None
        except RlvrError as error:
            self._terminal.problem(error.message, error.hint)
            return None
        finally:
            self._busy = ''
            self.show_status()

    def _forget(self) -> None:
        self._session, self._steps = '', []
        self._replay.stop()
        self._tree.clear()
        self._changed.set_visibility(False)

    def _ended(self, error: Cancelled) -> None:
        """After a cancelled check the workspace goes on; after any other call it is gone, and its steps with it."""
        if self._busy == CHECKING:
            self._terminal.problem(error.message, error.hint)
            return
        self._forget()
        self._terminal.problem('Cancelled: the workspace was closed.', 'The next call makes a fresh one.')

    async def _ensure(self) -> bool:
        """Have a workspace that starts from the task as it is, unless steps were already taken in the one there is."""
        start = _starting(self._draft.raw)
        if self._session and (self._steps or self._opened_from == start):
            return True
        old, self._session = self._session, ''
        raw = copy.deepcopy(self._draft.raw)
        session = self._pending = uuid4().hex
        document = self._draft.view.id

        def reopen() -> bool:
            if old:
                self._playground.close(old)
            self._playground.open(raw, id=session, alive=self._alive, document=document, tab=self._tab)
            return True

        if not await self._guarded('Starting…', reopen):
            return False
        if self._closed:
            self._playground.close(session)
            return False
        self._session, self._opened_from = session, start
        self.show_status()
        await self._show_tree()
        return True

    # ----------------------------------------------------------------------------------------------- actions

    def _tool_changed(self) -> None:
        tool = str(self._tool.value)
        self._content_row.set_visibility(tool == 'write_file')
        self._input.props(f'placeholder="{_HINTS[tool]}"')

    async def _run_now(self) -> None:
        tool, text = str(self._tool.value), self._input.value or ''
        if tool == 'list_dir' and not text.strip():
            text = '.'
        if self._busy or not text.strip():
            return
        args = {'command': text} if tool == 'run_command' else {'path': text}
        content = self._content.value or ''
        if tool == 'write_file':
            args['content'] = content
        # Emptied at once: what is typed while the call runs is the next call's.
        self._input.value = self._content.value = ''
        if not await self._step(Step(tool=tool, args=args)) and not self._input.value:
            self._input.value, self._content.value = text, content

    async def _step(self, step: Step) -> bool:
        if not await self._ensure():
            return False
        entry = self._terminal.call(step.tool, step.args)
        answer: Answer | None = await self._guarded(
            'Running…', lambda: self._playground.call(self._session, step.tool, step.args)
        )
        if answer is None:
            entry.ended('cancelled or not carried out', None, 0, bad=True)
            return False
        result, change = answer.result, answer.change
        bad = not result.ok or bool(result.exit_code) or result.timed_out
        diff = (
            Diff(change.diff, change.added, change.removed) if change and change.mark == 'M' and change.diff else None
        )
        entry.ended(result.text, result.exit_code, result.duration_ms, bad=bad, diff=diff)
        if result.ok:
            self._steps.append(step)
        await self._show_tree()
        self.show_status()
        return True

    async def _check_now(self) -> None:
        if not await self._ensure():
            return
        raw = copy.deepcopy(self._draft.raw)
        verdict = await self._guarded(CHECKING, lambda: self._playground.check(self._session, raw))
        if verdict is not None:
            self._show_verdict(verdict)
            await self._load_dry_runs()

    async def replay(self, solution: Solution) -> None:
        """Get a kept solution ready in a fresh workspace, to be played step by step or at once, and graded."""
        if self._busy:
            theme.toast('The playground is busy', 'warn', detail='Wait for the call that runs, or cancel it.')
            return
        await self._reset_now()
        if self._session:
            self._replay.begin(solution)

    async def _reset_now(self) -> None:
        self._steps.clear()
        self._replay.stop()
        self._terminal.clear()
        self._badge.clear()
        self._details.clear()
        self._draw_earlier()
        session, self._session = self._session, ''
        if session:
            await self._guarded('Resetting…', lambda: self._playground.close(session))
        await self._ensure()

    async def _cancel_now(self) -> None:
        if self._pending:
            await run.io_bound(self._playground.cancel, self._pending)

    def _keep_as(self, kind: SolutionKind) -> None:
        solution = Solution(kind=kind, steps=tuple(self._steps))
        others = self._draft.solutions
        before = others
        if kind == 'reference':
            others = tuple(other for other in others if other.kind != 'reference')
        self._draft.solutions = (solution, *others) if kind == 'reference' else (*others, solution)
        self._on_solutions()

        def undo() -> None:
            self._draft.solutions = before
            self._on_solutions()

        theme.toast(f'{WORDS[kind][0]} kept: {plural(len(solution.steps), "step")}', undo=undo)

    # --------------------------------------------------------------------------------------------------- show

    def _show_verdict(self, verdict: Verdict) -> None:
        self._badge.clear()
        with self._badge:
            verdict_badge(verdict)
        self._details.clear()
        with self._details:
            verdict_details(verdict)

    async def _load_dry_runs(self) -> None:
        """Show the dry runs of this task, those of before a reload too."""
        runs = await run.io_bound(self._playground.dry_runs, self._draft.view.id)
        if runs is None or self._closed:
            return
        self._dry_runs = runs
        self._draw_earlier()
        self.show_status()

    def _draw_earlier(self) -> None:
        self._earlier.clear()
        shown = bool(self._badge.default_slot.children)
        earlier = self._dry_runs[shown : shown + _EARLIER]
        self._earlier_word.set_visibility(bool(earlier))
        with self._earlier:
            for dry_run in earlier:
                button = ui.element('button').props('type=button').classes('chip-button')
                button.props['aria-label'] = f'Dry run {dry_run.number}'
                with button:
                    verdict_chip(dry_run.verdict)
                button.on('click', lambda number=dry_run.number: show_dry_runs(self._dry_runs, number), args=[])

    async def _show_changes(self, path: str = '') -> None:
        session = self._session
        changes = await self._guarded('Comparing…', lambda: self._playground.changes(session)) if session else ()
        if changes is not None:
            show_changes(changes, path)

    async def _show_tree(self) -> None:
        session = self._session
        try:
            entries = await run.io_bound(self._playground.tree, session) if session else ()
        except RlvrError as error:
            self._terminal.problem(error.message, error.hint)
            return
        if entries is None or session != self._session:
            return
        changed = sum(bool(entry.mark) and not entry.is_folder for entry in entries)
        self._changed.set_visibility(bool(changed))
        self._changed.set_text(f'{changed} changed')
        self._tree.show(entries)

    def _offer(self, tool: str, path: str) -> None:
        self._tool.value = tool
        self._input.value = path
        self._input.run_method('focus')


def _starting(raw: dict[str, Any]) -> dict[str, Any]:
    """The part of a spec that a workspace is made from."""
    return {name: copy.deepcopy(raw.get(name)) for name in ('setup_files', 'setup_commands', 'env')}


async def _quietly(call: Callable[[str], Any], session: str) -> None:
    await run.io_bound(call, session)
