"""Bringing in adapters of others: a zip or the files of a folder, dropped on the page or picked."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from nicegui import events, ui
from nicegui import run as background

from studio.adapters.views import Imported
from studio.ui import theme
from studio.ui.components.uploads import cleared_when_done
from studio.ui.components.wording import plural, size
from trainer.errors import ConfigError, FieldError, RlvrError
from trainer.paths import workspace_path

if TYPE_CHECKING:
    from studio.services import Studio

MAX_BYTES: Final = 64 * 1024**2
FORMATS: Final = 'A zip, or the files that peft saved.'
LARGER: Final = f'Up to {size(MAX_BYTES)} here; a larger one comes in with: rlvr adapters import FILE'
Done = Callable[[Imported], Awaitable[Any]]


class AdapterUpload:
    """A hidden uploader. ``drop_target`` lets an element take drops, ``pick`` is the script that opens the picker."""

    def __init__(self, studio: Studio, done: Done) -> None:
        self._studio, self._done = studio, done
        self._upload = ui.upload(
            multiple=True, auto_upload=True, max_total_size=MAX_BYTES, on_multi_upload=self._uploaded
        ).classes('hidden')
        cleared_when_done(self._upload)
        self._upload.on('rejected', lambda: theme.toast('The files were not taken', 'bad', detail=LARGER), args=[])
        self._upload.on('failed', lambda: theme.toast('The upload was cut off', 'bad', detail=LARGER), args=[])

    @property
    def pick(self) -> str:
        """JavaScript that lets the user pick files."""
        return f'() => runMethod({self._upload.id}, "pickFiles", [])'

    @property
    def drop_target(self) -> str:
        """What an element's ``data-drop`` is set to (``editor.js``)."""
        return str(self._upload.id)

    async def _uploaded(self, event: events.MultiUploadEventArguments) -> None:
        client = ui.context.client
        try:
            with tempfile.TemporaryDirectory(prefix='rlvr-adapter-') as folder:
                source, name = await _save(event.files, Path(folder))
                done = await background.io_bound(lambda: self._studio.adapters.bring_in(source, name=name))
        except RlvrError as error:  # what was uploaded is wrong: that is told here, and nothing for the log
            with client.layout:
                theme.show_error(error)
            return
        if done is None:
            return
        with client.layout:
            left = f'Left out: {", ".join(done.left_out[:5])}' if done.left_out else ''
            theme.toast(f'{done.version.label} is imported', detail=left)
            await self._done(done)


async def _save(files: Sequence[Any], folder: Path) -> tuple[Path, str]:
    """Put uploaded files on disk; return the zip or folder to import, and a name for it.

    Dropped files come with percent-encoded paths, because a file name on the wire has no folders.
    """
    names = [unquote(file.name) for file in files]
    zips = [name for name in names if name.lower().endswith('.zip')]
    if zips and len(names) > 1:
        raise ConfigError(
            f'{plural(len(names), "file")} at once, {zips[0]} among them',
            [FieldError(loc=zips[0], msg='must be alone')],
            hint='Import one zip, or the files of one adapter.',
        )
    for file, name in zip(files, names, strict=True):
        try:
            path = folder / 'files' / workspace_path(name)
        except ValueError as error:
            raise ConfigError(f'{name}: {error}', [FieldError(loc=name[:200], msg=str(error))]) from None
        path.parent.mkdir(parents=True, exist_ok=True)
        await file.save(path)
    first = Path(names[0])
    if zips:
        return folder / 'files' / workspace_path(names[0]), first.stem
    return folder / 'files', first.parts[0] if len(first.parts) > 1 else 'Imported adapter'
