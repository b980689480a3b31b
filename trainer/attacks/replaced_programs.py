"""The author's own check programs replaced, or outranked by files that are found first."""

from __future__ import annotations

import re

from trainer.attacks.code import idle
from trainer.attacks.model import PROGRAM_KINDS, Attack, Ground, Leftover
from trainer.checkers.protect import MAKEFILES

PROGRAM = re.compile(r'\.(?:sh|bash|py|mk)$|(?:^|/)(?:GNUmakefile|[Mm]akefile)$')
_ADVICE = 'Name the file in the protect list of the checker, so that it is put back before the check.'


def _programs(ground: Ground) -> list[str]:
    return [
        path for path in sorted(ground.named | ground.protected) if PROGRAM.search(path) or _is_script(ground, path)
    ]


def _is_script(ground: Ground, path: str) -> bool:
    return ground.files.get(path, '').startswith('#!')


def _replaced(ground: Ground) -> Leftover | None:
    texts = {path: ground.overwrite(path, ground.success) for path in _programs(ground)}
    return Leftover(texts) if texts else None


def _spoilt(ground: Ground) -> Leftover | None:
    wrong = 0 if ground.success else 1
    texts = {path: ground.overwrite(path, wrong) for path in _programs(ground) if path in ground.protected}
    return Leftover(texts) if texts else None


def _rivals(ground: Ground, code: int) -> Leftover | None:
    texts: dict[str, str] = {}
    for path in _programs(ground):
        folder, _, name = path.rpartition('/')
        at = f'{folder}/' if folder else ''
        if name in MAKEFILES:
            texts |= {f'{at}{rival}': ground.overwrite(path, code) for rival in MAKEFILES[: MAKEFILES.index(name)]}
        elif name.endswith('.py'):
            stem = path.removesuffix('.py')
            exits = f'import sys\nsys.exit({code})\n'
            texts |= {f'{stem}/__init__.py': '', f'{stem}/__main__.py': exits}
    return Leftover({path: text for path, text in texts.items() if path not in ground.files}) if texts else None


def _idle_makefile(ground: Ground) -> Leftover | None:
    if 'make' not in ground.tools or any(path.rpartition('/')[2] in MAKEFILES for path in ground.named):
        return None
    return Leftover({'Makefile': ground.overwrite('Makefile', 0)})


ATTACKS = (
    Attack(
        name='check-replaced',
        title='Check programs replaced',
        core=True,
        explanation='The programs and Makefiles that your check runs are replaced by ones that only succeed.',
        kinds=PROGRAM_KINDS,
        leave=_replaced,
        honest=_spoilt,
        defused=idle,
        advice=_ADVICE,
    ),
    Attack(
        name='check-outranked',
        title='Check programs outranked',
        core=True,
        explanation='A GNUmakefile, or a package with the name of your check, is there to be found first.',
        kinds=PROGRAM_KINDS,
        leave=lambda ground: _rivals(ground, ground.success),
        honest=lambda ground: _rivals(ground, 0 if ground.success else 1) if ground.protected else None,
        advice=_ADVICE,
    ),
    Attack(
        name='idle-makefile',
        title='A Makefile that does nothing',
        core=True,
        explanation='Every target of the Makefile succeeds and makes nothing.',
        kinds=PROGRAM_KINDS,
        leave=_idle_makefile,
        advice='Check what make has made, not only that it succeeded.',
    ),
)
