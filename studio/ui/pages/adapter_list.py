"""The list of adapters: each name with its versions, newest first, their held-out success, whether they are proven."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nicegui import ui

from studio.adapters.views import AdapterVersionView, NamedAdapter, ProofState
from studio.ui.components.elements import Icon, Text
from studio.ui.components.panel import search_box
from studio.ui.components.wording import ago, size

SEALS: Final[dict[ProofState, tuple[str, str, str]]] = {
    'proven': ('badge-check', 'ok', 'Parity proven'),
    'failed': ('circle-alert', 'bad', 'Parity failed'),
    'error': ('triangle-alert', 'warn', 'Not proven'),
    'queued': ('clock', '', 'Proof waits'),
    'running': ('hourglass', '', 'Being proven'),
    'cancelled': ('circle-dashed', '', 'Not proven'),
    'none': ('circle-dashed', '', 'Not proven'),
}
"""Proof state → symbol, colour and words."""


def seal(version: AdapterVersionView) -> None:
    """Draw in symbol and words whether a version behaves as in training."""
    icon, kind, words = SEALS[version.proof.state]
    with ui.element('span').classes(f'seal {kind}'):
        Icon(icon, 'ic-s')
        Text(words)


def step_words(version: AdapterVersionView) -> str:
    """Which step a version is of, or that it came from elsewhere."""
    if version.imported:
        return 'Imported'
    run = version.lineage.get('run')
    alone = isinstance(run, dict) and run.get('training_type') == 'conversationalTraining'
    return 'SFT only' if alone else f'Step {version.step:,}'


class AdapterList:
    """The left side of the page; ``find`` narrows it to names and models with all words of a text."""

    def __init__(self, named: Sequence[NamedAdapter], chosen: str) -> None:
        self._rows: list[tuple[str, ui.element]] = []
        self._groups: list[tuple[ui.element, list[ui.element]]] = []
        search_box('Find an adapter', '', self.find)
        for adapter in named:
            with ui.element('section') as group:
                group.props['aria-label'] = adapter.name
                with ui.element('h2').classes('vh') as heading:
                    Text(adapter.name, classes='ell').props['title'] = adapter.name
                    Text(f'{len(adapter.versions):,}', classes='cnt num')
                heading.props['title'] = adapter.name
                rows = [self._row(version, chosen) for version in adapter.versions]
            self._groups.append((group, rows))
        self._none = Text('None fits.', 'div', 't3 t-small pad')
        self._none.set_visibility(False)

    def find(self, text: str) -> None:
        """Show the versions that have all words in their name, model or run."""
        words = text.casefold().split()
        hits = {id(row): all(word in haystack for word in words) for haystack, row in self._rows}
        for _, row in self._rows:
            row.set_visibility(hits[id(row)])
        for group, rows in self._groups:
            group.set_visibility(any(hits[id(row)] for row in rows))
        self._none.set_visibility(not any(hits.values()))

    def _row(self, version: AdapterVersionView, chosen: str) -> ui.element:
        icon, kind, words = SEALS[version.proof.state]
        with ui.element('a').classes('vrow') as row:
            row.props['href'] = f'/adapters/{version.id}'
            if version.id == chosen:
                row.props['aria-current'] = 'true'
            Text(f'v{version.number}', 'b', 'v num')
            Text(step_words(version), classes='dn ell')
            with ui.element('span').classes('sc num'):
                Text('' if version.success is None else f'{version.success:.2f}')
                Icon(icon, f'ic-s c-{kind}' if kind else 'ic-s t3', label=words)
            mark = _words(version)
            Text(mark, classes='m ell').props['title'] = mark
        haystack = f'{version.name} {version.model} {version.run_name} v{version.number}'.casefold()
        self._rows.append((haystack, row))
        return row


def _words(version: AdapterVersionView) -> str:
    result = version.proof.result
    if version.proof.state == 'failed' and result is not None and result.verdicts is not None:
        if result.verdicts.same < result.verdicts.attempts:
            return f'Parity failed: {result.verdicts.same} of {result.verdicts.attempts} agree'
        return 'Parity failed'
    return f'{size(version.size)} · {ago(version.created_at)}'
