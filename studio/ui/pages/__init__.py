"""The pages: one module with one ``page(...)`` function each. Query parameters are the arguments with a default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from studio.ui.pages import (
    adapter_compare,
    adapters,
    compare,
    editor,
    launch,
    library,
    models,
    regrade,
    rollout,
    rollouts,
    run,
    run_tasks,
    runs,
    settings,
    templates,
    try_it,
    variants,
)

PAGES: Final[dict[str, Callable[..., Any]]] = {
    '/': library.page,
    '/tasks/{task_id}': editor.page,
    '/tasks/{task_id}/variants': variants.page,
    '/templates': templates.page,
    '/train': launch.page,
    '/runs': runs.page,
    '/runs/{run_id}': run.page,
    '/runs/{run_id}/tasks': run_tasks.page,
    '/runs/{run_id}/regrade': regrade.page,
    '/runs/{run_id}/rollouts': rollouts.page,
    '/runs/{run_id}/rollouts/{rollout_id}': rollout.page,
    '/compare': compare.page,
    '/adapters': adapters.page,
    '/adapters/{version_id}': adapters.page,
    '/adapters/{a}/compare/{b}': adapter_compare.page,
    '/try': try_it.page,
    '/models': models.page,
    '/settings': settings.page,
}
"""Every path of the app and the function that draws it."""
