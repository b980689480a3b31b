"""Keeps account of each phase of each test, and of anything that is not as it was when the tests were collected."""

from __future__ import annotations

import inspect
import os
import threading
import types
from collections.abc import Callable, Generator
from typing import Any

import _pytest.python
import _pytest.runner
import pytest

from trainer.checkers.inside.expected import base_id
from trainer.checkers.inside.integrity import Snapshot
from trainer.checkers.inside.sources import AuthorModules
from trainer.checkers.inside.watch import bake

MAX_DETAIL = 400
PHASES = ('setup', 'call', 'teardown')
WATCHED_HOOKS = (
    'pytest_runtest_protocol',
    'pytest_runtest_setup',
    'pytest_runtest_call',
    'pytest_runtest_teardown',
    'pytest_runtest_makereport',
    'pytest_pyfunc_call',
    'pytest_fixture_setup',
    'pytest_runtest_logreport',
)
HIDDEN = """
def test_must_pass():
    assert len([1, 2]) == 2 and sorted([2, 1]) == [1, 2]

def test_must_fail():
    assert len([1, 2]) == 3
"""


class Ledger:
    """What happened to each test, by the test's own phases."""

    def __init__(
        self, modules: AuthorModules, snapshot: Snapshot, tampered: list[str], progress: Callable[[str], object]
    ) -> None:
        self._snapshot = snapshot
        self._modules = modules
        self._tampered = tampered
        self._progress = progress
        self._owner = os.getpid()
        self._thread = threading.get_ident()
        self._tests: dict[pytest.Item, list[str]] = {}
        self._functions: dict[pytest.Item, tuple[Any, Any]] = {}
        self._hidden: dict[pytest.Item, bool] = {}
        self._reports: dict[str, list[tuple[str, str]]] = {}
        self._hooks: dict[str, tuple[int, ...]] = {}
        self._collect_errors: list[tuple[str, str]] = []

    def collected(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Fix the list of tests, put hidden ones around it, and note which functions they are."""
        self._full_check('while the tests were imported')
        self._modules.remember()
        hidden = _hidden_tests(session, self._modules)
        self._hidden = {item: item.name == 'test_must_pass' for item in hidden}
        items[:] = [*hidden[:2], *items, *hidden[2:]]
        for item in items:
            function = getattr(getattr(item, 'obj', None), '__func__', getattr(item, 'obj', None))
            self._functions[item] = (function, getattr(function, '__code__', None))
            self._tests[item] = []
        self._hooks = _hook_ids(session.config)

    def folder(self, path: Any, parent: pytest.Collector) -> pytest.Collector:
        """A folder of tests is a folder: an ``__init__.py`` in it that the candidate wrote is not imported."""
        return pytest.Dir.from_parent(parent, path=path)

    def run_hidden(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a hidden test without a word in the log; ``None`` for the author's tests."""
        if item not in self._hidden:
            return None
        _pytest.runner.runtestprotocol(item, log=False, nextitem=nextitem)
        return True

    def begin(self, item: pytest.Item, phase: str) -> None:
        """A phase starts: everything must be as it was."""
        if phase == 'setup':
            if item not in self._hidden:
                self._progress(item.nodeid)
            self._full_check(f'before {item.nodeid}')
            self._snapshot.restore_environment()
        elif phase == 'call':
            self._machinery_check(item)
        if item not in self._tests:
            self._tampered.append('a test was added')

    def end(self, item: pytest.Item, phase: str, error: BaseException | None) -> None:
        """A phase is over; it counts if it returned, in its turn, in the process and thread of the tests."""
        if phase == 'call':
            self._machinery_check(item)
        here = os.getpid() == self._owner and threading.get_ident() == self._thread
        done = self._tests.get(item, [])
        if (
            error is None
            and here
            and done == list(PHASES[: PHASES.index(phase)])
            and not getattr(item, '_excinfo', None)
        ):
            done.append(phase)

    def call(self, item: pytest.Function) -> bool | None:
        """Call the test function that was collected; ``None`` leaves special kinds of tests to pytest."""
        function, _ = self._functions.get(item, (None, None))
        if type(item) is not _pytest.python.Function or inspect.iscoroutinefunction(function):
            return None
        self._same_function(item)
        arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
        item.obj(**arguments)
        return True

    def reported(self, report: pytest.TestReport) -> None:
        """Keep what pytest says of a phase: it can only lower a result."""
        detail = ''
        if report.outcome != 'passed':
            crash = getattr(report.longrepr, 'reprcrash', None)
            text = crash.message if crash is not None else str(report.longrepr)
            if isinstance(report.longrepr, tuple):
                text = report.longrepr[2]
            detail = f'{report.when}: {text}' if report.when != 'call' else text
        self._reports.setdefault(report.nodeid, []).append((report.outcome, detail[:MAX_DETAIL]))

    def not_collected(self, report: pytest.CollectReport) -> None:
        """Keep why a file could not be collected."""
        self._collect_errors.append((report.nodeid, str(report.longrepr)[-MAX_DETAIL:]))

    def report(self) -> dict[str, Any]:
        """Everything that happened, as JSON values."""
        self._full_check('at the end')
        for item, must_pass in self._hidden.items():
            if ('call' in self._tests[item]) is not must_pass and self._tests[item]:
                self._tampered.append('a hidden test came out wrong')
        self._tampered += [f'the module {name} was replaced' for name in self._modules.forged_names()]
        tests = []
        for item, done in self._tests.items():
            if item not in self._hidden:
                reports = self._reports.get(item.nodeid, [])
                passed = done == list(PHASES) and len(reports) >= 3 and all(said == 'passed' for said, _ in reports)
                detail = next((text for said, text in reports if said != 'passed'), '')
                tests.append([item.nodeid, base_id(item), passed, detail])
        report: dict[str, Any] = {
            'tests': tests,
            'collect_errors': self._collect_errors,
            'failures': self._modules.failures,
        }
        if self._tampered:
            report['tampered'] = f'forged: {self._tampered[0]}'
        return report

    def _full_check(self, when: str) -> None:
        changed = self._snapshot.changed() or self._modules.changed()
        if changed:
            self._tampered.append(f'{changed} was changed {when}')

    def _machinery_check(self, item: pytest.Item) -> None:
        changed = self._snapshot.changed(machinery_only=True)
        if changed:
            self._tampered.append(f'{changed} was changed during {item.nodeid}')
        if self._hooks and _hook_ids(item.config) != self._hooks:
            self._tampered.append(f'the plugins of pytest were changed during {item.nodeid}')
        self._same_function(item)

    def _same_function(self, item: pytest.Item) -> None:
        function, code = self._functions.get(item, (None, None))
        now = getattr(getattr(item, 'obj', None), '__func__', getattr(item, 'obj', None))
        same_code = getattr(now, '__code__', None) is code
        exchanged = type(item) is _pytest.python.Function and now is not function
        if exchanged or not same_code or 'runtest' in vars(item):
            self._tampered.append(f'the test {item.nodeid} was exchanged')


def make_plugin(ledger: Ledger) -> types.ModuleType:
    """The plugin as a module whose functions hold the ledger where the candidate's code cannot reach it."""
    plugin = types.ModuleType('rlvr_ledger')
    for function in _HOOKS:
        baked = bake(function, ledger=ledger)
        baked.__dict__.update(function.__dict__)
        setattr(plugin, function.__name__, baked)
    return plugin


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """The tests are known: fix the list."""
    ledger: Any = '@ledger'
    ledger.collected(session, items)


@pytest.hookimpl(tryfirst=True)
def pytest_collect_directory(path: Any, parent: pytest.Collector) -> pytest.Collector:
    """Every folder is a plain folder."""
    ledger: Any = '@ledger'
    return ledger.folder(path, parent)  # type: ignore[no-any-return]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run hidden tests silently."""
    ledger: Any = '@ledger'
    return ledger.run_hidden(item, nextitem)  # type: ignore[no-any-return]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watch the setup of a test."""
    ledger: Any = '@ledger'
    ledger.begin(item, 'setup')
    try:
        result = yield
    except BaseException as error:
        ledger.end(item, 'setup', error)
        raise
    ledger.end(item, 'setup', None)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watch the call of a test."""
    ledger: Any = '@ledger'
    ledger.begin(item, 'call')
    try:
        result = yield
    except BaseException as error:
        ledger.end(item, 'call', error)
        raise
    ledger.end(item, 'call', None)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watch the teardown of a test."""
    ledger: Any = '@ledger'
    ledger.begin(item, 'teardown')
    try:
        result = yield
    except BaseException as error:
        ledger.end(item, 'teardown', error)
        raise
    ledger.end(item, 'teardown', None)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call the function that was collected."""
    ledger: Any = '@ledger'
    return ledger.call(pyfuncitem)  # type: ignore[no-any-return]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep pytest's word on a phase."""
    ledger: Any = '@ledger'
    ledger.reported(report)


@pytest.hookimpl(tryfirst=True)
def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Keep why a file could not be collected."""
    ledger: Any = '@ledger'
    if report.failed:
        ledger.not_collected(report)


_HOOKS = (
    pytest_collection_modifyitems,
    pytest_collect_directory,
    pytest_runtest_protocol,
    pytest_runtest_setup,
    pytest_runtest_call,
    pytest_runtest_teardown,
    pytest_pyfunc_call,
    pytest_runtest_logreport,
    pytest_collectreport,
)


def _hook_ids(config: pytest.Config) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(id(implementation) for implementation in getattr(config.hook, name).get_hookimpls())
        for name in WATCHED_HOOKS
    }


def _hidden_tests(session: pytest.Session, modules: AuthorModules) -> list[pytest.Item]:
    """Four tests that belong to nobody: pass, fail, fail, pass."""
    from _pytest.fixtures import FuncFixtureInfo

    space: dict[str, Any] = {}
    exec(modules.compile_text(HIDDEN, '<rlvr-hidden>'), space)
    nothing = FuncFixtureInfo((), (), [], {})
    return [
        pytest.Function.from_parent(session, name=name, callobj=space[name], fixtureinfo=nothing)
        for name in ('test_must_pass', 'test_must_fail', 'test_must_fail', 'test_must_pass')
    ]
