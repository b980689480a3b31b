"""Packages of a run, put into an environment for sandboxes by pip: from wheels alone, never into the trainer.

A wheel is unpacked, a source package is built, and building runs its code outside of every sandbox: so only wheels
are taken. pip is the studio's own, works for the sandboxes' interpreter, and obeys the user's pip configuration.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from trainer.errors import PackagesFailed, RlvrError

LIMIT_S: Final = 900.0
"""Seconds that the installation of one set may take."""
POLL_S: Final = 0.1

_KEPT: Final = ('PATH', 'HOME', 'TMPDIR', 'LANG', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'REQUESTS_CA_BUNDLE')
_KEPT_STARTS: Final = ('PIP_', 'XDG_', 'LC_')
_DROPPED: Final = ('PIP_TARGET', 'PIP_PREFIX', 'PIP_ROOT', 'PIP_USER', 'PIP_PYTHON', 'PIP_REQUIREMENT')
"""Settings that would put packages somewhere else, or bring more of them."""


class InstallStopped(RlvrError):
    """Somebody asked the run to stop while its packages were being installed."""


def install(
    environment: Path, site: Path, packages: Sequence[str], *, pinned: str, seen_at: str, stop: Callable[[], bool]
) -> None:
    """Install ``packages`` beside ``pinned`` into a virtual environment that sandboxes will see at ``seen_at``.

    Raises ``PackagesFailed`` with pip's own words, ``InstallStopped``.
    """
    # From an empty folder: no file lying about can be taken for a package.
    with tempfile.TemporaryDirectory(prefix='rlvr-pip-') as empty, tempfile.TemporaryFile() as output:
        command = [
            *(sys.executable, '-m', 'pip', '--python', str(environment / 'bin' / 'python3')),
            *('--disable-pip-version-check', '--no-input', '--no-color'),
            *(
                'install',
                '--only-binary',
                ':all:',
                '--no-compile',
                '--no-warn-script-location',
                '--progress-bar',
                'off',
            ),
            *('--', pinned, *packages),
        ]
        began = time.monotonic()
        pip = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=empty,
            env=_environment(os.environ),
            start_new_session=True,
        )
        try:
            while pip.poll() is None:
                if stop():
                    raise InstallStopped('stopped while packages were being installed')
                if time.monotonic() - began > LIMIT_S:
                    raise PackagesFailed(
                        f'pip did not install the packages within {LIMIT_S:g} s: {", ".join(packages)}',
                        hint='Check the network, or ask for fewer packages; a later run goes on from what pip cached.',
                    )
                time.sleep(POLL_S)
        finally:
            if pip.poll() is None:
                os.killpg(pip.pid, signal.SIGKILL)
                pip.wait()
        output.seek(0)
        said = output.read().decode('utf-8', 'replace')
    if pip.returncode:
        raise PackagesFailed(f'pip could not install the packages: {_reason(said)}', hint=_hint(said, pinned))
    _require(site, packages)
    _point_scripts(environment, seen_at)


def installed(site: Path) -> tuple[str, ...]:
    """What is installed in a site-packages folder, as sorted ``name==version``."""
    return tuple(sorted(f'{name}=={version}' for name, version in _versions(site).items()))


def _versions(site: Path) -> dict[str, str]:
    return {canonicalize_name(item.name): item.version for item in metadata.distributions(path=[str(site)])}


def _environment(source: Mapping[str, str]) -> dict[str, str]:
    """What pip inherits: the user's settings of pip, of the proxy and of certificates; no other secret."""
    return {
        name: value
        for name, value in source.items()
        if name not in _DROPPED and (name in _KEPT or name.startswith(_KEPT_STARTS) or name.lower().endswith('_proxy'))
    }


def _reason(said: str) -> str:
    """Pip's own words: its lines of errors, or its last lines where it named none."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix('ERROR:').strip() for line in lines if line.startswith('ERROR:')]
    conflict = [line for line in lines if ' depends on ' in line or line.startswith('The user requested ')]
    return ' '.join((errors[:1] + conflict + errors[1:]) or lines[-3:])[:2000]


def _hint(said: str, pinned: str) -> str:
    if 'conflicting dependencies' in said or 'ResolutionImpossible' in said:
        return f'Loosen the versions in pipPackages; the checkers bring {pinned}.'
    if 'connection' in said.lower() or 'resolve host' in said.lower() or 'retrying' in said.lower():
        return 'The package index could not be reached: check the network, or the settings of pip on this machine.'
    return (
        'Check the names and versions in pipPackages. Only wheels for the Python of the sandboxes are installed: '
        'building a source package would run its code outside of them.'
    )


def _require(site: Path, packages: Sequence[str]) -> None:
    """See that every package is really there: pip's settings could have put it elsewhere. Raises."""
    found = _versions(site)
    for line in packages:
        wanted = Requirement(line)
        version = found.get(canonicalize_name(wanted.name))
        missing = version is None and wanted.marker is None
        if missing or (version is not None and not wanted.specifier.contains(version, prereleases=True)):
            raise PackagesFailed(
                f'pip said that it installed {line}, but {wanted.name} {version or ""} is what is there'.replace(
                    '  is what is there', ' is not there'
                ),
                hint='Look for settings of pip on this machine that install to another place.',
            )


def _point_scripts(environment: Path, seen_at: str) -> None:
    """Let the programs of packages start the interpreter where sandboxes see it."""
    here = os.fsencode(environment)
    for program in (environment / 'bin').iterdir():
        if program.is_file() and not program.is_symlink():
            text = program.read_bytes()
            if text.startswith(b'#!') and here in text[:1024]:
                mode = program.stat().st_mode
                program.write_bytes(text.replace(here, os.fsencode(seen_at)))
                program.chmod(mode)
