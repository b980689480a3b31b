"""The process that runs the tests: pytest over the author's modules, and one report of what was seen.

A test counts as passed only if its setup, its function and its teardown returned, seen here and not in pytest's
reports alone; hidden tests that must fail and must pass go through the same machinery.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import sys
import unittest
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import _pytest.config
import _pytest.pathlib
import _pytest.python
import pytest

from trainer.checkers.inside.equality import suspect
from trainer.checkers.inside.expected import pytest_options
from trainer.checkers.inside.integrity import Snapshot
from trainer.checkers.inside.ledger import Ledger, make_plugin
from trainer.checkers.inside.sources import AuthorModules
from trainer.checkers.inside.watch import Origin, bake, guard_signals, install

QUIET = ('-q', '--no-header', '--tb=short', '--disable-warnings', '-o', 'console_output_style=classic')
UNITTEST_ASSERTS = {
    'assertEqual': '==',
    'assertNotEqual': '!=',
    'assertIn': 'in',
    'assertNotIn': 'not in',
    'assertLess': '<',
    'assertLessEqual': '<=',
    'assertGreater': '>',
    'assertGreaterEqual': '>=',
    'assertAlmostEqual': '==',
    'assertCountEqual': '==',
    'assertListEqual': '==',
    'assertTupleEqual': '==',
    'assertSetEqual': '==',
    'assertDictEqual': '==',
    'assertSequenceEqual': '==',
    'assertMultiLineEqual': '==',
}


def run_tests(request: Mapping[str, Any], write: Callable[[bytes], None], nonce: bytes) -> None:
    """Run the tests and write one report: the nonce, a space, JSON."""
    owner = os.getpid()
    root = os.getcwd()
    trusted = {path: request['sources'][path] for path in request['trusted']}
    python = {path: text for path, text in trusted.items() if path.endswith('.py')}
    tampered: list[str] = []
    origin = Origin((f'{root}/{path}' for path in python), request['site'])
    modules = AuthorModules(root, python, tampered.append)
    _preload(python.values())
    folders = dict.fromkeys(os.path.dirname(f'{root}/{path}') for path in request['test_files'])
    sys.path += [root, *(folder for folder in folders if folder != root)]
    sys.meta_path.insert(0, modules.finder)
    _serve_author_files(modules)
    _guard_unittest(tampered.append)
    guard_signals(origin)
    ledger = Ledger(modules, Snapshot(origin), tampered, bake(_progress, write=write))
    plugin = make_plugin(ledger)
    arguments = [*pytest_options(root), *QUIET, *(f'{root}/{arg}' for arg in request['test_args'])]
    install(origin, tampered.append)
    pytest.main(arguments, [plugin])
    if os.getpid() != owner:
        os._exit(1)
    report = ledger.report()
    sys.stdout.flush()
    write(b'\n' + nonce + b' ' + json.dumps(report).encode() + b'\n')


def _progress(item_id: str) -> None:
    write: Any = '@write'
    write(b'\nrunning ' + item_id.encode('utf-8', 'replace').replace(b'\n', b' ') + b'\n')


def _preload(sources: Iterable[str]) -> None:
    """Import what the tests import from the libraries while no code of the candidate has run."""
    names: dict[str, None] = {}
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                names.update(dict.fromkeys(alias.name for alias in node.names))
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names[node.module] = None
                names.update(dict.fromkeys(f'{node.module}.{alias.name}' for alias in node.names))
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            continue


def _serve_author_files(modules: AuthorModules) -> None:
    """Make pytest import test files and conftest.py from the request."""
    baked = bake(_import_path, modules=modules, original=_pytest.pathlib.import_path, fspath=os.fspath)
    _pytest.config.import_path = baked  # type: ignore[attr-defined]
    _pytest.python.import_path = baked  # type: ignore[attr-defined]


def _import_path(path: Any, **options: Any) -> Any:
    modules: Any = '@modules'
    original: Any = '@original'
    fspath: Any = '@fspath'
    file = fspath(path)
    return modules.load(file) if file in modules.files else original(path, **options)


def _guard_unittest(forged: Callable[[str], object]) -> None:
    """Guard the comparisons of ``unittest`` as those of assert statements are."""
    for name, symbol in UNITTEST_ASSERTS.items():
        original = getattr(unittest.TestCase, name)
        baked = bake(_guarded, original=original, symbol=symbol, forged=forged, suspect=suspect)
        setattr(unittest.TestCase, name, baked)


def _guarded(self: unittest.TestCase, first: Any, second: Any, *arguments: Any, **options: Any) -> None:
    original: Any = '@original'
    suspect: Any = '@suspect'
    kind = suspect('@symbol', first, second)
    original(self, first, second, *arguments, **options)
    kind = kind or suspect('@symbol', first, second)
    if kind:
        forged: Any = '@forged'
        forged(f'an object of type {kind} agrees with everything')
        self.fail(f'an object of type {kind} agrees with everything')
