"""What every test shares: chance that repeats itself, one thread for numbers, sandboxes of its own, an order."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from trainer.sandbox.leftovers import remove_tree

# The same tree gives the same answer. To look for what is not known yet: HYPOTHESIS_PROFILE=explore.
settings.register_profile('suite', derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile('explore', deadline=None, max_examples=2000)
settings.load_profile(os.environ.get('HYPOTHESIS_PROFILE', 'suite'))

# Sums in one order on every machine; and several test processes share the cores.
os.environ.setdefault('OMP_NUM_THREADS', '1')


@pytest.fixture(scope='session', autouse=True)
def _own_sandboxes() -> Iterator[None]:
    """Folders and mounts of sandboxes where no other test process and no studio of the user sweeps or counts."""
    # As ``base_folder`` has it: who is told a name may enter, nobody else can look around.
    folder = Path(tempfile.mkdtemp(prefix='rlvr-tests-'))
    folder.chmod(0o711)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('XDG_RUNTIME_DIR', str(folder))
        yield
    remove_tree(folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that train come first, then those with a browser: files are shared out whole, the longest not last."""
    marks: dict[Path, set[str]] = {}
    for item in items:
        marks.setdefault(item.path, set()).update(mark.name for mark in item.iter_markers())
    items.sort(key=lambda item: ('train' not in marks[item.path], 'browser' not in marks[item.path]))
