"""What a certificate looks like: the seal of each state, the lines of what was tried, what failed and what to do."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from studio.documents.views import CertificateState
from studio.ui.components.elements import Icon, Text, note
from trainer.certify import Certificate

SEALS: Final[dict[CertificateState, tuple[str, str, str]]] = {
    'certified': ('Certified', 'ok', 'badge-check'),
    'stale': ('Stale', 'warn', 'clock'),
    'uncertified': ('Uncertified', 'none', 'circle-dashed'),
    'failed': ('Failed', 'bad', 'circle-x'),
}
"""State → word, colour and icon: word and icon both differ, so colour is never needed to tell them apart."""

_NOT_TRIED: Final = '–'  # noqa: RUF001


def seal(state: CertificateState, text: str = '') -> ui.element:
    """Draw the seal of a state with its word, or with ``text`` in its place."""
    word, kind, icon = SEALS[state]
    with ui.element('span').classes(f'seal {kind}') as element:
        Icon(icon)
        Text(text or word, classes='num')
    return element


def short_hash(hash: str) -> str:
    """The two ends of a hash, as a person compares them: ``3fa9…c21e``."""
    return f'{hash[:4]}…{hash[-4:]}'


def certificate_lines(certificate: Certificate) -> None:
    """Draw what was tried, then each line that failed with what to do, then how the checker could be better."""
    with ui.element('ul').classes('lines'):
        for line in certificate.summary():
            with ui.element('li'):
                Icon('check' if line.ok else 'x', f'ic-s {"c-ok" if line.ok else "c-bad"}', label=_said(line.ok))
                Text(line.label, classes='ell').props['title'] = line.label
                # A line that was not tried has words in place of a number; they stand with what failed.
                known = line.value == 'error' or any(letter.isdigit() for letter in line.value)
                Text(line.value if known else _NOT_TRIED, classes='v' if line.ok else 'v c-bad')
    if certificate.failed:
        with ui.element('ul').classes('fails').props('aria-label="What failed"'):
            for probe in certificate.failed:
                with ui.element('li'):
                    Icon('circle-x', 'ic-s c-bad')
                    with ui.element('span').classes('vs vs-0'):
                        Text(probe.name[:1].upper() + probe.name[1:], classes='w5')
                        Text(probe.detail, classes='why')
    if certificate.weak:
        lead, _, rest = certificate.weak.partition(': ')
        with ui.element('div').classes('pad'):
            note(rest or lead, 'warn', icon='triangle-alert', lead=f'{lead}:' if rest else '')


def _said(ok: bool) -> str:
    return 'held' if ok else 'failed'


__all__ = ['SEALS', 'certificate_lines', 'seal', 'short_hash']
