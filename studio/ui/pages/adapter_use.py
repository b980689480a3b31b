"""Using an adapter: try it, merge it into its base, serve it elsewhere, convert it, push it to a hub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from nicegui import run as background
from nicegui import ui

from studio.adapters import snippets
from studio.adapters.snippets import Snippet
from studio.adapters.use import AdapterSource, Merged
from studio.ui.components.elements import Button, Icon, Text, note, spacer
from studio.ui.components.segmented import Choice, Segmented
from studio.ui.pages.adapter_merge import MergeForm, made_row
from studio.ui.pages.adapter_push import PushForm
from studio.ui.theme import toast
from trainer.models import STARTER

if TYPE_CHECKING:
    from studio.services import Studio

SECTIONS: Final = (
    Choice('try', 'Try it', 'message-square-text'),
    Choice('serve', 'Serve', 'server'),
    Choice('merge', 'Merge', 'merge'),
    Choice('gguf', 'GGUF', 'package'),
    Choice('push', 'Push to hub', 'cloud-upload'),
)
WHY_NOT_HERE: Final = (
    'llama.cpp brings the converter, and no package of it is kept that fits beside the studio: run one of these on the '
    'merged folder.'
)
STARTER_NOT: Final = (
    'The converter knows tokenizers by their digest, and the one of the bundled starter model is not among them: it '
    'stops with "BPE pre-tokenizer was not recognized".'
)


def use_panel(studio: Studio, version_id: str) -> None:
    """Draw what can be done with a version of the registry, one section at a time."""
    UsePanel(studio, version_id)


class UsePanel:
    """The panel in one tab."""

    def __init__(self, studio: Studio, version_id: str) -> None:
        self._studio, self._version = studio, version_id
        self._source: AdapterSource | None = None
        self._merged: tuple[Merged, ...] = ()
        self._section = 'try'
        with ui.element('section').classes('card use').props('aria-label="Use it"'):
            with ui.element('div').classes('hd'):
                Icon('zap', 'lead')
                Text('Use it', 'h2')
                spacer()
                Segmented(SECTIONS, 'try', label='What to do with it', on_change=self._pick)
            self._body = ui.element('div').classes('bd')
        ui.timer(0, self._load, once=True)

    async def _load(self) -> None:
        self._source = await background.io_bound(read_version, self._studio, self._version)
        await self._read_merged()
        self._draw()

    async def _read_merged(self) -> None:
        if self._source is not None:
            self._merged = await background.io_bound(self._studio.adapter_use.merged, self._source) or ()

    async def _pick(self, section: str) -> None:
        self._section = section
        self._draw()

    async def _made(self) -> None:
        """A merge has ended: what it made belongs into the other sections too."""
        await self._read_merged()
        self._draw()

    def _draw(self) -> None:
        source = self._source
        if source is None:
            return
        self._body.clear()
        with self._body:
            match self._section:
                case 'try':
                    self._try(source)
                case 'serve':
                    self._serve(source)
                case 'merge':
                    MergeForm(self._studio.adapter_use, source, self._merged, on_made=self._made)
                case 'gguf':
                    self._gguf(source)
                case _:
                    PushForm(self._studio.adapter_use, source, self._merged)

    def _try(self, source: AdapterSource) -> None:
        Text('One task, base model and adapter side by side, played in sandboxes and shown turn by turn.', 'p', 't2')
        path = f'/try?adapter={quote(self._version)}' + (f'&run={quote(source.run_id)}' if source.run_id else '')
        with ui.element('div').classes('act'):
            Button('Try it', icon='play', on_click=lambda: ui.navigate.to(path))

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
