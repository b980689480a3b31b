"""Settings of the studio: ``RLVR_*`` environment variables, overridden by the command line; and its data folder."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import platformdirs
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from trainer.requirements import parse_requirements
from trainer.sandbox import Isolation
from trainer.sandbox.python_env import PythonEnvironment, package_environment


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
    names: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description='More host names it answers under, as behind a proxy with TLS; separated by blanks. '
        'Whoever comes has to log in then.',
    )
    packages: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description='Python packages of the playground, of certificates and of check, attempt and evaluate; '
        'separated by blanks, under the rules of pipPackages.',
    )
    database: str = Field(default='', description='SQLAlchemy URL; empty: a SQLite file in the data folder.')
    runs_at_once: int = Field(
        default=1, ge=1, le=64, description='Runs that may work at the same time; GPUs are dealt out among them.'
    )
    stop_grace_s: float = Field(
        default=8.0, ge=0, le=3600, description='Seconds a trainer gets to end by itself when it is stopped.'
    )

    @field_validator('names', 'packages', mode='before')
    @classmethod
    def _split(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return json.loads(value) if value.lstrip().startswith('[') else value.split()

    @field_validator('packages')
    @classmethod
    def _only_named_packages(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return parse_requirements(value)

    def python(self, report: Callable[[str], None] | None = None) -> PythonEnvironment:
        """The Python inside sandboxes outside of runs; installs ``packages`` once. Raises ``SandboxError``."""
        return package_environment(self.home, self.packages, report=report)

    @field_validator('names')
    @classmethod
    def _only_host_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not re.fullmatch(r'[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*', name):
                raise ValueError(f'{name!r} is no host name: give it without scheme and port')
        return value

    @property
    def is_wide(self) -> bool:
        """Whether others than the programs of this machine may reach it: they log in, and the API takes keys only."""
        return bool(self.names) or not is_loopback(self.host)

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
        return kept_secret(self.home / 'secret')

    @property
    def login_token(self) -> str:
        """What opens the studio from other machines; made once and kept in the data folder."""
        return kept_secret(self.home / 'login-token')


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine alone."""
    if host == 'localhost':
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def kept_secret(path: Path, *, anew: bool = False) -> str:
    """The secret in a file that only its owner can read, made where there is none, or ``anew``."""
    if not path.exists() or anew:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f'.{path.name}.{secrets.token_hex(8)}')
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, 'w', encoding='ascii') as file:
            file.write(secrets.token_urlsafe(32))
        # Whole or not at all, and the first of two that make it at once stays.
        if anew:
            partial.replace(path)
        else:
            try:
                os.link(partial, path)
            except FileExistsError:
                pass
            except OSError:  # a file system without links
                partial.replace(path)
            partial.unlink(missing_ok=True)
    return path.read_text(encoding='ascii').strip()
