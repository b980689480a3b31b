"""Every service of a studio, wired once: the app and the command line make exactly one ``Studio``."""

from __future__ import annotations

from studio.documents import Documents
from studio.settings import Settings
from studio.store.database import Database


class Studio:
    """The services over one data folder. Opening it brings the database up to date."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.settings.home.mkdir(parents=True, exist_ok=True)
        self.database = Database(self.settings.database_url)
        self.database.migrate()
        self.documents = Documents(self.database)
