"""Using an adapter: try it, merge it into its base, serve it elsewhere, convert it, push it to a hub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from nicegui import run as background
from nicegui import ui

from studio.adapters import snippets
from studio.adapters.snippets import Snippet
from studio.adapters.use import MERGE, PUSH, AdapterSource, Merged
from studio.adapters.views import AdapterVersionView
from studio.ui.components.elements import Button, Icon, Text, note, spacer
from studio.ui.components.panel import panel
from studio.ui.components.segmented import Choice
from studio.ui.pages.adapter_merge import MergeForm, made_row
from studio.ui.pages.adapter_push import PushForm
from studio.ui.theme import toast
from trainer.models import STARTER

if TYPE_CHECKING:
    from studio.services import Studio

SECTIONS: Final = (
    Choice('serve', 'Serve', 'server'),
    Choice('merge', 'Merge', 'merge'),
    Choice('gguf', 'GGUF', 'package'),
    Choice('push', 'Push to hub', 'cloud-upload'),
)
"""What opens below the row, in its order; the download stands after the first."""
_JOBS: Final = (('merge', MERGE), ('push', PUSH))
WHY_NOT_HERE: Final = (
    'llama.cpp brings the converter, and no package of it is kept that fits beside the studio: run one of these on the '
    'merged folder.'
)
STARTER_NOT: Final = (
    'The converter knows tokenizers by their digest, and the one of the bundled starter model is not among them: it '
    'stops with "BPE pre-tokenizer was not recognized".'
)


class UseRow:
    """What can be done with a version, in one row: what takes more than a click opens below it, one at a time.

    A merge or a push that is under way is open from the start.
    """

    def __init__(self, studio: Studio, version: AdapterVersionView) -> None:
        self._studio, self._version = studio, version
        self._source: AdapterSource | None = None
        self._merged: tuple[Merged, ...] = ()
        self._section = ''
        self._buttons: dict[str, Button] = {}
        with ui.element('div').classes('uses').props('role=group aria-label="Use it"'):
            path = f'/try?adapter={quote(version.id)}' + (f'&run={quote(version.run_id)}' if version.run_id else '')
            self._try = _link('Try it', 'message-square-text', path)
            self._try.props['title'] = 'One task, base model and adapter side by side, turn by turn'
            for number, choice in enumerate(SECTIONS):
                if number == 1:
                    _link('Download', 'download', f'/adapters/{version.id}/download').props('download')
                button = Button(choice.label, icon=choice.icon, on_click=partial(self._pick, choice.value))
                self._buttons[choice.value] = button.props('aria-expanded=false')
        self._place = ui.element('div')
        self.refresh(version)
        ui.timer(0, self._load, once=True)

    def refresh(self, version: AdapterVersionView) -> None:
        """Say by the look of the first button whether it may be used: not where its proof has failed."""
        may = version.proof.state != 'failed'
        self._try.classes(add='pri') if may else self._try.classes(remove='pri')

    async def _load(self) -> None:
        source = await background.io_bound(read_version, self._studio, self._version.id)
        if source is None or self._place.is_deleted:
            return
        self._source = source
        await self._read_merged()
        jobs = self._studio.adapter_use.jobs
        for section, kind in _JOBS:
            job = jobs.latest(kind, str(source.folder))
            if not self._section and job is not None and job.state == 'running':
                self._section = section
        self._draw()

    async def _read_merged(self) -> None:
        if self._source is not None:
            self._merged = await background.io_bound(self._studio.adapter_use.merged, self._source) or ()

    def _pick(self, section: str) -> None:
        """Open a section; what is open already is closed."""
        self._section = '' if section == self._section else section
        self._draw()

    def _close(self) -> None:
        ui.run_javascript(f'getHtmlElement({self._buttons[self._section].id})?.focus()')
        self._pick(self._section)

    async def _made(self) -> None:
        """A merge has ended: what it made belongs into the other sections too."""
        await self._read_merged()
        self._draw()

    def _draw(self) -> None:
        for name, button in self._buttons.items():
            button.props(f'aria-expanded={"true" if name == self._section else "false"}')
        self._place.clear()
        choice = next((one for one in SECTIONS if one.value == self._section), None)
        if self._source is None or choice is None:
            return
        with self._place, panel(choice.label, icon=choice.icon, classes='use') as head:
            with head:
                spacer()
                Button(icon='x', kind='gho icn sm', label='Close', key='escape', on_click=self._close)
            with ui.element('div').classes('bd'):
                self._fill(self._source)

    def _fill(self, source: AdapterSource) -> None:
        match self._section:
            case 'serve':
                self._serve(source)
            case 'merge':
                MergeForm(self._studio.adapter_use, source, self._merged, on_made=self._made)
            case 'gguf':
                self._gguf(source)
            case _:
                PushForm(self._studio.adapter_use, source, self._merged)

    def _serve(self, source: AdapterSource) -> None:
        draw_snippet(snippets.vllm_lora(source.model, source.folder, source.name))
        draw_snippet(snippets.python_peft(source.model, source.folder))
        if not self._merged:
            Text('Merge it to serve one model without an adapter.', 'p', 't3 t-small')
            return
        folder = self._merged[0].folder
        draw_snippet(snippets.vllm_merged(folder, source.name))
        draw_snippet(snippets.python_merged(folder))

    def _gguf(self, source: AdapterSource) -> None:
        if source.model == STARTER.id:
            note(STARTER_NOT, 'warn', icon='triangle-alert')
        Text(WHY_NOT_HERE, 'p', 't2')
        if self._merged:
            folder = self._merged[0].folder
            made_row(self._merged[0])
        else:
            folder = self._studio.adapter_use.default_target(source, 'float32')
            note('The commands name where a merge would go.', icon='info', lead='Merge it first.')
        draw_snippets(snippets.gguf(folder, source.name))
        draw_snippet(snippets.gguf_lora(source.model, source.folder, source.name))


def read_version(studio: Studio, version_id: str) -> AdapterSource:
    """A version of the registry as what can be merged, served and pushed. Raises ``NotFound``."""
    version = studio.adapters.get(version_id)
    tasks = studio.settings.runs_folder / version.run_id / 'manifest.jsonl' if version.run_id else None
    return AdapterSource(
        name=version.label,
        model=version.model,
        folder=Path(version.path),
        run_id=version.run_id or '',
        tasks=tasks if tasks is not None and tasks.is_file() else None,
    )


def _link(text: str, icon: str, path: str) -> ui.element:
    with ui.element('a').classes('btn') as link:
        link.props['href'] = path
        Icon(icon)
        Text(text)
    return link


def draw_snippets(found: Sequence[Snippet]) -> None:
    """Draw several things to copy."""
    for one in found:
        draw_snippet(one)


def draw_snippet(snippet: Snippet) -> None:
    """Draw something to copy, with a button that does."""
    with ui.element('div').classes('snip'):
        with ui.element('div').classes('hs'):
            Text(snippet.title, classes='w5 t-small ell sp')
            Button('Copy', icon='copy', kind='gho xs', label=f'Copy: {snippet.title}', on_click=_copier(snippet.text))
        code = Text(snippet.text.rstrip('\n'), 'div', 'code').props('tabindex=0 role=region')
        code.props['aria-label'] = snippet.title
        if snippet.note:
            Text(snippet.note, 'div', 'hint')


def _copier(text: str) -> Callable[[], None]:
    def copy() -> None:
        ui.clipboard.write(text)
        toast('Copied')

    return copy
