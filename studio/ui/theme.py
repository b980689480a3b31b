"""Looks: style sheets, the sprite, dark mode, and the two ways to tell the user something (toast, confirm)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nicegui import app, ui

from studio.ui.components.elements import sprite
from trainer.errors import FieldsError, RlvrError

ASSETS = Path(__file__).resolve().parents[2] / 'assets'
STYLES = (
    'css/base.css',
    'css/tokens.css',
    'css/quasar.css',
    'css/studio.css',
    'css/studio-runs.css',
    'css/studio-adapters.css',
    'css/studio-launch.css',
    'css/studio-watch.css',
    'css/studio-compare.css',
    'css/studio-editor.css',
    'css/studio-tasks.css',
    'css/studio-import.css',
    'css/studio-tiers.css',
    'css/studio-try.css',
    'css/studio-regrade.css',
)
SCRIPTS = ('js/cells.js', 'js/shell.js', 'js/rows.js', 'js/actions.js', 'js/editor.js', 'js/watch.js')
REPEAT_S = 60
TOAST_S, UNDO_S = 4.0, 8.0
TOAST_ICONS = {'ok': 'circle-check', 'warn': 'triangle-alert', 'bad': 'circle-alert'}

logger = logging.getLogger(__name__)


# Quasar calls the entries of its menus list items, which a menu cannot hold.
ui.menu_item.default_props('role=menuitem')


def serve_assets() -> None:
    """Serve fonts, styles and icons, and link the styles from every page."""
    app.add_static_files('/assets/css/fonts', ASSETS / 'fonts')
    for folder in ('css', 'icons', 'js'):
        app.add_static_files(f'/assets/{folder}', ASSETS / folder)
    links = [f'<link rel="stylesheet" href="{_stamped(name)}">' for name in STYLES]
    scripts = [f'<script src="{_stamped(name)}" defer></script>' for name in SCRIPTS]
    ui.add_head_html('\n'.join(links + scripts), shared=True)


def dark_mode() -> ui.dark_mode:
    """Follow the system until the user picks a side; the choice is kept per browser."""
    return ui.dark_mode(app.storage.user.setdefault('dark', None)).bind_value_from(app.storage.user, 'dark')


def toast(message: str, kind: str = 'ok', *, detail: str = '', undo: Callable[[], Any] | None = None) -> None:
    """Report the result of something the user did: ``ok`` goes after 4 s, ``bad`` stays until dismissed."""
    note = ui.notification(
        message,
        icon=sprite(TOAST_ICONS[kind]),
        classes=kind,
        position='bottom-right',
        timeout=None if kind == 'bad' else (UNDO_S if undo else TOAST_S),
        caption=detail,
        close_button='Dismiss' if kind == 'bad' else False,
    )
    if undo is not None:
        handler = f'() => getElement({note.id}).$emit("undo")'
        note.props['options']['actions'] = [{'label': 'Undo', 'flat': True, 'noCaps': True, ':handler': handler}]
        note.on('undo', undo, args=[])


def show_error(error: Exception) -> None:
    """Tell the user what happened and what to do; the one place where errors of pages arrive."""
    message, detail = 'Something in the studio broke', f'{type(error).__name__}: {error}. The log has the trace.'
    if isinstance(error, RlvrError):
        fields = [f'{field.loc}: {field.msg}' for field in error.fields] if isinstance(error, FieldsError) else []
        message, detail = error.message, error.hint or '\n'.join(fields[:5])
    else:
        logger.error('A page failed', exc_info=error)
    # What a timer meets again and again is said once, until something else happens.
    told = app.storage.client.get('told')
    if told is None or told[0] != message or time.monotonic() - told[1] > REPEAT_S:
        app.storage.client['told'] = (message, time.monotonic())
        toast(message, 'bad', detail=detail)


def _stamped(name: str) -> str:
    stamp = int((ASSETS / name).stat().st_mtime)
    return f'/assets/{name}?v={stamp}'
