"""Downloads of the numbers of runs: of one in any format, of those compared as one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from fastapi import HTTPException
from fastapi.responses import StreamingResponse
from nicegui import app

from studio.comparison import MOST
from studio.run_export import File, Format
from trainer.errors import RlvrError

if TYPE_CHECKING:
    from studio.services import Studio


def add_metric_routes(studio: Studio) -> None:
    """Serve ``/runs/{id}/metrics.{format}`` and ``/compare/metrics.{format}?runs=a,b``."""

    @app.get('/runs/{run_id}/metrics.{format}')
    def download_metrics(run_id: str, format: Format) -> StreamingResponse:
        return _streamed(lambda: studio.export.file(run_id, format))

    @app.get('/compare/metrics.{format}')
    def download_compared(format: Literal['csv', 'json'], runs: str = '') -> StreamingResponse:
        ids = [id for id in runs.split(',') if id][:MOST]
        if not ids:
            raise HTTPException(400, 'Name the runs: ?runs=a,b')
        return _streamed(lambda: studio.export.compared(ids, format))


def _streamed(make: Callable[[], File]) -> StreamingResponse:
    try:
        file = make()
    except RlvrError as error:
        raise HTTPException(404, f'{error.message} {error.hint}'.strip()) from error
    headers = {'Content-Disposition': f'attachment; filename="{file.name}"', 'X-Content-Type-Options': 'nosniff'}
    return StreamingResponse(file.pieces, media_type=file.media_type, headers=headers)
