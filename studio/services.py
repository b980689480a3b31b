"""Every service of a studio, wired once: the app and the command line make exactly one ``Studio``."""

from __future__ import annotations

import fcntl
from io import TextIOWrapper

from studio.adapters.proofs import Proofs
from studio.adapters.service import Adapters
from studio.adapters.tryouts import Tryouts
from studio.adapters.use import AdapterUse
from studio.calibrations.service import Calibrations
from studio.documents.bulk import BulkDocuments
from studio.documents.certificates import Certificates
from studio.documents.service import Documents
from studio.documents.transfer import Transfer
from studio.launchers import LocalLauncher
from studio.runs.comparison import Comparison
from studio.runs.estimates import Estimates
from studio.runs.export import RunExport
from studio.runs.meters import Meters
from studio.runs.results import Results
from studio.runs.rollout_search import RolloutSearch
from studio.runs.service import Runs
from studio.security.keys import ApiKeys
from studio.security.sandbox_status import SandboxStatus
from studio.settings import Settings
from studio.store.database import Database
from studio.supervisor import Supervisor
from studio.variants.service import Variants
from studio.workspaces.final import FinalWorkspaces
from studio.workspaces.playground import Playground
from studio.workspaces.regrade import Regrades
from trainer.errors import ConfigError


class Studio:
    """The services over one data folder. Opening it brings the database up to date; ``start`` begins to watch runs."""

    def __init__(self, settings: Settings | None = None, *, launcher: LocalLauncher | None = None) -> None:
        self.settings = settings or Settings()
        self.settings.home.mkdir(parents=True, exist_ok=True)
        self.settings.runs_folder.mkdir(exist_ok=True)
        self.database = Database(self.settings.database_url)
        self.database.migrate()
        launcher = launcher or LocalLauncher()
        self.keys = ApiKeys(self.database, self.settings.secret)
        self.documents = Documents(self.database)
        self.bulk = BulkDocuments(self.database)
        self.transfer = Transfer(self.documents)
        self.runs = Runs(self.database, self.settings, launcher, self.documents)
        self.results = Results(self.database, self.settings.runs_folder)
        self.adapters = Adapters(self.database, self.settings.home / 'adapters', self.settings.runs_folder)
        self.proofs = Proofs(self.database, self.adapters, self.runs, self.settings)
        self.calibrations = Calibrations(self.database, self.settings, self.runs, self.adapters)
        self.comparison = Comparison(self.database, self.runs, self.results)
        self.export = RunExport(self.database, self.runs, self.results)
        self.workspaces = FinalWorkspaces(self.runs)
        self.regrades = Regrades(self.database, self.settings, self.runs)
        self.search = RolloutSearch(self.database, self.settings.runs_folder)
        self.meters = Meters(self.database)
        self.estimates = Estimates(self.database)
        self.certificates = Certificates(self.database, self.settings)
        self.sandbox = SandboxStatus(self.settings.sandbox)
        self.playground = Playground(self.settings.home, self.settings.sandbox, self.settings.packages)
        self.variants = Variants(self.database, self.documents, self.certificates)
        self.adapter_use = AdapterUse(self.settings.home)
        self.tryouts = Tryouts(self.settings.home, self.settings.sandbox)
        self.supervisor = Supervisor(
            self.database,
            self.runs,
            launcher,
            grace_s=self.settings.stop_grace_s,
            chores=(
                self.playground.sweep,
                self.tryouts.sweep,
                self.meters.sample,
                self.search.keep_up,
                self.adapters.keep_up,
                self.proofs.keep_up,
            ),
        )
        self._lock: TextIOWrapper | None = None

    def claim(self) -> None:
        """Take the data folder for this process. Raises ``ConfigError`` where another studio has it."""
        if self._lock is not None:
            return
        lock = (self.settings.home / 'studio.lock').open('a', encoding='utf-8')
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise ConfigError(
                f'Another studio works on {self.settings.home}',
                hint='Use that one, or give this one a data folder of its own: --home DIR.',
            ) from None
        self._lock = lock

    def start(self) -> None:
        """Begin to watch runs, finding again those that went on meanwhile."""
        self.claim()
        self.adapters.sweep()
        self.calibrations.recover()
        self.supervisor.start()

    def stop(self) -> None:
        """Stop watching and close the store; runs go on."""
        self.supervisor.stop()
        self.calibrations.close()
        self.proofs.close()
        self.meters.close()
        self.playground.close_all()
        self.tryouts.close()
        self.adapter_use.close()
        self.regrades.close()
        self.variants.close()
        self.sandbox.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        self.database.close()
