"""The final workspace of a rollout as a zip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import HTTPException
from fastapi.responses import Response
from nicegui import app

from trainer.errors import RlvrError

if TYPE_CHECKING:
    from studio.services import Studio


def add_workspace_routes(studio: Studio) -> None:
    """Serve ``/runs/{id}/rollouts/{id}/workspace.zip``."""

    @app.get('/runs/{run_id}/rollouts/{rollout_id}/workspace.zip')
    def download_workspace(run_id: str, rollout_id: int) -> Response:
        try:
            data = studio.workspaces.zip(run_id, rollout_id)
        except RlvrError as error:
            raise HTTPException(404, f'{error.message} {error.hint}'.strip()) from error
        name = f'workspace-{rollout_id}.zip'
        headers = {'Content-Disposition': f'attachment; filename="{name}"', 'X-Content-Type-Options': 'nosniff'}
        return Response(data, media_type='application/zip', headers=headers)
