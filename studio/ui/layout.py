"""The shell around every page: rail, top bar, command palette, keyboard help; pages are swapped inside it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nicegui import app, run, ui

from studio.documents.service import DocumentQuery
from studio.runs.views import RunQuery
from studio.ui import theme
from studio.ui.components.elements import Button, Icon, Text, divider, kbd, spacer
from studio.ui.components.palette import Command, Palette, show_keys
from studio.ui.components.panel import empty
from studio.ui.components.rail import Badge, Facts, Rail
from studio.ui.components.wording import size

if TYPE_CHECKING:
    from studio.services import Studio
    from trainer.sandbox.probe import ProbeReport

Crumbs = Sequence[tuple[str, str]]


class Shell:
    """What a page may ask of the frame around it: its top bar, the rail's counts, the palette."""

    def __init__(self, studio: Studio, pages: Mapping[str, Callable[..., Any]]) -> None:
        self.studio = studio
        theme.dark_mode()
        self.is_dark = app.storage.user.get('dark') is True
        self._on_theme: list[Callable[[bool], Any]] = []
        self._on_leave: list[Callable[[], Any]] = []
        ui.on('rlvr_too_large', lambda event: _say_too_large(int(event.args)))
        ui.on('rlvr_theme', lambda event: self._themed(bool(event.args)))
        self.header = ui.header(elevated=False).classes('topbar').props('role="banner"')
        with (
            ui.left_drawer(value=True, top_corner=True, bottom_corner=True)
            .classes('rail-box')
            .props('width=200 behavior=desktop')
        ):
            self.rail = Rail()
        self.palette = Palette(self._find)
        content = ui.element('div').classes('content')
        ui.skip_link('Skip to content', target=content)
        with content:
            self._pages = _Pages(self, dict(pages), data={'studio': studio, 'shell': self})
        ui.context.client.sub_pages_router.on_path_changed(self._left)
        ui.context.client.on_delete(lambda: self._left(''))
        self.rail.mark(ui.context.client.sub_pages_router.current_path)
        ui.timer(3.0, self._poll, immediate=True)

    @contextmanager
    def topbar(self, title: str, *, crumbs: Crumbs = (), main: str = '') -> Iterator[Text]:
        """Fill the top bar of a page: breadcrumb, the page's one ``h1`` (yielded), then whatever is drawn inside.

        ``main`` gives the window its title where the heading is not enough.
        """
        ui.page_title(f'{main or title} · RLVR Studio')
        self.header.clear()
        with self.header:
            if crumbs:
                with ui.element('nav').classes('crumb').props('aria-label="Breadcrumb"'):
                    for text, path in crumbs:
                        with ui.element('a') as link:
                            link.props['href'] = path
                            Text(text)
                        Icon('chevron-right', 'ic-s')
                    heading = Text(title, 'h1')
            else:
                heading = Text(title, 'h1')
            heading.props['title'] = title
            yield heading
            if not any('sp' in child.classes for child in self.header.default_slot.children):
                spacer()
            divider()
            with Button(kind='gho sm', label='Command palette', key='mod+k') as button:
                kbd('modK')
            button.on('click', lambda event: self.palette.open(event.args), js_handler='() => emit(rlvrActions())')
            self._theme_button()

    def on_theme(self, call: Callable[[bool], Any]) -> None:
        """Call back with whether it is dark, when that is known or changes while the current page is shown."""
        self._on_theme.append(call)

    def on_leave(self, call: Callable[[], Any]) -> None:
        """Call back once when the current page goes away, by navigation or with its tab."""
        self._on_leave.append(call)

    def _themed(self, dark: bool) -> None:
        if dark != self.is_dark:
            self.is_dark = dark
            for call in self._on_theme:
                call(dark)

    def _left(self, path: str) -> None:
        calls, self._on_leave, self._on_theme = self._on_leave, [], []
        for call in calls:
            call()
        self.rail.mark(path)

    def _theme_button(self) -> None:
        button = Button(icon='moon', kind='gho icn', label='Switch theme')
        button.on(
            'click',
            lambda event: self._set_dark(bool(event.args)),
            js_handler='() => emit(!document.body.classList.contains("body--dark"))',
        )

    def _set_dark(self, dark: bool) -> None:
        app.storage.user['dark'] = dark

    async def refresh(self) -> bool:
        """Bring the rail up to date: counts, the live run, the sandbox. False while the studio shuts down."""
        facts = await run.io_bound(_facts, self.studio)
        if facts is not None:
            self.rail.show(facts)
        return facts is not None

    async def _poll(self) -> None:
        if not await self.refresh():
            # The thread pool swallows the cancellation of a shutdown, and the timer would sleep on.
            raise asyncio.CancelledError

    async def new_task(self) -> None:
        """Make a blank draft and open it."""
        view = await run.io_bound(self.studio.documents.create)
        if view is not None:
            ui.navigate.to(f'/tasks/{view.id}')

    @property
    def path(self) -> str:
        """The address of what is shown, with what it asks for behind ``?``."""
        return self._pages.path

    def address(self, path: str, *, step: bool) -> None:
        """Say in the address what the page shows now, without drawing it anew; going back undoes a ``step``."""
        if path == self._pages.path:
            return
        self._pages.moved(path)
        call = 'pushState' if step else 'replaceState'
        ui.run_javascript(f'history.{call}({{page: {json.dumps(path)}}}, "", {json.dumps(path)})')

    async def _find(self, text: str) -> list[tuple[str, list[Command]]]:
        """The tasks and runs that fit what was typed into the palette."""
        found = await run.io_bound(_find, self.studio, text)
        return found or []


