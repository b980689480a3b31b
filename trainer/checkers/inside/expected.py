"""Which tests the author's files define, found without any code of the candidate: the denominator of the reward.

The files are collected in a folder that holds only what the author wrote; a module that is missing there (the one the
candidate has to write) is played by a stand-in that accepts everything. What cannot be collected that way is counted
from the syntax tree.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import os
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest


def collect(sources: Mapping[str, str], test_args: Sequence[str], test_files: Sequence[str]) -> dict[str, int]:
    """Number of tests by base id (``tests/test_x.py::TestA::test_b``, without parameters)."""
    with tempfile.TemporaryDirectory() as root:
        root = os.path.realpath(root)
        for path, text in sources.items():
            os.makedirs(os.path.dirname(f'{root}/{path}'), exist_ok=True)
            with open(f'{root}/{path}', 'w', encoding='utf-8', errors='surrogatepass', newline='') as file:
                file.write(text)
        os.chdir(root)
        sys.path += [root, *sorted({os.path.dirname(f'{root}/{path}') for path in test_files})]
        sys.meta_path.append(_StandInFinder())
        wrapped = {path for path in sources if path.endswith('.py') and path not in test_files}
        sys.meta_path.insert(0, _Lenient(root, wrapped))
        plugin = _Collector()
        pytest.main([*pytest_options(root), '--collect-only', '-qq', *(f'{root}/{arg}' for arg in test_args)], [plugin])
        os.chdir('/')
    found = dict(plugin.found)
    for path in test_files:
        if not any(name.startswith(f'{path}::') for name in found):
            wanted = [arg.partition('::')[2] for arg in test_args if arg.split('::')[0] == path]
            found.update(dict.fromkeys(count_in_tree(path, sources[path], wanted), 1))
    return found


def syntax_error(sources: Mapping[str, str], test_files: Sequence[str]) -> str:
    """The first syntax error in the author's test files, or an empty text."""
    for path in test_files:
        try:
            ast.parse(sources[path], filename=path)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, 'lineno', None)
            return f'{path}{f", line {line}" if line else ""}: {getattr(error, "msg", error)}'
    return ''


def pytest_options(root: str) -> list[str]:
    """Options that leave nothing to files of the workspace."""
    return [
        *('-c', '/dev/null', '--rootdir', root, '--confcutdir', root, '-o', 'addopts=', '--color=no'),
        *('--import-mode=importlib', '--assert=plain', '-p', 'no:cacheprovider', '-p', 'no:legacypath'),
        *('-p', 'no:unraisableexception', '-p', 'no:threadexception', '-p', 'no:junitxml', '-p', 'no:pastebin'),
        *('--continue-on-collection-errors', '--basetemp', f'{tempfile.gettempdir()}/pytest-{os.getpid()}'),
    ]


def count_in_tree(path: str, source: str, wanted: Sequence[str] = ()) -> list[str]:
    """Base ids of the tests that a file defines, read from its syntax tree."""
    found = []
    for prefix, node in _definitions(ast.parse(source), ''):
        name = f'{prefix}{node.name}'
        if not any(wanted) or any(name == want or name.startswith(f'{want}::') for want in wanted):
            found.append(f'{path}::{name}')
    return found


def _definitions(tree: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith('test'):
            yield prefix, node
        elif isinstance(node, ast.ClassDef) and (node.name.startswith('Test') or _is_unittest(node)):
            yield from _definitions(node, f'{prefix}{node.name}::')


def _is_unittest(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith('TestCase') for base in node.bases)


class _Collector:
    """Counts what pytest collected, by base id."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests."""
        for item in session.items:
            base = base_id(item)
            self.found[base] = self.found.get(base, 0) + 1


def base_id(item: pytest.Item) -> str:
    """The id of a test without its parameters."""
    callspec = getattr(item, 'callspec', None)
    if callspec is None:
        return item.nodeid
    return item.nodeid.removesuffix(f'[{callspec.id}]')


class StandIn:
    """Plays a module, function, class or value that is not there: accepts everything and holds nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def __call__(self, *arguments: Any, **options: Any) -> StandIn:
        """Whatever it is called with, it answers with another stand-in."""
        return StandIn()

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith('__') and name.endswith('__'):
            raise AttributeError(name)
        return StandIn()

    def __mro_entries__(self, bases: tuple[type, ...]) -> tuple[type, ...]:
        return ()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __index__(self) -> int:
        return 0

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def _accept(self: StandIn, *arguments: Any) -> StandIn:
    return StandIn()


for _name in ('getitem', 'add', 'radd', 'sub', 'rsub', 'mul', 'rmul', 'truediv', 'rtruediv', 'mod', 'pow', 'or', 'and'):
    setattr(StandIn, f'__{_name}__', _accept)


class _StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last: answers for every module that nobody else has."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Offer a stand-in, except for what pytest itself may look for in vain."""
        if name.split('.')[0] in sys.stdlib_module_names or not _asked_by_author():
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        """Leave it to the import system."""
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        """Give the module every name."""
        module.__dict__['__getattr__'] = _any_name


def _asked_by_author() -> bool:
    """Whether an import that fails everywhere else comes from a file outside the libraries."""
    frame = sys._getframe(2)
    while frame.f_back is not None and 'importlib' in frame.f_code.co_filename:
        frame = frame.f_back
    return os.path.realpath(frame.f_code.co_filename).startswith(os.path.realpath(tempfile.gettempdir()))


def _any_name(name: str) -> StandIn:
    if name.startswith('__') and name.endswith('__'):
        raise AttributeError(name)
    return StandIn()


class _Lenient(importlib.abc.MetaPathFinder):
    """Comes first: the author's own unfinished modules, whose missing names and errors become stand-ins."""

    def __init__(self, root: str, files: set[str]) -> None:
        self._root = root
        self._files = {f'{root}/{path}' for path in files}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module as usual and make its loader lenient."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin not in self._files or os.path.basename(spec.origin) == 'conftest.py':
            return None
        loader: Any = spec.loader
        run: Callable[[types.ModuleType], None] = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            try:
                run(module)
            except (Exception, SystemExit):
                module.__dict__.setdefault('__file__', spec.origin)
            module.__dict__.setdefault('__getattr__', _any_name)

        loader.exec_module = exec_module
        return spec
