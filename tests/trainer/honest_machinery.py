"""Honest work that touches the machinery: imports, globals, signals, mocks, ids."""

from __future__ import annotations

from tests.trainer.honest_model import Honest

MACHINERY = [
    Honest(
        'data beside the tests, helpers, relative imports',
        {
            'tests/__init__.py': '',
            'tests/helpers.py': 'import json\n'
            'from pathlib import Path\nCASES = json.loads((Path(__file__).parent / "cases.json").read_text())\n',
            'tests/cases.json': '[[1, 1], [2, 4], [3, 9]]',
            'tests/test_d.py': """from pathlib import Path
import pytest
from .helpers import CASES
from tests.helpers import CASES as again
from solution import square
ROOT = Path(__file__).resolve().parent.parent
@pytest.mark.parametrize('n, wanted', CASES)
def test_square(n, wanted):
    assert square(n) == wanted and again == CASES
def test_report():
    assert (ROOT / 'report.txt').read_text() == 'done\\n'
""",
        },
        {'solution.py': 'def square(n):\n    return n * n\n', 'report.txt': 'done\n'},
    ),
    Honest(
        'helpers without a package',
        {
            'tests/helper_x.py': 'def check(x):\n    return x == 42\n',
            'tests/test_h.py': 'from helper_x import check\nfrom solution import answer\n'
            'def test_a():\n    assert check(answer())\n',
        },
        {'solution.py': 'def answer():\n    return 42\n'},
    ),
    Honest(
        'asyncio, threads, processes, generators',
        {
            'test_a.py': """import asyncio, threading
from solution import fetch, parallel, spawn, numbers
def test_async():
    assert asyncio.run(fetch(3)) == 6
def test_threads():
    assert parallel([1, 2, 3]) == [2, 4, 6]
def test_process():
    assert spawn() == [1, 4, 9]
def test_generator():
    assert list(numbers(3)) == [0, 1, 2]
    assert next(numbers(1)) == 0
"""
        },
        {
            'solution.py': """import asyncio, multiprocessing
from concurrent.futures import ThreadPoolExecutor
async def fetch(n):
    await asyncio.sleep(0.001)
    return 2 * n
def parallel(values):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda v: 2 * v, values))
def square(n):
    return n * n
def spawn():
    with multiprocessing.get_context('fork').Pool(2) as pool:
        return pool.map(square, [1, 2, 3])
def numbers(n):
    yield from range(n)
"""
        },
        ('test_a.py',),
    ),
    Honest(
        'globals, classes and random parameters in tests',
        {
            'test_g.py': """import random, pickle
from dataclasses import dataclass
import pytest
from solution import double, dump
calls = 0
CASES = [random.randint(0, 10**6) for _ in range(4)]
@dataclass
class Case:
    n: 'int'
class TestAll:
    limit = 3
    def setup_method(self):
        self.seen = []
    @pytest.mark.parametrize('n', CASES)
    def test_double(self, n):
        global calls
        calls += 1
        self.seen.append(n)
        assert double(n) == 2 * n and self.seen == [n]
    def test_calls(self):
        assert calls == 4
def test_pickle():
    assert pickle.loads(dump(Case(1))) == Case(1)
def test_raises():
    with pytest.raises(ValueError, match='negative'):
        double(-1)
def helper(a, b):
    return a == b
def test_chain():
    assert 1 < double(1) <= 2 != 3 and helper(double(2), 4)
"""
        },
        {
            'solution.py': """import pickle, random
random.seed(0)
def double(n):
    if n < 0:
        raise ValueError('negative')
    return 2 * n
def dump(value):
    return pickle.dumps(value)
"""
        },
        ('test_g.py',),
    ),
    Honest(
        'decorators, wraps, partial, cache, context managers',
        {
            'test_w.py': """from solution import slow, traced, opened, Retry
def test_cache():
    assert slow(3) == 9 and slow(3) == 9 and slow.cache_info().hits == 1
def test_wraps():
    assert traced(2) == 3 and traced.__name__ == 'traced' and traced.names == ('n',)
def test_context():
    with opened() as log:
        log.append(1)
    assert log == [1, 'closed']
def test_retry():
    assert Retry(3).run() == 3
"""
        },
        {
            'solution.py': """import contextlib, functools, inspect, traceback
@functools.lru_cache
def slow(n):
    return n * n
def names(f):
    @functools.wraps(f)
    def inner(*args):
        return f(*args)
    inner.names = f.__code__.co_varnames
    inner.signature = inspect.signature(f)
    return inner
@names
def traced(n):
    return n + 1
@contextlib.contextmanager
def opened():
    log = []
    yield log
    log.append('closed')
class Retry:
    def __init__(self, times):
        self.times = times
    def run(self):
        for n in range(1, self.times + 1):
            try:
                if n < self.times:
                    raise OSError(n)
                return n
            except OSError as error:
                self.last = traceback.format_exc()
"""
        },
        ('test_w.py',),
    ),
    Honest(
        'signals and timers',
        {
            'test_t.py': """import signal
from solution import Graceful
def test_term():
    g = Graceful()
    signal.raise_signal(signal.SIGTERM)
    assert g.stopped
def test_alarm():
    def late(number, frame):
        raise TimeoutError
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 5)
    assert Graceful().work() == 1
    signal.setitimer(signal.ITIMER_REAL, 0)
"""
        },
        {
            'solution.py': """import signal
class Graceful:
    def __init__(self):
        self.stopped = False
        signal.signal(signal.SIGTERM, self.stop)
    def stop(self, number, frame):
        self.stopped = True
    def work(self):
        return 1
"""
        },
        ('test_t.py',),
    ),
    Honest(
        'mocks, ANY, reload, sqlite, csv',
        {
            'test_k.py': """import importlib, sqlite3
from unittest import mock
from unittest.mock import ANY
import solution
def test_any():
    with mock.patch('solution.send') as send:
        solution.notify('a')
    send.assert_called_with('a', ANY)
    assert send.call_args == mock.call('a', ANY)
def test_open():
    with mock.patch('builtins.open', mock.mock_open(read_data='x,y\\n1,2\\n')):
        assert solution.rows('f.csv') == [{'x': '1', 'y': '2'}]
def test_print():
    with mock.patch('builtins.print') as out:
        solution.say()
    out.assert_called_once_with('hi')
def test_reload():
    importlib.reload(solution)
    assert solution.send('a', 1) is None
def test_sql():
    db = sqlite3.connect(':memory:')
    solution.setup(db)
    assert db.execute('select count(*) from t').fetchone() == (0,)
"""
        },
        {
            'solution.py': """import csv
def send(to, when):
    return None
def notify(to):
    send(to, 12.5)
def rows(path):
    with open(path, newline='') as file:
        return list(csv.DictReader(file))
def say():
    print('hi')
def setup(db):
    db.execute('create table t (x)')
"""
        },
        ('test_k.py',),
    ),
    Honest(
        'single tests by id',
        {
            'test_o.py': 'from solution import f\ndef test_a():\n    assert f() == 1\n'
            'def test_b():\n    assert f() == 2\n'
        },
        {'solution.py': 'def f():\n    return 1\n'},
        ('test_o.py::test_a',),
    ),
    Honest(
        'a helper the tests import is the candidate has to fix',
        {
            'test_q.py': 'from app import total\ndef test_t():\n    assert total([1, 2]) == 3\n',
            'app.py': 'def total(xs):\n    return xs[0]\n',
        },
        {'app.py': 'def total(xs):\n    return sum(xs)\n'},
        ('test_q.py',),
    ),
    Honest(
        'skips and xfails are not passed',
        {
            'test_z.py': """import pytest
from solution import f
def test_a():
    assert f() == 1
@pytest.mark.skip
def test_b(): pass
@pytest.mark.xfail
def test_c():
    assert f() == 2
@pytest.fixture
def broken():
    yield
    raise RuntimeError('teardown')
def test_d(broken):
    assert f() == 1
"""
        },
        {'solution.py': 'def f():\n    return 1\n'},
        ('test_z.py',),
        0.25,
    ),
    Honest(
        'own names of standard modules',
        {'test_v.py': 'from statistics_tools import mean\ndef test_m():\n    assert mean([1, 3]) == 2\n'},
        {'statistics_tools.py': 'import statistics\ndef mean(xs):\n    return statistics.mean(xs)\n'},
        ('test_v.py',),
    ),
]