class _Pages(ui.sub_pages):
    """The place where pages are swapped, with our own words for a wrong address and a page that broke."""

    def __init__(self, shell: Shell, routes: dict[str, Callable[..., Any]], data: dict[str, Any]) -> None:
        self._shell = shell
        super().__init__(routes, data=data)

    @property
    def path(self) -> str:
        """The address of what is shown."""
        return self._router.current_path

    def moved(self, path: str) -> None:
        """Take another address for what is shown, so that going back from it draws the page anew."""
        self._router.current_path = path
        self._match = self._find_matching_path()

    def _render_404(self) -> None:
        self._cancel_active_tasks()  # The page of the part of the address that fits is being drawn already.
        self._draw(
            'Page not found', 'file-x', 'There is no page at this address.', 'The link may be of another version.'
        )

    def _render_error(self, error: Exception) -> None:
        what = f'{type(error).__name__}: {error}'
        self._draw(
            'This page broke', 'circle-alert', what, 'Load it again. If that does not help: the log has the trace.'
        )

    def _draw(self, title: str, icon: str, text: str, hint: str) -> None:
        with self._shell.topbar(title):
            pass
        with empty(icon, text, hint):
            Button('All tasks', on_click=lambda: ui.navigate.to('/'))


def root(studio: Studio, pages: Mapping[str, Callable[..., Any]]) -> None:
    """Draw the shell for one browser tab."""
    ui.on_exception(theme.show_error)
    shell = Shell(studio, pages)
    Button(kind='sr', label='New task', key='n', on_click=shell.new_task)
    Button(kind='sr', label='Keyboard shortcuts', key='?', on_click=show_keys)


def _facts(studio: Studio) -> Facts:
    """Read what the rail shows (three short queries); called off the event loop."""
    active = studio.runs.active()
    return Facts(
        tasks=studio.documents.count(),
        adapters=studio.adapters.count(),
        live='' if active is None else (f'{active.step}/{active.total}' if active.total else active.state),
        sandbox=sandbox_badge(studio.sandbox.report),
    )


def _find(studio: Studio, text: str) -> list[tuple[str, list[Command]]]:
    tasks = studio.documents.list(DocumentQuery(search=text, per_page=8)).rows
    runs = studio.runs.list(RunQuery(search=text, per_page=5)).rows if text else ()
    words = text.casefold().split()
    adapters = [
        version
        for named in (studio.adapters.list() if text else ())
        for version in named.versions
        if all(word in version.label.casefold() for word in words)
    ]
    return [
        ('Tasks', [Command(row.title.strip() or 'Untitled task', 'file-text', f'/tasks/{row.id}') for row in tasks]),
        ('Runs', [Command(found.name, 'activity', f'/runs/{found.id}') for found in runs]),
        ('Adapters', [Command(one.label, 'layers', f'/adapters/{one.id}') for one in adapters[:5]]),
    ]


def _say_too_large(count: int) -> None:
    theme.toast(
        'Too large to paste', 'bad', detail=f'{size(count)} at once; up to 900 kB. Upload it as a file, or import it.'
    )


def sandbox_badge(report: ProbeReport | None) -> Badge:
    """Green when every attempt of the probe was held, amber when the sandbox leaks, red when there is none."""
    if report is None:
        return Badge('wait', 'Sandbox', 'being probed')
    if report.proven:
        return Badge('ok', f'{report.name} · no network', f'{len(report.rows)} of {len(report.rows)} escapes held')
    held = sum(row.ok for row in report.rows)
    if report.name == 'unsafe':
        return Badge('bad', 'No isolation', 'runs as you, unsafe')
    if not held:
        return Badge('bad', 'No sandbox', 'see Settings for the fix')
    return Badge('warn', report.name, f'{len(report.rows) - held} of {len(report.rows)} escapes got out')
