"""What a browser can download from the pages: adapters, logs, numbers of runs, final workspaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from fastapi import HTTPException
from fastapi.responses import FileResponse, Response, StreamingResponse
from nicegui import app

from studio.runs.comparison import MOST
from studio.runs.export import File, Format
from trainer.errors import RlvrError

if TYPE_CHECKING:
    from studio.services import Studio

AS_SAID: Final = {'X-Content-Type-Options': 'nosniff'}
"""A browser takes the file for what it is said to be, whatever a model wrote into it."""


def add_downloads(studio: Studio) -> None:
    """Serve them; what is not there is a 404 with the reason."""

    @app.get('/adapters/{id}/download')
    def download_adapter(id: str) -> FileResponse:
        """The adapter of this id, or the newest that the run of this id left."""
        with _or_not_found():
            studio.adapters.keep_up()
            version = studio.adapters.find(id)
            path = studio.adapters.zip(version.id)
        return FileResponse(path, filename=f'{version.file_name}.zip', media_type='application/zip')

    @app.get('/runs/{run_id}/trainer.log')
    def show_log(run_id: str) -> StreamingResponse:
        with _or_not_found():
            path = studio.runs.log_path(run_id)
        # Not a FileResponse: that promises a length, and a log may grow while it is read.
        return StreamingResponse(_pieces(path), media_type='text/plain; charset=utf-8', headers=AS_SAID)

    @app.get('/runs/{run_id}/metrics.{format}')
    def download_metrics(run_id: str, format: Format) -> StreamingResponse:
        with _or_not_found():
            return _streamed(studio.export.file(run_id, format))

    @app.get('/compare/metrics.{format}')
    def download_compared(format: Literal['csv', 'json'], runs: str = '') -> StreamingResponse:
        ids = [id for id in runs.split(',') if id][:MOST]
        if not ids:
            raise HTTPException(400, 'Name the runs: ?runs=a,b')
        with _or_not_found():
            return _streamed(studio.export.compared(ids, format))

    @app.get('/runs/{run_id}/rollouts/{rollout_id}/workspace.zip')
    def download_workspace(run_id: str, rollout_id: int) -> Response:
        with _or_not_found():
            data = studio.workspaces.zip(run_id, rollout_id)
        return Response(data, media_type='application/zip', headers=_named(f'workspace-{rollout_id}.zip'))


@contextmanager
def _or_not_found() -> Iterator[None]:
    try:
        yield
    except RlvrError as error:
        raise HTTPException(404, f'{error.message} {error.hint}'.strip()) from error


def _streamed(file: File) -> StreamingResponse:
    return StreamingResponse(file.pieces, media_type=file.media_type, headers=_named(file.name))


def _named(name: str) -> dict[str, str]:
    """Headers of a file to be kept; ``name`` is ours and holds nothing that would have to be quoted."""
    return {'Content-Disposition': f'attachment; filename="{name}"', **AS_SAID}


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open('rb') as file:
        while piece := file.read(256 * 1024):
            yield piece
