"""Wires the studio once and serves it: services, pages, files, guards."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from typing import TYPE_CHECKING

from trainer import __version__
from trainer.errors import ConfigError

if TYPE_CHECKING:
    from nicegui import App
    from starlette.types import ASGIApp

    from studio.settings import Settings


def run(settings: Settings) -> None:
    """Serve the studio until it is stopped. Raises ``ConfigError`` where the port cannot be used."""
    claim_port(settings.host, settings.port)
    settings.home.mkdir(parents=True, exist_ok=True)
    # NiceGUI opens its storage folder when it is imported, and takes the current folder if it is not told.
    os.environ['NICEGUI_STORAGE_PATH'] = str(settings.home / 'browser')
    from nicegui import app, ui

    from studio.api.app import KEYED, PATHS, build
    from studio.security.guards import protect
    from studio.security.login import Login
    from studio.services import Studio
    from studio.ui import layout, theme
    from studio.ui.downloads import add_downloads
    from studio.ui.pages import PAGES

    studio = Studio(settings)
    studio.claim()
    app.on_startup(studio.start)
    app.on_shutdown(studio.stop)
    login, api = Login(settings), build(studio)
    apart: dict[str, ASGIApp] = dict.fromkeys(PATHS, api)
    doors = ('login', 'logout') if settings.is_wide else ()
    protect(app, settings, {**apart, **dict.fromkeys(doors, login.app())}, {*KEYED, *doors}, login)
    theme.serve_assets()
    _add_health(app)
    add_downloads(studio)
    logging.getLogger('uvicorn.error').addFilter(_somebody_stayed)
    if settings.is_wide:
        sys.stderr.write(_warning(settings))
    app.on_startup(lambda: sys.stderr.write(_welcome(settings)))
    ui.run(
        lambda: layout.root(studio, PAGES),
        host=settings.host,
        port=settings.port,
        title='RLVR Studio',
        favicon=theme.ASSETS / 'icons' / 'favicon.svg',
        reload=False,
        show=settings.open_browser,
        native=settings.native,
        dark=None,
        tailwind=False,
        language='en-US',
        storage_secret=settings.secret,
        reconnect_timeout=30.0,
        show_welcome_message=False,
        binding_refresh_interval=0.5,
    )


def claim_port(host: str, port: int) -> None:
    """Make sure that the port is free. Raises ``ConfigError`` that says how to get another one."""
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ConfigError(
                    f'Port {port} is in use: the studio may already run at http://{host}:{port}.',
                    hint=f'Open that address, or choose another port: rlvr studio --port {port + 1}',
                ) from error
            raise ConfigError(
                f'Cannot listen on {host}:{port}: {error.strerror}.', hint='Choose another --host or --port.'
            ) from error


def _welcome(settings: Settings) -> str:
    """Where the studio is: a browser may not open by itself, and a terminal that says nothing looks stuck."""
    host = f'[{settings.host}]' if ':' in settings.host else settings.host
    return (
        f'RLVR Studio is at http://{host}:{settings.port}\n'
        f'Data: {settings.home}. Ctrl+C ends the studio; runs go on without it.\n'
    )


def _warning(settings: Settings) -> str:
    """What listening beyond this machine means. The token is shown to people only: a log is no place for it."""
    where = f'the studio listens on {settings.host}'
    if settings.names:
        where += f' and answers as {", ".join(settings.names)}'
    token = settings.login_token if sys.stderr.isatty() else 'printed by `rlvr keys login`'
    return (
        f'Warning: {where}. Who logs in can run code on this machine, and nothing on the way is encrypted by the '
        'studio: on a network you do not trust, use an SSH tunnel or a proxy with TLS.\n'
        f'Token to log in: {token}\n'
    )


def _somebody_stayed(record: logging.LogRecord) -> bool:
    """Leave out what Starlette reports, with a traceback, when a browser goes away in the middle of a request."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, RuntimeError) and str(error) == 'No response returned.')


def _add_health(studio_app: App) -> None:
    @studio_app.get('/healthz')
    def healthz() -> dict[str, str]:
        return {'status': 'ok', 'version': __version__}
