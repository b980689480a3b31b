"""Files that Python runs by itself when it starts."""

from __future__ import annotations

from typing import Final

from trainer.attacks.conftest_reports import PATCH_REPORT
from trainer.attacks.model import CODE_KINDS, Attack, Ground, Leftover

SITES: Final = tuple(f'.local/lib/python3.{minor}/site-packages' for minor in range(11, 15))


def _trick(ground: Ground) -> str:
    if ground.kind == 'pytest':
        return PATCH_REPORT
    return f'import os\nos.write(1, b"1.0\\n")\nos._exit({ground.success})\n'


def _uses_python(ground: Ground) -> bool:
    return ground.kind != 'exit_code' or 'python' in ground.text or bool(ground.programs)


def _in_sites(files: dict[str, str]) -> Leftover:
    return Leftover({f'{site}/{name}': text for site in SITES for name, text in files.items()})


def _when_python(ground: Ground, leftover: Leftover) -> Leftover | None:
    return leftover if _uses_python(ground) else None


ATTACKS = (
    Attack(
        name='sitecustomize',
        title='sitecustomize.py',
        core=True,
        explanation='A sitecustomize.py in the workspace is there to run before every Python program of the check.',
        kinds=CODE_KINDS,
        leave=lambda ground: _when_python(ground, Leftover({'sitecustomize.py': _trick(ground)})),
        honest=lambda ground: _when_python(ground, Leftover({'sitecustomize.py': ''})),
    ),
    Attack(
        name='pth-file',
        title='A .pth file in the home folder',
        core=True,
        explanation='A .pth file among the packages of the user imports a module that forges the result.',
        kinds=CODE_KINDS,
        leave=lambda ground: _when_python(ground, _in_sites({'evil.pth': 'import evil\n', 'evil.py': _trick(ground)})),
        honest=lambda ground: _when_python(ground, _in_sites({'evil.pth': ''})),
    ),
    Attack(
        name='usercustomize',
        title='usercustomize.py in the home folder',
        explanation='A usercustomize.py among the packages of the user runs when Python starts.',
        kinds=CODE_KINDS,
        leave=lambda ground: _when_python(ground, _in_sites({'usercustomize.py': _trick(ground)})),
    ),
)
