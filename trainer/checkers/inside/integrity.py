"""Notices when functions of pytest, the standard library or the interpreter are not what they were.

A snapshot of every trusted module (and of the classes of the test machinery) is taken before any code of the candidate
runs, and compared after collection and after each test. Comparing dictionaries whose values are the same objects costs
microseconds.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from collections.abc import Mapping
from typing import Any

from trainer.checkers.inside.watch import Origin

MACHINERY = ('_pytest', 'pytest', 'pluggy', 'unittest', 'iniconfig')
ALLOWED = frozenset(
    (
        'excepthook',
        'unraisablehook',
        'showwarning',
        '_showwarning',
        '_showwarnmsg_impl',
        'displayhook',
        'breakpointhook',
        'stdin',
        'stdout',
        'stderr',
        '_reprcompare',
        '_assertion_pass',
        'set_trace',
        '_',
        'last_exc',
        'last_value',
        'last_type',
        'last_traceback',
    )
)
"""Names that honest programs and pytest itself rebind: nothing of a verdict rests on them."""
CALLABLE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MethodType,
    staticmethod,
    classmethod,
    property,
    type,
)


class Snapshot:
    """What trusted modules and classes held at one moment."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._modules = {name: module for name, module in sys.modules.items() if self._is_trusted(module)}
        self._spaces: list[tuple[str, Mapping[str, Any], dict[str, Any]]] = []
        for name, module in self._modules.items():
            self._spaces.append((name, vars(module), dict(vars(module))))
            if name.split('.')[0] in MACHINERY:
                self._spaces += [
                    (f'{name}.{kind.__name__}', vars(kind), dict(vars(kind)))
                    for kind in vars(module).values()
                    if isinstance(kind, type) and kind.__module__ == name
                ]
        self._spaces.append(('builtins', vars(builtins), dict(vars(builtins))))
        self._executable = sys.executable
        self._path = os.environ.get('PATH', '')

    def renew(self) -> None:
        """Accept what changed in modules of the library since: called when only trusted code can have run."""
        self.__init__(self._origin)  # type: ignore[misc]

    def changed(self, *, machinery_only: bool = False) -> str:
        """Name something that is not what it was, or return an empty text."""
        if sys.executable != self._executable:
            return 'sys.executable'
        for name, space, before in self._spaces:
            if machinery_only and name.split('.')[0] not in MACHINERY:
                continue
            if not _same(space, before) and (key := self._difference(space, before)):
                return f'{name}.{key}'
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module and name in sys.modules and name != '__main__':
                return f'sys.modules[{name!r}]'
        return ''

    def restore_environment(self) -> None:
        """Put PATH back: programs that tests start are found where they were."""
        os.environ['PATH'] = self._path

    def _is_trusted(self, module: object) -> bool:
        if not isinstance(module, types.ModuleType):
            return False
        file = getattr(module, '__file__', None)
        return file is None or self._origin.is_library(file)

    def _difference(self, space: Mapping[str, Any], before: dict[str, Any]) -> str:
        for key, value in before.items():
            now = space.get(key)
            if now is not value and key not in ALLOWED and isinstance(value, CALLABLE) and not self._by_author(now):
                return key
        return ''

    def _by_author(self, value: object) -> bool:
        """Whether a value is a function of the author's tests, or a mock: theirs to put anywhere."""
        code = getattr(value, '__code__', None)
        if isinstance(code, types.CodeType) and code.co_filename in self._origin.author:
            return True
        return type(value).__module__ == 'unittest.mock'


def _same(space: Mapping[str, Any], before: dict[str, Any]) -> bool:
    try:
        return space == before if isinstance(space, dict) else before == space
    except Exception:
        return False
