"""The parity proof of a version: the seal with its numbers, how far it is, or what differs; asked for here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from nicegui import run as background
from nicegui import ui

from studio.adapters.views import AdapterVersionView
from studio.side_jobs.service import SideJobView
from studio.ui.components.dialogs import opened_dialog
from studio.ui.components.elements import Button, Icon, Text, sized, spacer
from studio.ui.components.fields import Field
from studio.ui.components.wording import ago, duration
from trainer.errors import BaseUnavailable, RunFolderError, SandboxUnavailable
from trainer.proof import ProofResult

if TYPE_CHECKING:
    from studio.services import Studio

After = Callable[[], Awaitable[None]]
WORDS = {
    'proven': ('badge-check', 'ok', 'Parity proven', 'Saved weights act like the trained ones'),
    'failed': ('circle-alert', 'bad', 'Parity failed', 'It does not act as it did in training: do not use it'),
    'error': ('triangle-alert', 'warn', 'Not proven', 'The proof could not be made'),
    'queued': ('clock', '', 'Proof waits', 'It is made when no run works'),
    'running': ('hourglass', '', 'Being proven', 'A fresh process repeats the last evaluation'),
    'cancelled': ('circle-dashed', '', 'Not proven', 'The proof was cancelled'),
    'none': ('circle-dashed', '', 'Not proven', ''),
}
OTHER_BASE = 'Made with another base model than it was trained on'
BASE_ERRORS = frozenset({'', BaseUnavailable.__name__})
"""Errors that naming the base model may mend; records from before the class of an error was kept have none."""


class ProofPanel:
    """The card; ``refresh`` draws it again with what is known now."""

    def __init__(self, studio: Studio, version: AdapterVersionView, after: After) -> None:
        self._studio, self._after = studio, after
        self._box = ui.element('section').classes('card').props('aria-label="Parity proof"')
        self._text: Text | None = None
        self._count: Text | None = None
        self._bar: ui.element | None = None
        self.refresh(version)

    def refresh(self, version: AdapterVersionView) -> None:
        """Draw what is known of a version."""
        self._version = version
        self._box.clear()
        self._text = self._count = self._bar = None
        state = version.proof.state
        icon, kind, title, text = WORDS[state]
        if state == 'none':
            text = (
                'Imported: there is no training of it here to compare with'
                if version.imported
                else 'Its run recorded nothing to compare with'
            )
        if version.proof.result is not None and version.proof.result.other_base:
            text = OTHER_BASE
        with self._box:
            with ui.element('div').classes(f'sealbar {kind}').props('role=status'):
                Icon(icon, 'ic-l')
                with ui.element('span').classes('vs vs-0 what'):
                    Text(title, 'b', 'w6')
                    Text(text, classes='t-small')
            self._body()

    def progress(self, job: SideJobView | None, waits_for: str) -> None:
        """Say how far it is, without drawing the card again."""
        if self._text is None or self._count is None:
            return
        self._text.set_text(job.text if job is not None else waits_for or 'Starts in a moment')
        if job is None:
            return
        done = f'{job.done:,} of {job.total:,} · ' if job.total else ''
        self._count.set_text(done + duration(job.elapsed_s))
        if self._bar is not None:
            self._bar.style(f'width: {100 * (job.share or 0):.0f}%')

    def _body(self) -> None:
        proof = self._version.proof
        if proof.state in ('queued', 'running'):
            self._working()
        elif proof.result is not None and proof.state in ('proven', 'failed'):
            if proof.state == 'failed':
                with ui.element('ul').classes('probs'):
                    for problem in proof.result.problems:
                        Text(problem, 'li')
            _numbers(proof.result)
            self._foot(f'{ago(proof.result.made_at)} · {proof.result.device}, {proof.result.precision}', 'Prove again')
        elif proof.state == 'error':
            Text(proof.reason, 'div', 't-small pad wrap')
            self._foot('', 'Prove again')
        elif proof.state == 'cancelled':
            self._foot('', 'Prove')

    def _working(self) -> None:
        with ui.element('div').classes('hs pad'):
            with ui.element('span').classes('vs vs-0 sp'):
                self._text = Text('Starts in a moment', classes='t-small wrap')
                self._count = Text('', classes='t-small num t3')
            Button('Cancel', kind='xs', on_click=self._cancel)
        if self._version.proof.state == 'running':
            with ui.element('div').classes('pbar').props('aria-hidden=true'):
                self._bar = ui.element('i').style('width: 0%')

    def _foot(self, text: str, action: str) -> None:
        with ui.element('div').classes('hs pad foot'):
            Text(text, classes='t3 t-micro')
            spacer()
            self._help()
            Button(action, icon='rotate-ccw' if action != 'Prove' else 'badge-check', kind='xs', on_click=self._ask)

    def _help(self) -> None:
        """Offer what helps before it is proven again; what has to be installed or freed is said in the reason."""
        proof, run = self._version.proof, self._version.run_id
        other_base = proof.result is not None and proof.result.other_base
        if other_base or (proof.state == 'error' and proof.error in BASE_ERRORS):
            Button('Name the base…', kind='xs', on_click=self._name_base)
        elif proof.error == SandboxUnavailable.__name__:
            _link('Settings', '/settings')
        elif proof.error == RunFolderError.__name__ and run:
            _link('Train again', f'/train?copy={run}')

    async def _ask(self, base: str = '') -> None:
        await background.io_bound(lambda: self._studio.proofs.ask(self._version.id, base=base))
        self._studio.supervisor.wake()
        await self._after()

    async def _cancel(self) -> None:
        await background.io_bound(self._studio.proofs.cancel, self._version.id)
        await self._after()

    def _name_base(self) -> None:
        text = 'Where the base model is now. It must be the very one that was trained on.'
        with opened_dialog('The base model', text=text) as dialog:
            with Field('Folder or hub id', classes='mt-3') as field:
                box = ui.input(value=self._version.proof.base or self._version.model).props('outlined dense autofocus')
                box.props['aria-label'] = 'Folder or hub id'

            async def go() -> None:
                base = str(box.value or '').strip()
                if not base:
                    field.show_error('Name the folder, or the id on the hub')
                    return
                dialog.close()
                await self._ask(base)

            box.on('keydown.enter', go, args=[])
            with ui.element('div').classes('act'):
                Button('Cancel', on_click=dialog.close)
                Button('Prove', icon='badge-check', kind='pri', on_click=go)


def _numbers(result: ProofResult) -> None:
    with ui.element('dl').classes('pp two'):
        seen = result.verdicts
        if seen is None:
            _pair('Held-out attempts', 'none were measured')
        else:
            _pair('In-training evaluation', f'{seen.solved_then} of {seen.attempts}')
            _pair('Reloaded, fresh process', f'{seen.solved_now} of {seen.attempts}')
            if seen.exact:
                good = seen.attempts - seen.same <= seen.allowed
                _pair('Same verdict', f'{seen.same} of {seen.attempts}', 'ok' if good else 'bad')
            else:
                _pair('Attempts', 'sampled anew: rates are compared')
        near = result.logit_difference <= result.logit_tolerance
        off = f'{result.logit_difference:.2g} (≤ {result.logit_tolerance:g})'
        _pair('Largest logit difference', off, '' if near else 'bad')
        _pair('Base model', f'sha256 {result.base[:6]}…{result.base[-4:]}', title=result.base)
        _pair('Weights', f'sha256 {result.adapter[:6]}…{result.adapter[-4:]}', title=result.adapter)


def _link(text: str, path: str) -> None:
    with ui.element('a').classes(f'btn {sized("xs")}') as link:
        link.props['href'] = path
        Text(text, classes='cap')


def _pair(name: str, value: str, kind: str = '', *, title: str = '') -> None:
    Text(name, 'dt', 't2')
    with ui.element('dd').classes(f'c-{kind}' if kind else '') as cell:
        if kind:
            Icon('check' if kind == 'ok' else 'x', 'ic-s')
        Text(value, classes='mono t-micro' if title else '')
    if title:
        cell.props['title'] = title
