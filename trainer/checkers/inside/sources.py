"""The author's modules inside the checker: compiled from the request, never from what lies in the workspace.

Their code says it lies in the workspace (``__file__``), so tests find the candidate's files beside them; asserts are
rewritten as pytest does it, and comparisons are guarded.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import importlib.util
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trainer.checkers.inside.equality import make_compare
from trainer.checkers.inside.watch import bake, bake_code

COMPARE = '@rlvr_compare'
_SYMBOLS: dict[type[ast.cmpop], str] = {
    ast.Eq: '==',
    ast.NotEq: '!=',
    ast.Lt: '<',
    ast.LtE: '<=',
    ast.Gt: '>',
    ast.GtE: '>=',
    ast.In: 'in',
    ast.NotIn: 'not in',
}


class AuthorModules:
    """The author's test modules, and the modules beside them, by every name a test may use."""

    def __init__(self, root: str, sources: Mapping[str, str], forged: Callable[[str], object]) -> None:
        self.root = root
        self.files = {f'{root}/{path}': text for path, text in sources.items()}
        self.finder: Any = _bare_finder(self)
        """What the import system may see of this: a finder and loader without attributes."""
        self.failures: dict[str, str] = {}
        self._compare = make_compare(forged)
        self._lenient_compare = make_compare(forged, matches_any=True)
        self._names = module_names(sources)
        self._builtins = dict(vars(builtins))
        self._loaded: dict[str, types.ModuleType] = {}
        self._held: dict[str, dict[str, Any]] = {}

    def find_spec(self, name: str) -> importlib.machinery.ModuleSpec | None:
        """Find one of the author's modules by its dotted name."""
        file = self._names.get(name)
        return None if file is None else self._spec(name, f'{self.root}/{file}')

    def execute(self, module: types.ModuleType) -> None:
        """Compile and run the author's source in a new module."""
        assert module.__spec__ is not None and module.__spec__.origin is not None
        file = module.__spec__.origin
        code = self.compile(file)
        module.__dict__['__builtins__'] = dict(self._builtins)
        self._loaded.setdefault(module.__name__, module)
        try:
            exec(code, module.__dict__)
        except BaseException as error:
            self.failures[file.removeprefix(f'{self.root}/')] = f'{type(error).__name__}: {error}'[:400]
            raise

    def load(self, file: str) -> types.ModuleType:
        """Import a test file or conftest.py as pytest asks for it: by its path."""
        relative = file.removeprefix(f'{self.root}/')
        name = best_name(relative, self.files, self.root)
        if name in sys.modules and getattr(sys.modules[name], '__file__', None) == file:
            return sys.modules[name]
        spec = self._spec(name, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            self.execute(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        return module

    def remember(self) -> None:
        """Note what the author's modules hold, before any test has run."""
        self._held = {name: dict(vars(module)) for name, module in self._loaded.items()}

    def changed(self) -> str:
        """Name something in the author's modules that is not what it was and that their own code does not rebind."""
        for name, before in self._held.items():
            now = vars(self._loaded[name])
            file = str(before.get('__file__'))
            for key in now.keys() | before.keys():
                if now.get(key) is not before.get(key) and key not in self._rebound(file):
                    return f'{name}.{key}'
        return ''

    def _rebound(self, file: str) -> set[str]:
        """Names that a module's own functions declare global."""
        nodes = ast.walk(ast.parse(self.files.get(file, '')))
        return {name for node in nodes if isinstance(node, ast.Global) for name in node.names} | {'__warningregistry__'}

    def forged_names(self) -> list[str]:
        """Names of the author's modules under which something else was put into ``sys.modules``."""
        present = {name: sys.modules[name] for name in self._names if name in sys.modules}
        return [
            name
            for name, module in present.items()
            if self._loaded.get(name) is not module and getattr(module, '__file__', None) is not None
            if name not in sys.stdlib_module_names
        ]

    def compile(self, file: str) -> types.CodeType:
        """Compile one file with rewritten asserts and guarded comparisons. Raises ``SyntaxError``."""
        return self.compile_text(self.files[file], file)

    def compile_text(self, source: str, file: str) -> types.CodeType:
        """Compile a text that stands for a file."""
        from _pytest.assertion.rewrite import rewrite_asserts

        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            tree = ast.parse(source, filename=file)
            rewrite_asserts(tree, source.encode('utf-8', 'surrogatepass'), file)
            code = compile(_Guard().visit(tree), file, 'exec', dont_inherit=True)
            matches_any = any('ANY' in (getattr(node, 'id', ''), getattr(node, 'attr', '')) for node in ast.walk(tree))
        return bake_code(code, {COMPARE: self._lenient_compare if matches_any else self._compare})

    def _spec(self, name: str, file: str) -> importlib.machinery.ModuleSpec:
        spec = importlib.util.spec_from_file_location(name, file, loader=self.finder)
        assert spec is not None
        if file.endswith('/__init__.py'):
            spec.submodule_search_locations = [os.path.dirname(file)]
        return spec


def _bare_finder(modules: AuthorModules) -> object:
    members = {
        'find_spec': staticmethod(bake(_find_spec, modules=modules)),
        'create_module': staticmethod(bake(_create_module)),
        'exec_module': staticmethod(bake(_exec_module, modules=modules)),
    }
    return type('Finder', (), {'__slots__': (), **members})()


def _find_spec(name: str, path: Any = None, target: Any = None) -> Any:
    modules: Any = '@modules'
    return modules.find_spec(name)


def _create_module(spec: Any) -> None:
    return None


def _exec_module(module: types.ModuleType) -> None:
    modules: Any = '@modules'
    modules.execute(module)


class _Guard(ast.NodeTransformer):
    """Replaces comparisons by calls of a constant, which a module's namespace does not hold."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        symbol = _SYMBOLS.get(type(node.ops[0])) if len(node.ops) == 1 else None
        if symbol is None:
            return node
        function, name = ast.Constant(COMPARE), ast.Constant(symbol)
        call = ast.Call(func=function, args=[name, node.left, node.comparators[0]], keywords=[])
        for new in (call, function, name):
            ast.copy_location(new, node)
        return call


def module_names(paths: Iterable[str]) -> dict[str, str]:
    """Dotted names under which modules can be imported, from the top and from the folder that holds their package."""
    names: dict[str, str] = {}
    known = set(paths)
    for path in sorted(known, reverse=True):
        if path.endswith('.py') and not path.endswith('conftest.py'):
            whole = path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')
            names[best_name(path, known)] = path
            names[whole] = path
    return names


def best_name(path: str, known: Iterable[str], root: str = '') -> str:
    """The name pytest gives a file: dotted from the folder above its outermost package."""
    files = {file.removeprefix(f'{root}/') for file in known} if root else known
    parts = path.removesuffix('.py').removesuffix('/__init__').split('/')
    start = len(parts) - 1
    while start > 0 and f'{"/".join(parts[:start])}/__init__.py' in files:
        start -= 1
    return '.'.join(parts[start:])
