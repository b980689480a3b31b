"""Settings: what sandbox is in force and how that was measured, who may use the API, where the data are, the looks."""

from __future__ import annotations

from typing import Any, Final

from nicegui import app, run, ui

from studio.services import Studio
from studio.ui.components.elements import Button, Icon, Text, note
from studio.ui.components.palette import show_keys
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.layout import Shell, sandbox_badge
from studio.ui.pages.settings_keys import KeysCard
from trainer import __version__
from trainer.sandbox.probe import ProbeReport

_LOG_OUT: Final = "() => fetch('/logout', {method: 'POST'}).finally(() => location.assign('/login'))"
_THEMES: Final = {'system': None, 'light': False, 'dark': True}


async def page(shell: Shell, studio: Studio) -> None:
    """Draw the settings."""
    with shell.topbar('Settings'):
        pass
    with ui.element('div').classes('main'), ui.element('div').classes('settings'):
        sandbox = _SandboxCard(shell, studio)
        with ui.element('div').classes('vs vs-3'):
            keys = KeysCard(studio, alone=not studio.settings.is_wide)
            _appearance()
            _data(studio)
            _about()
    await keys.show()
    await sandbox.show()


class _SandboxCard:
    """The report of the probe, and a button to measure again."""

    def __init__(self, shell: Shell, studio: Studio) -> None:
        self._shell, self._studio = shell, studio
        with ui.element('section').classes('card').props('aria-label=Sandbox'):
            with ui.element('div').classes('hd'):
                Icon('shield', 'lead')
                Text('Sandbox', 'h2')
                ui.element('span').classes('sp')
                self._again = Button('Probe again', icon='rotate-cw', kind='sm', on_click=self._measure)
            self._body = ui.element('div').classes('bd vs vs-3').props('role=status')
        self._timer = ui.timer(0.5, self.show)

    async def show(self) -> None:
        """Show the last report; keep looking while the first one is being made."""
        report = self._studio.sandbox.report
        self._timer.active = report is None
        self._draw(report)

    async def _measure(self) -> None:
        self._again.disable('The probe runs')
        self._again.set_text('Probing…')
        try:
            report = await run.io_bound(self._studio.sandbox.measure)
        finally:
            self._again.enable()
            self._again.set_text('Probe again')
        self._draw(report)
        await self._shell.refresh()

    def _draw(self, report: ProbeReport | None) -> None:
        badge = sandbox_badge(report)
        icons = {'ok': 'shield-check', 'wait': 'shield'}
        self._body.clear()
        with self._body:
            if report is None:
                note(
                    'A fresh sandbox is being attacked to see what holds. This takes about a second.', icon='hourglass'
                )
                return
            note(
                f'{badge.detail}. Measured by attacking a fresh sandbox, {report.duration_ms / 1000:.1f} s.',
                badge.kind,
                icon=icons.get(badge.kind, 'shield-alert'),
                lead=f'{badge.title}.',
            )
            if report.fix:
                note(report.fix, 'warn', icon='wrench', lead='What to do.')
            with ui.element('ul').classes('probes'):
                for row in report.rows:
                    with ui.element('li'):
                        word = 'held' if row.ok else 'got out'
                        Icon('check' if row.ok else 'x', f'ic-s {"c-ok" if row.ok else "c-bad"}', label=word)
                        Text(row.name[:1].upper() + row.name[1:], classes='ell').props['title'] = row.name
                        Text(row.detail, classes='v ell').props['title'] = row.detail


def _appearance() -> None:
    with ui.element('section').classes('card').props('aria-label=Appearance'):
        _head('sun', 'Appearance')
        with ui.element('div').classes('bd hs hs-3'):
            Text('Theme', classes='lbl')
            stored = app.storage.user.get('dark')
            value = next(name for name, dark in _THEMES.items() if dark is stored)
            choices = [Choice('system', 'System'), Choice('light', 'Light', 'sun'), Choice('dark', 'Dark', 'moon')]

            def pick(name: str) -> None:
                app.storage.user['dark'] = _THEMES[name]

            Segmented(choices, value, label='Theme', on_change=pick)
            ui.element('span').classes('sp')
            Button('Keyboard', icon='keyboard', kind='sm', on_click=show_keys)


def _data(studio: Studio) -> None:
    settings = studio.settings
    with ui.element('section').classes('card').props('aria-label=Data'):
        with _head('hard-drive', 'Data'):
            if settings.is_wide:
                ui.element('span').classes('sp')
                Button('Log out', icon='log-out', kind='sm').on('click', js_handler=_LOG_OUT)
        _facts(
            {
                'Folder': settings.home,
                'Database': settings.database_url.split('@')[-1],
                'Runs': settings.runs_folder,
                'Address': f'http://{settings.host}:{settings.port}',
            }
        )
        Text('All of it stays on this machine. Set RLVR_HOME or --home to use another folder.', 'p', 'ft')


def _about() -> None:
    with ui.element('section').classes('card').props('aria-label=About'):
        _head('info', 'About')
        _facts(
            {
                'RLVR Studio': __version__,
                'Licence': 'Apache-2.0',
                'Fonts and icons': 'Inter, JetBrains Mono (OFL), Lucide (ISC)',
            }
        )


def _facts(facts: dict[str, Any]) -> None:
    with ui.element('dl').classes('facts'):
        for name, value in facts.items():
            Text(name, 'dt')
            Text(str(value), 'dd', 'mono ell').props['title'] = str(value)


def _head(icon: str, title: str) -> ui.element:
    with ui.element('div').classes('hd') as head:
        Icon(icon, 'lead')
        Text(title, 'h2')
    return head
