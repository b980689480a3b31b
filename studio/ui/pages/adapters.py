"""The adapters: names and versions at the left, one version at the right; files dropped anywhere are brought in.

What goes on (a proof that is made, an adapter that a run has just left) is seen by looking at the store every second.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nicegui import run as background
from nicegui import ui

from studio.adapters.views import AdapterVersionView, Imported, NamedAdapter
from studio.errors import NotFound
from studio.runs.views import RunView
from studio.side_jobs.service import SideJobView
from studio.ui import theme
from studio.ui.components.elements import Button, Icon, Text, chip, spacer
from studio.ui.components.panel import empty
from studio.ui.components.wording import size
from studio.ui.layout import Shell
from studio.ui.pages import adapter_actions as actions
from studio.ui.pages.adapter_import import FORMATS, AdapterUpload
from studio.ui.pages.adapter_list import AdapterList, seal
from studio.ui.pages.adapter_parts import files_panel, held_out_panel, lineage_panel, notes_panel
from studio.ui.pages.adapter_proof import ProofPanel
from studio.ui.pages.adapter_use import UseRow

if TYPE_CHECKING:
    from studio.services import Studio

POLL_S: Final = 1.0


@dataclass(frozen=True)
class Seen:
    """What the page shows: every name, the version that is open, and its run where it is still there."""

    named: tuple[NamedAdapter, ...]
    version: AdapterVersionView | None
    run: RunView | None
    stamp: Hashable

    @property
    def count(self) -> int:
        """How many versions there are."""
        return sum(len(adapter.versions) for adapter in self.named)


async def page(shell: Shell, version_id: str = '', run: str = '') -> None:
    """Draw the page; ``version_id`` opens a version, ``run`` the newest one that a run left."""
    seen = await background.io_bound(_read, shell.studio, version_id or run)
    if seen is None:
        return
    with shell.topbar('Adapters', main=seen.version.label if seen.version else ''):
        count = Text(f'{seen.count:,}', classes='t3 num')
        spacer()
        imported = Button('Import', icon='upload')
        compared = Button('Compare versions', icon='git-compare')
    drawn = Page(shell.studio, seen, count)
    imported.on('click', js_handler=drawn.upload.pick)
    compared.on('click', drawn.compare, args=[])
    compared.off('' if seen.count > 1 else 'There are no two versions to compare')
    if (version_id or run) and seen.version is None:
        theme.toast('There is no such adapter', 'warn', detail='It may have been deleted in another tab.')


class Page:
    """What one tab shows below the top bar."""

    def __init__(self, studio: Studio, seen: Seen, count: Text) -> None:
        self._studio, self._seen, self._count = studio, seen, count
        self._proof: ProofPanel | None = None
        self._use: UseRow | None = None
        with ui.element('div').classes('adbox') as box:
            self.upload = AdapterUpload(studio, self._brought_in)
            box.props['data-drop'] = self.upload.drop_target
            self._root = ui.element('div').classes('ad')
        self._draw()
        ui.timer(POLL_S, self._look)

    def compare(self) -> None:
        """Ask which versions to put beside each other."""
        if self._seen.version is not None:
            actions.compare(self._seen.named, self._seen.version)

    def _draw(self) -> None:
        """Draw everything below the top bar."""
        self._root.clear()
        self._proof = self._use = None
        self._root.classes(remove='none') if self._seen.named else self._root.classes('none')
        with self._root:
            if not self._seen.named:
                self._empty()
                return
            self._side = ui.element('aside').classes('vl').props('aria-label="Adapters"')
            self._fill_list()
            with ui.element('div').classes('det'):
                if self._seen.version is None:
                    with empty('layers', 'This adapter is not here any more.', 'Pick another one in the list.'):
                        return
                self._head = ui.element('div').classes('dh')
                self._fill_head(self._seen.version)
                self._use = UseRow(self._studio, self._seen.version)
                self._cards(self._seen.version)

    def _empty(self) -> None:
        with ui.element('div').classes('empty').style('padding: 120px 16px; width: 100%'):
            Icon('layers', 'ic-l')
            Text('No adapters yet', 'h2', 'w6')
            Text('A run leaves one when it ends: a new version, proven against its training.', 'p', 't2')
            Text(f'Or drop the adapter of somebody else here. {FORMATS}', 'p', 't3 t-small')
            with ui.element('div').classes('hs').style('justify-content: center; gap: 8px; margin-top: 8px'):
                Button('New run', icon='plus', kind='pri', on_click=lambda: ui.navigate.to('/train'))
                Button('Import an adapter', icon='upload').on('click', js_handler=self.upload.pick)

    def _fill_list(self) -> None:
        self._side.clear()
        chosen = self._seen.version.id if self._seen.version else ''
        with self._side:
            AdapterList(self._seen.named, chosen)

    def _fill_head(self, version: AdapterVersionView) -> None:
        self._head.clear()
        with self._head:
            Text(version.label, 'h2')
            if version.rank is not None:
                chip(f'LoRA rank {version.rank}', 'z-lg')
            chip(size(version.size), 'z-lg num hide-s')
            seal(version)
            spacer()
            with Button(icon='ellipsis', kind='icn', label='More'), ui.menu().classes('menu').props('auto-close'):
                self._item('Rename…', 'pencil', lambda: actions.rename(self._studio, version, self._again))
                self._item('Move to another name…', 'arrow-up-right', lambda: self._move(version))
                self._item('Delete…', 'trash-2', lambda: self._delete(version), 'c-bad')

    def _item(self, text: str, icon: str, on_click: Callable[[], Any], kind: str = '') -> None:
        with ui.menu_item(on_click=on_click).classes(f'mi {kind}'):
            Icon(icon, 'ic-s')
            Text(text)

    def _cards(self, version: AdapterVersionView) -> None:
        with ui.element('div').classes('dg'):
            self._proof = ProofPanel(self._studio, version, self._again)
            with ui.element('div').classes('first'):
                held_out_panel(self._studio, version, self._seen.run)
            with ui.element('div').classes('second'):
                lineage_panel(version, self._seen.run)
                notes_panel(version, self._annotate)
                files_panel(version)

    def _move(self, version: AdapterVersionView) -> None:
        names = [adapter.name for adapter in self._seen.named]
        actions.move(self._studio, version, names, self._again)

    async def _delete(self, version: AdapterVersionView) -> None:
        async def gone() -> None:
            seen = await background.io_bound(_read, self._studio, '')
            if seen is not None:
                self._seen = seen
                self._count.set_text(f'{seen.count:,}')
                self._draw()
                self._root.client.run_javascript('history.replaceState(history.state, "", "/adapters")')

        await actions.delete(self._studio, version, gone)

    async def _annotate(self, text: str) -> None:
        if self._seen.version is not None:
            await background.io_bound(self._studio.adapters.annotate, self._seen.version.id, text)

    async def _brought_in(self, done: Imported) -> None:
        ui.navigate.to(f'/adapters/{done.version.id}')

    async def _again(self) -> None:
        """Read everything anew and draw what differs."""
        await self._look()

    async def _look(self) -> None:
        chosen = self._seen.version.id if self._seen.version else ''
        found = await background.io_bound(_look, self._studio, chosen, self._seen)
        if found is None:
            return
        seen, job, waits_for = found
        before, self._seen = self._seen, seen
        if seen.named != before.named:
            self._count.set_text(f'{seen.count:,}')
            if not seen.named or not before.named or (seen.version is None) != (before.version is None):
                self._draw()
                return
            self._fill_list()
        if seen.version is not None and self._proof is not None:
            if before.version is None or _shown(seen.version) != _shown(before.version):
                self._fill_head(seen.version)
                self._proof.refresh(seen.version)
                if self._use is not None:
                    self._use.refresh(seen.version)
            self._proof.progress(job, waits_for)


def _shown(version: AdapterVersionView) -> tuple[object, ...]:
    return version.label, version.proof


def _look(studio: Studio, chosen: str, seen: Seen) -> tuple[Seen, SideJobView | None, str]:
    """What there is now, read anew only where something has changed."""
    same = studio.adapters.stamp() == seen.stamp
    return seen if same else _read(studio, chosen), studio.proofs.progress(chosen), studio.proofs.waits_for()


def _read(studio: Studio, asked: str) -> Seen:
    """What there is now; nothing asked for opens the newest version."""
    studio.adapters.keep_up()
    stamp = studio.adapters.stamp()
    named = tuple(studio.adapters.list())
    versions = [version for adapter in named for version in adapter.versions]
    fitting = [version for version in versions if asked in (version.id, version.run_id)] if asked else versions
    version = max(fitting, key=lambda one: (one.created_at, one.number), default=None)
    run = None
    if version is not None and version.run_id:
        try:
            run = studio.runs.get(version.run_id)
        except NotFound:  # deleted since; the version stays
            run = None
    return Seen(named, version, run, stamp)
