"""A verdict in the three kinds that are never merged: passed, failed (also in part), and an error without a number."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from studio.ui.components.elements import Icon, Text, chip
from studio.ui.components.wording import plural, took
from trainer.verdict import Verdict

_KINDS: Final = {
    'passed': ('ok', 'circle-check', 'Passed'),
    'partial': ('bad', 'circle-x', 'Failed'),
    'failed': ('bad', 'circle-x', 'Failed'),
    'error': ('warn', 'triangle-alert', 'Error \N{EN DASH} not scored'),
}
_ITEMS: Final = 60
_OUTPUT_CHARS: Final = 20_000


def verdict_chip(verdict: Verdict) -> ui.element:
    """A small chip: ``Passed 1.00``, ``Failed 0.33`` or "Error, not scored"."""
    kind, icon, word = _KINDS[verdict.outcome]
    return chip(f'{word} {_reward(verdict)}'.strip(), f'{kind} num', icon=icon)


def verdict_badge(verdict: Verdict) -> None:
    """The large form with its reward, and beside it how many items passed and how long it took."""
    kind, icon, word = _KINDS[verdict.outcome]
    with ui.element('span').classes(f'vb {kind}').props('role=status'):
        Icon(icon)
        Text(word)
        if verdict.reward is not None:
            Text(_reward(verdict), classes='num')
    passed = sum(item.passed for item in verdict.items)
    counted = (
        f'{passed} of {len(verdict.items)} passed · ' if len(verdict.items) > 1 and verdict.reward is not None else ''
    )
    Text(f'{counted}{took(verdict.duration_ms)}', classes='t3 t-small num')


def verdict_details(verdict: Verdict) -> None:
    """The reason, one line for each item, and the checker's output behind a fold."""
    if verdict.tampered:
        Text('The result was forged: the reward is 0.', 'p', 'c-bad t-small w5')
    if verdict.reason:
        Text(verdict.reason, 'p', 'reason ' + ('c-warn' if verdict.outcome == 'error' else 't2'))
    if verdict.items:
        shared = _shared_file(verdict)
        with ui.element('ul').classes('tests'):
            for item in verdict.items[:_ITEMS]:
                with ui.element('li'):
                    Icon(
                        'circle-check' if item.passed else 'circle-x',
                        'c-ok' if item.passed else 'c-bad',
                        label='passed' if item.passed else 'failed',
                    )
                    Text(item.name.removeprefix(shared), classes='ell').props['title'] = item.name
                    if item.detail not in ('', verdict.reason) and not item.passed:
                        Text(item.detail, classes='m ell').props['title'] = item.detail
        if len(verdict.items) > _ITEMS:
            Text(f'… {len(verdict.items) - _ITEMS} more', 'p', 'hint')
    if verdict.output.strip():
        with ui.element('details').classes('output'):
            Text(f'Output of the checker · {plural(verdict.output.count(chr(10)) + 1, "line")}', 'summary')
            Text(verdict.output[-_OUTPUT_CHARS:], 'pre', 'code')


def _shared_file(verdict: Verdict) -> str:
    """``tests/test_add.py::`` where every test is of that file: it then says nothing."""
    files = {item.name.partition('::')[0] for item in verdict.items if '::' in item.name}
    return f'{files.pop()}::' if len(files) == 1 and all('::' in item.name for item in verdict.items) else ''


def _reward(verdict: Verdict) -> str:
    """Two decimals, never rounded up to a pass: 0.999 reads 0.99."""
    if verdict.reward is None:
        return ''
    return f'{int(verdict.reward * 100 + 1e-9) / 100:.2f}'
