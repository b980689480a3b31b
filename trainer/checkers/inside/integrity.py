"""Notices when functions of pytest, the standard library or the interpreter are not what they were.

A snapshot of every trusted module (and of the classes of the test machinery) is taken before any code of the candidate
runs, and compared after collection and around each test. Values are compared by identity: an object equal to everything
would slip through a comparison of dictionaries.
"""

from __future__ import annotations

import builtins
import operator
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
        self._machinery: list[_Space] = []
        self._library: list[_Space] = [_Space('builtins', vars(builtins))]
        for name, module in self._modules.items():
            if name.split('.')[0] in MACHINERY:
                kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == name]
                self._machinery += [_Space(f'{name}.{kind.__name__}', vars(kind)) for kind in kinds]
                self._machinery.append(_Space(name, vars(module)))
            else:
                self._library.append(_Space(name, vars(module)))
        self._executable = sys.executable
        self._path = os.environ.get('PATH', '')

    def changed(self, *, machinery_only: bool = False) -> str:
        """Name something that is not what it was, or return an empty text."""
        if sys.executable != self._executable:
            return 'sys.executable'
        for space in self._machinery if machinery_only else (*self._machinery, *self._library):
            if not space.same() and (key := self._difference(space)):
                return f'{space.name}.{key}'
        if machinery_only:
            return ''
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

    def _difference(self, space: _Space) -> str:
        for key, value in space.before.items():
            now = space.now.get(key)
            if now is not value and key not in ALLOWED and isinstance(value, CALLABLE) and not self._by_author(now):
                return key
        return ''

    def _by_author(self, value: object) -> bool:
        """Whether a value is a function of the author's tests, or a mock: theirs to put anywhere."""
        code = getattr(value, '__code__', None)
        if isinstance(code, types.CodeType) and code.co_filename in self._origin.author:
            return True
        return type(value).__module__ == 'unittest.mock'


class _Space:
    """The namespace of a module or class, and what it held."""

    def __init__(self, name: str, now: Mapping[str, Any]) -> None:
        self.name = name
        self.now = now
        self.before = dict(now)
        self._values = tuple(self.before.values())

    def same(self) -> bool:
        """Whether every name still holds the same object; equal is not enough, and new names do not matter."""
        return len(self.now) >= len(self._values) and all(map(operator.is_, self.now.values(), self._values))
