"""Where else the numbers of a run go: trackers, and why one that was asked for cannot be used here.

Part of the light half: it looks for packages and imports none. Keys of a service come from the environment, or from
where its own login left them; they reach only runs that report there, and are written nowhere.
"""

from __future__ import annotations

import importlib.util
import netrc
import os
from collections.abc import Iterable, Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

Tracker = Literal['trackio', 'wandb', 'tensorboard']

PACKAGES: Final[Mapping[Tracker, tuple[str, ...]]] = {
    'trackio': ('trackio',),
    'wandb': ('wandb',),
    'tensorboard': ('tensorboardX', 'tensorboard'),
}
"""Any of these serves a tracker; the first is the one to install."""
PREFIXES: Final[Mapping[Tracker, str]] = {'trackio': 'TRACKIO_', 'wandb': 'WANDB_', 'tensorboard': 'TENSORBOARD_'}
"""How the environment variables that a tracker reads begin."""
WANDB_KEY: Final = 'WANDB_API_KEY'
OFFLINE: Final = frozenset({'offline', 'disabled', 'dryrun'})


def obstacle(tracker: Tracker) -> str:
    """Why a tracker cannot be used on this machine and what to do, or empty."""
    packages = PACKAGES[tracker]
    if not any(map(_installed, packages)):
        return f'{tracker} is not installed here: pip install {packages[0]}'
    if tracker == 'wandb' and os.environ.get('WANDB_MODE') not in OFFLINE and not _has_wandb_key():
        return (
            f'wandb needs a key: run "wandb login", or set {WANDB_KEY} in the environment of the studio; '
            'WANDB_MODE=offline keeps all of it local'
        )
    return ''


def variables(trackers: Iterable[Tracker], source: Mapping[str, str]) -> dict[str, str]:
    """What of an environment these trackers need, keys of their services included."""
    prefixes = tuple(PREFIXES[tracker] for tracker in trackers)
    return {name: value for name, value in source.items() if prefixes and name.startswith(prefixes)}


def _has_wandb_key() -> bool:
    """Whether there is a key in the environment, or one that ``wandb login`` left."""
    if os.environ.get(WANDB_KEY):
        return True
    host = urlsplit(os.environ.get('WANDB_BASE_URL', 'https://api.wandb.ai')).hostname
    try:
        return host in netrc.netrc().hosts
    except (OSError, netrc.NetrcParseError):
        return False


def _installed(package: str) -> bool:
    found = importlib.util.find_spec(package)
    # A folder of that name somewhere on the path is no package.
    return found is not None and found.origin is not None
