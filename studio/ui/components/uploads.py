"""Text files from the desktop, picked or dropped with their folders: what is no text or too large is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

from nicegui import events, ui

from studio.ui import theme
from studio.ui.components.wording import plural, size
from trainer.paths import workspace_path

MAX_FILE_BYTES: Final = 1024**2
_TOO_LARGE: Final = f'larger than {size(MAX_FILE_BYTES)}: have a setup command make it'
_REJECTED: Final = '(entries) => emit(entries.map((entry) => [entry.file.name, entry.failedPropValidation]))'


class Refused(ValueError):
    """A file that cannot become a setup file; the message says why."""


class Uploads:
    """Two hidden uploaders; ``on_files`` gets ``{path: text}`` of what was taken.

    Dropped files come with percent-encoded paths, because a file name on the wire has no folders.
    """

    def __init__(self, on_files: Callable[[dict[str, str]], Any]) -> None:
        self._on_files = on_files
        self._picker = self._uploader(dropped=False)
        self._target = self._uploader(dropped=True)

    @property
    def pick(self) -> str:
        """JavaScript that lets the user pick files."""
        return f'() => runMethod({self._picker.id}, "pickFiles", [])'

    @property
    def drop_target(self) -> str:
        """What an element's ``data-drop`` is set to, so that files may be dropped on it (``editor.js``)."""
        return str(self._target.id)

    def _uploader(self, *, dropped: bool) -> ui.upload:
        async def uploaded(event: events.MultiUploadEventArguments) -> None:
            await self._take(event, decode=unquote if dropped else str)

        upload = ui.upload(
            multiple=True, auto_upload=True, max_file_size=MAX_FILE_BYTES, on_multi_upload=uploaded
        ).classes('hidden')
        upload.on('rejected', lambda event: _say([_rejected(*entry) for entry in event.args]), js_handler=_REJECTED)
        upload.on('failed', lambda: theme.toast('The upload was cut off', 'bad', detail='Try again.'), args=[])
        cleared_when_done(upload)
        return upload

    async def _take(self, event: events.MultiUploadEventArguments, *, decode: Callable[[str], str]) -> None:
        taken: dict[str, str] = {}
        refused: list[str] = []
        for file in event.files:
            name = decode(file.name)
            try:
                path = workspace_path(name)
                taken[path] = as_text(await file.read())
            except ValueError as error:
                refused.append(f'{name}: {error}')
        _say(refused)
        if taken:
            result = self._on_files(taken)
            if result is not None:
                await result


def cleared_when_done(upload: ui.upload) -> None:
    """Have the browser empty the queue once all is sent; asked for by a handler it would cut off its own answer."""
    upload.on('finish', js_handler=f'() => runMethod({upload.id}, "reset", [])')


def as_text(data: bytes) -> str:
    """The text of a file, byte for byte. Raises ``Refused``."""
    if len(data) > MAX_FILE_BYTES:
        raise Refused(f'{size(len(data))} is {_TOO_LARGE}')
    if b'\0' in data:
        raise Refused('binary; setup files are text. Have a setup command make it')
    try:
        return data.decode('utf-8')
    except UnicodeDecodeError:
        raise Refused('not UTF-8; save it as UTF-8 text first') from None


def _rejected(name: str, why: str) -> str:
    return f'{unquote(name)}: ' + (_TOO_LARGE if why == 'max-file-size' else f'not taken ({why})')


def _say(refused: list[str]) -> None:
    if refused:
        more = [f'and {len(refused) - 5} more'] if len(refused) > 5 else []
        theme.toast(f'{plural(len(refused), "file")} not added', 'bad', detail='\n'.join([*refused[:5], *more]))
