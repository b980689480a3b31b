"""The rail: where one can go, how much is there, which run is live, and what sandbox is in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nicegui import ui

from studio.ui.components.elements import Icon, Text

PLACES: Final = (
    ('Tasks', '/', 'list-checks', 't'),
    ('Train', '/train', 'play', ''),
    ('Runs', '/runs', 'activity', 'r'),
    ('Adapters', '/adapters', 'layers', 'a'),
    ('Models', '/models', 'box', 'm'),
    ('Settings', '/settings', 'settings', 's'),
)
"""Name, path, icon and the letter after G."""

_LOGO: Final = (
    '<rect x="1" y="1" width="22" height="22" rx="6.5" fill="var(--accent)"/>'
    '<path d="M6 16.2c2.2 0 2.9-1.5 4-4.1 1.2-2.8 2.2-4.5 4.6-4.5" fill="none" stroke="var(--text-on-accent)" '
    'stroke-width="1.9" stroke-linecap="round"/><path d="m13.4 15.1 1.7 1.7 3.3-3.7" fill="none" '
    'stroke="var(--text-on-accent)" stroke-width="1.9" stroke-linecap="round" stroke-linejoin="round"/>'
)


@dataclass(frozen=True)
class Badge:
    """What the sandbox badge says: ``kind`` is ``ok`` (proven), ``warn`` (weaker), ``bad`` (none) or ``wait``."""

    kind: str
    title: str
    detail: str


@dataclass(frozen=True)
class Facts:
    """What the rail shows; read off the event loop every few seconds."""

    tasks: int
    adapters: int
    live: str
    sandbox: Badge


class Rail:
    """The navigation at the left, drawn into the current slot."""

    def __init__(self) -> None:
        self._links: dict[str, ui.element] = {}
        self._badge_shown: Badge | None = None
        with ui.element('nav').classes('rail').props('aria-label="Main"'):
            with ui.element('a').classes('brand').props('href="/" aria-label="RLVR Studio"'):
                logo = ui.element('svg').props('viewBox="0 0 24 24" aria-hidden="true"')
                logo.props['innerHTML'] = _LOGO
                Text('RLVR Studio', classes='lbl-x')
            for name, path, icon, letter in PLACES:
                if name == 'Settings':
                    ui.element('div').classes('rail-sep')
                self._links[name] = self._link(name, path, icon, letter)
            ui.element('div').classes('sp')
            self._badge()

    def mark(self, path: str) -> None:
        """Mark the place that a path belongs to as the current one."""
        plain = path.split('?')[0].split('#')[0]
        here = '/' if plain.startswith(('/tasks', '/templates')) else '/runs' if plain.startswith('/compare') else plain
        for name, place, *_ in PLACES:
            link = self._links[name]
            if here == place or (place != '/' and here.startswith(place)):
                link.props('aria-current=page')
            else:
                link.props(remove='aria-current')

    def show(self, facts: Facts) -> None:
        """Bring counts, live run and badge up to date."""
        self._tasks.set_text(str(facts.tasks) if facts.tasks else '')
        self._adapters.set_text(str(facts.adapters) if facts.adapters else '')
        self._live.set_visibility(bool(facts.live))
        self._step.set_text(facts.live)
        badge = facts.sandbox
        if badge == self._badge_shown:
            return
        self._badge_shown = badge
        self._box.classes(replace=f'sbx {badge.kind}')
        self._box.props['title'] = f'Sandbox: {badge.title}, {badge.detail}'
        self._box_icon.set({'ok': 'shield-check', 'wait': 'shield'}.get(badge.kind, 'shield-alert'))
        self._box_title.set_text(badge.title)
        self._box_detail.set_text(badge.detail)

    def _link(self, name: str, path: str, icon: str, letter: str) -> ui.element:
        with ui.element('a').classes('nav').props(f'href="{path}" title="{name}"') as link:
            if letter:
                link.props(f'data-go={letter}')
            Icon(icon)
            Text(name, classes='lbl-x')
            if name == 'Tasks':
                self._tasks = Text('', classes='cnt')
            elif name == 'Adapters':
                self._adapters = Text('', classes='cnt')
            elif name == 'Runs':
                with ui.element('span').classes('live c-ok hs hs-6 t-micro num') as self._live:
                    ui.element('span').classes('dot pulse')
                    self._step = Text('', classes='lbl-x')
                self._live.set_visibility(False)
        return link

    def _badge(self) -> None:
        with ui.element('a').classes('sbx wait').props('href="/settings"') as self._box:
            self._box_icon = Icon('shield', 'ic-s')
            self._box_title = Text('Sandbox', 'b', 'lbl-x').props('role=status')
            self._box_detail = Text('being probed', classes='lbl-x')
