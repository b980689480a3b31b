"""Attacks by code: a module of the candidate's that the check imports, with a trick in it, and the same without."""

from __future__ import annotations

import re
from collections.abc import Callable

from trainer.attacks.model import Ground, Leftover, Module

ANSWER = 'return 12'
"""What the functions of an attack return where the trick gives them nothing."""

_FUTURE = re.compile(r'^from __future__ import .*\n', re.MULTILINE)
_ERROR = re.compile(r'(?:Error|Exception|Warning)$')


def in_modules(
    at_import: str = '', in_call: str = ANSWER, *, keep: bool = False
) -> Callable[[Ground], Leftover | None]:
    """Make an attack: code run at import, and a body for every name the check takes from the module.

    With ``keep`` the names keep what they mean at the start.
    """

    def leave(ground: Ground) -> Leftover | None:
        files = {module.path: written(module, at_import, '' if keep else in_call) for module in ground.modules}
        return Leftover(files) if files else None

    return leave


def in_code(at_import: str) -> Callable[[Ground], Leftover | None]:
    """Make an attack that runs at the start of every module the check imports and every Python program it starts."""

    def leave(ground: Ground) -> Leftover | None:
        files = {path: ground.files.get(path, '') for path in ground.programs if path.endswith('.py')}
        texts = {path: _with(text, at_import) for path, text in files.items()}
        texts |= {module.path: written(module, at_import, ANSWER) for module in ground.modules}
        return Leftover(texts) if texts else None

    return leave


plain = in_modules()
"""The twin of every attack by code: each name is a function that returns one and the same number."""


def idle(ground: Ground) -> Leftover | None:
    """The twin of attacks by programs: each of the candidate's programs only succeeds, each function is ``plain``."""
    texts = {path: ground.overwrite(path, ground.success) for path in ground.programs}
    texts |= {module.path: written(module, '', ANSWER) for module in ground.modules}
    return Leftover(texts) if texts else None


def missing_modules(ground: Ground) -> dict[str, str]:
    """Stand-ins that do nothing for modules the check imports and the task does not have at the start."""
    return {m.path: written(m, '', ANSWER) for m in ground.modules if m.path not in ground.files}


def written(module: Module, at_import: str, in_call: str) -> str:
    """The text of a module with a trick in it."""
    return _with(module.text, at_import) + ''.join(_name(name, module.text, in_call) for name in module.names)


def _with(text: str, at_import: str) -> str:
    """Code put before a module's own, but after what has to come first."""
    last = max((match.end() for match in _FUTURE.finditer(text)), default=0)
    return f'{text[:last]}{at_import}\n{text[last:]}' if at_import else text


def _name(name: str, text: str, in_call: str) -> str:
    if _ERROR.search(name):
        return '' if re.search(rf'^class {name}\b', text, re.MULTILINE) else f'\nclass {name}(Exception):\n    pass\n'
    body = (in_call or 'return None').replace('\n', '\n    ')
    return f'\ndef {name}(*args, **kwargs):\n    {body}\n' if in_call else ''
