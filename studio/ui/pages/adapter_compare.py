"""Two adapter versions beside each other: held-out success of both, and what differs between them."""

from __future__ import annotations

from nicegui import run as background
from nicegui import ui

from studio.adapters.views import AdapterVersionView, Comparison
from studio.ui.components.before_after import before_after
from studio.ui.components.elements import Button, Text, chip, note, spacer
from studio.ui.components.panel import panel
from studio.ui.components.wording import ago, size
from studio.ui.layout import Shell
from studio.ui.pages.adapter_list import seal, step_words
from studio.ui.pages.run_parts import pairs, share
from studio.ui.pages.try_choices import model_title


async def page(shell: Shell, a: str, b: str) -> None:
    """Draw the page."""
    found = await background.io_bound(shell.studio.adapters.compare, a, b)
    if found is None:
        return
    with shell.topbar('Compare', crumbs=[('Adapters', '/adapters')], main=f'{found.a.label} and {found.b.label}'):
        spacer()
        Button('Swap', icon='repeat', on_click=lambda: ui.navigate.to(f'/adapters/{b}/compare/{a}'))
    with ui.element('div').classes('det cmp2'):
        with ui.element('div').classes('two'):
            _version(found.a)
            _version(found.b)
        _success(found)
        _differences(found)


def _version(version: AdapterVersionView) -> None:
    with ui.element('section').classes('card pad') as card:
        card.props['aria-label'] = version.label
        with ui.element('div').classes('hs'):
            with ui.element('a').classes('w6 ell') as link:
                link.props['href'] = f'/adapters/{version.id}'
                Text(version.label)
            if version.rank is not None:
                chip(f'rank {version.rank}')
            chip(size(version.size), 'num')
            spacer()
            seal(version)
        words = f'{model_title(version.model)} · {step_words(version)} · {ago(version.created_at)}'
        Text(words, 'div', 't3 t-small ell').props['title'] = words


def _success(found: Comparison) -> None:
    a, b = found.a.after, found.b.after
    if a is None and b is None:
        with panel('Held-out success'):
            Text('Neither was measured.', 'div', 't3 t-small pad')
        return
    one = b or a
    how = f'k = {one.k} attempts a task, temperature {one.temperature:g}' if one else ''
    names = (found.a.label, found.b.label)
    before_after(share(a), share(b), pairs(a, b), how=how, names=names, legend=names)
    if a is not None and b is not None and not found.same_tasks:
        note('They were measured on different tasks: the totals cannot be compared.', 'warn', icon='triangle-alert')


def _differences(found: Comparison) -> None:
    with panel('What differs', icon='git-compare') as head:
        with head:
            Text(f'{len(found.differences):,}', classes='t3 num')
        if not found.differences:
            Text('Nothing that is recorded.', 'div', 't3 t-small pad')
            return
        with ui.element('table').classes('tbl difft'):
            with ui.element('thead'), ui.element('tr'):
                for text in ('', found.a.label, found.b.label):
                    Text(text, 'th')
            with ui.element('tbody'):
                for row in found.differences:
                    with ui.element('tr'):
                        Text(row.field, 'th').props['scope'] = 'row'
                        for value in (row.a, row.b):
                            Text(value or '–', 'td', 'mono' if value else 't3').props['title'] = value  # noqa: RUF001
