"""The certificate of the task in the editor: its seal, what was tried, what failed and why, and running it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nicegui import run, ui

from studio.documents.views import CertificateState
from studio.services import Studio
from studio.ui.components.certificate import SEALS, certificate_lines, short_hash
from studio.ui.components.elements import Button, Icon, Text, note
from studio.ui.components.wording import ago
from studio.ui.pages.certifying import Certifying
from studio.ui.pages.editor_draft import Draft
from trainer.certify import Cancelled, Certificate
from trainer.errors import RlvrError

_HOW: Final = 'Do the task in the playground, then keep your steps as the reference.'


class CertificateCard:
    """Draws the card. ``on_certify`` is called by its buttons, ``on_busy`` with what a busy button says, else ''."""

    def __init__(
        self, studio: Studio, draft: Draft, *, on_certify: Callable[[], Any], on_busy: Callable[[str], Any]
    ) -> None:
        self._studio, self._draft, self._on_certify, self._on_busy = studio, draft, on_certify, on_busy
        self._work = Certifying(studio.certificates)
        self._state: CertificateState = 'uncertified'
        self._certificate: Certificate | None = None
        self._of: int | None = None
        self._problem: tuple[str, str] | None = None
        self._was_cancelled = False
        self._revision = -1
        self._shown: Any = None
        self._progress: Text | None = None
        self._card = ui.element('section').classes('card cert').props('aria-label=Certificate')
        self._draw()

    def close(self) -> None:
        """The page goes away: stop what runs."""
        self._work.close()

    def cancel(self) -> None:
        """Stop what runs; an earlier certificate stays."""
        self._work.cancel()

    @property
    def is_busy(self) -> bool:
        """Whether a certificate is being made."""
        return self._work.busy

    def refuse(self, message: str, hint: str) -> None:
        """Say in place why nothing was started."""
        self._problem, self._was_cancelled = (message, hint), False
        self._draw()
        self._card.client.run_javascript(
            f'getHtmlElement({self._card.id})?.scrollIntoView({{block: "nearest", behavior: "smooth"}})'
        )

    async def certify(self) -> None:
        """Certify the stored version, and show what came out."""
        if self._work.busy:
            return
        id = self._draft.view.id
        self._problem, self._was_cancelled = None, False
        try:
            results = await self._work.run([id])
        finally:
            if not self._work.closed:
                self._on_busy('')
        if self._work.closed:
            return
        if results.ended is not None or results.refused:
            error = results.ended or results.refused[id]
            hint = 'What was proven before stays.' if isinstance(error, Cancelled) and self._certificate else error.hint
            self._problem = (error.message, hint)
            self._was_cancelled = isinstance(error, Cancelled)
        await self.load()

    async def tick(self) -> None:
        """Follow the draft's saves and the work that runs; called a few times a second."""
        if self._work.busy:
            self._on_busy(self._work.words)
            self._draw()
            if self._progress is not None:
                self._progress.set_text(' · '.join(part for part in (self._work.step, self._work.trial) if part))
        if self._revision != self._draft.view.revision:
            await self.load()

    async def load(self) -> None:
        """Read what the store has and show it."""
        self._revision = self._draft.view.revision
        try:
            read = await run.io_bound(_read, self._studio, self._draft.view.id)
        except RlvrError as error:
            self._problem = (error.message, error.hint)
        else:
            if read is None:
                return
            self._state, self._certificate, self._of = read
        if not self._work.closed:
            self._draw()

    # -------------------------------------------------------------------------------------------------- draw

    def _draw(self) -> None:
        made, view = self._certificate, self._draft.view
        has_reference = any(solution.kind == 'reference' for solution in view.solutions)
        when = ago(made.created_at) if made else ''
        shown = (self._state, made, self._of, view.version, has_reference, when, self._problem, self._work.busy)
        if shown == self._shown:
            return
        self._shown = shown
        self._card.clear()
        with self._card:
            self._draw_seal(made, when)
            if self._problem is not None:
                with ui.element('div').classes('pad'):
                    kind, icon = ('', 'info') if self._was_cancelled else ('bad', 'circle-alert')
                    note(self._problem[1], kind, icon=icon, lead=f'{self._problem[0].rstrip(".")}.')
            if self._state == 'stale' and not self._work.busy:
                with ui.element('div').classes('pad'):
                    note(self._why_stale(), 'warn', icon='clock')
            if made is not None:
                certificate_lines(made)
            if not has_reference and (made is None or self._state == 'stale'):
                with ui.element('div').classes('pad'):
                    note(_HOW, icon='video', lead='A certificate needs a reference solution.')
            elif made is None and not self._work.busy:
                Text('Tries the reference solution, the untouched workspace and known cheats.', 'p', 'pad t2 t-small')

    def _draw_seal(self, made: Certificate | None, when: str) -> None:
        word, kind, icon = SEALS[self._state]
        title = word
        if self._state in ('certified', 'failed') and self._of:
            title = f'{word} for v{self._of}'
        elif self._state == 'stale' and made is not None:
            title = f'Stale: {made.state}' + (f' for v{self._of}' if self._of else '')
        busy = self._work.busy
        with ui.element('div').classes(f'sealbar {"none" if busy else kind}'):
            Icon('hourglass' if busy else icon, 'ic-l' if busy else 'ic-l sealfill')
            with ui.element('span').classes('vs vs-0 what').props('role=status'):
                Text(f'Certifying v{self._draft.view.version}' if busy else title, classes='w6')
                self._progress = Text(classes='mono ell') if busy else None
                if not busy and made is not None:
                    isolation = '' if made.isolation == 'bubblewrap' else f' · {made.isolation}'
                    line = Text(f'hash {short_hash(made.hash)} · {when}{isolation}', classes='mono ell')
                    line.props['title'] = f'{made.hash}, {made.created_at.astimezone():%d %b %Y, %H:%M}'
            if busy:
                Button('Cancel', icon='circle-stop', kind='dan sm', on_click=self.cancel)
            else:
                Button(
                    'Run again' if made else 'Certify now',
                    icon='rotate-cw' if made else 'badge-check',
                    kind='sm',
                    on_click=self._on_certify,
                )

    def _why_stale(self) -> str:
        made, view = self._certificate, self._draft.view
        if made is not None and made.hash == view.hash:
            return 'The solutions changed since. Run it again to try them.'
        return f'The task changed since. Run it again for v{view.version}.'


def _read(studio: Studio, id: str) -> tuple[CertificateState, Certificate | None, int | None]:
    """The state of a document, its last certificate, and the number of the version that one is of."""
    view = studio.documents.get(id)
    made = studio.certificates.get(id)
    if made is None or made.hash == view.hash:
        return view.certificate, made, view.version
    numbers = {version.hash: version.number for version in studio.documents.versions(id)}
    return view.certificate, made, numbers.get(made.hash)
