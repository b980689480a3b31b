"""Settings of the studio: ``RLVR_*`` environment variables, overridden by the command line; and its data folder."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import platformdirs
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from trainer.sandbox import Isolation


class Settings(BaseSettings):
    """Where the studio listens, where it keeps its data, and what it may do."""

    model_config = SettingsConfigDict(env_prefix='RLVR_', frozen=True, extra='ignore')

    host: str = Field(default='127.0.0.1', description='Address to listen on; other machines reach only 0.0.0.0.')
    port: int = Field(default=8080, ge=1, le=65535)
    home: Path = Field(
        default_factory=lambda: platformdirs.user_data_path('rlvr-studio'), description='Folder of all data.'
    )
    open_browser: bool = Field(default=True, description='Open a browser window at start.')
    native: bool = Field(default=False, description='Show the studio in its own window instead of a browser.')
    unsafe_sandbox: bool = Field(default=False, description='Run model-written code without isolation.')
    isolation: Isolation = Field(
        default='bubblewrap', description='Isolation of model-written code; landlock is weaker, unsafe is none.'
    )
    database: str = Field(default='', description='SQLAlchemy URL; empty: a SQLite file in the data folder.')
    stop_grace_s: float = Field(
        default=8.0, ge=0, le=3600, description='Seconds a trainer gets to end by itself when it is stopped.'
    )

    @property
    def sandbox(self) -> Isolation:
        """The isolation that was asked for; only bubblewrap needs no asking."""
        return 'unsafe' if self.unsafe_sandbox else self.isolation

    @property
    def database_url(self) -> str:
        """SQLAlchemy URL of the store."""
        return self.database or f'sqlite:///{self.home / "studio.db"}'

    @property
    def runs_folder(self) -> Path:
        """Where run folders are made; their names are ids, never titles."""
        return self.home / 'runs'

    @property
    def secret(self) -> str:
        """Key that signs browser sessions; made once and kept in the data folder, readable by its owner only."""
        path = self.home / 'secret'
        self.home.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return path.read_text(encoding='ascii').strip()
        with os.fdopen(descriptor, 'w', encoding='ascii') as file:
            file.write(secrets.token_urlsafe(32))
        return self.secret
