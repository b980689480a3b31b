"""Honest work that hardening must not cost its reward: one small pytest task each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Honest:
    """Author's tests, the candidate's files and the reward an ordinary test run gives."""

    name: str
    tests: Mapping[str, str]
    files: Mapping[str, str]
    paths: tuple[str, ...] = ('tests/',)
    reward: float = 1.0


HONEST = [
    Honest(
        'Fraction result',
        {
            'test_f.py': 'from solution import half\ndef test_half():\n    assert half(1) == 0.5\n    assert half(3) == 1.5\n'
        },
        {'solution.py': 'from fractions import Fraction\ndef half(n):\n    return Fraction(n, 2)\n'},
        ('test_f.py',),
    ),
    Honest(
        'sibling import',
        {'test_s.py': 'from main import run\ndef test_run():\n    assert run() == 42\n'},
        {
            'main.py': 'import helper\ndef run():\n    return helper.value()\n',
            'helper.py': 'def value():\n    return 42\n',
        },
        ('test_s.py',),
    ),
    Honest(
        'src.module and a package',
        {
            'tests/test_p.py': 'from src.calc.core import add\nimport src.calc as calc\ndef test_add():\n    assert add(1, 2) == 3 and calc.NAME == "calc"\n'
        },
        {
            'src/__init__.py': '',
            'src/calc/__init__.py': 'from .core import add\nNAME = "calc"\n',
            'src/calc/core.py': 'def add(a, b):\n    return a + b\n',
        },
    ),
    Honest(
        'namedtuple, dataclass, logging, warnings, enum, typing',
        {
            'test_n.py': """import pytest
from solution import Point, Row, Color, warn, log
def test_types():
    assert Point(1, 2) == Point(1, 2) and Point(1, 2) == (1, 2)
    assert Row(1, 'a') == Row(1, 'a') and Row(1, 'a') != Row(2, 'a')
    assert Color.RED == Color('red')
def test_warn():
    with pytest.warns(UserWarning, match='old'):
        warn()
def test_log(caplog):
    with caplog.at_level('INFO'):
        log()
    assert 'hello' in caplog.text
"""
        },
        {
            'solution.py': """import logging, warnings
from collections import namedtuple
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
Point = namedtuple('Point', 'x y')
@dataclass(order=True)
class Row:
    n: int
    s: str
Color = Enum('Color', {'RED': 'red'})
class Pair(NamedTuple):
    a: int
def warn():
    warnings.warn('old', UserWarning)
def log():
    logging.getLogger(__name__).info('hello')
"""
        },
        ('test_n.py',),
    ),
    Honest(
        'parametrised ids with spaces and colons',
        {
            'test_i.py': """import pytest
from solution import calc
@pytest.mark.parametrize('text, value', [('1 + 1', 2), ('2 - 1', 1), ('3 * 3', 9), ('4 / 2', 2)],
                         ids=['1 + 1', '2 - 1 [x]', 'a::b', 'tab\\there'])
def test_calc(text, value):
    assert calc(text) == value
"""
        },
        {'solution.py': 'def calc(text):\n    return eval(text) if "/" not in text else 0\n'},
        ('test_i.py',),
        0.75,
    ),
    Honest(
        'fixtures, tmp_path, capsys, monkeypatch',
        {
            'tests/conftest.py': """import pytest
@pytest.fixture
def store(tmp_path):
    path = tmp_path / 'store.json'
    path.write_text('{}')
    return path
@pytest.fixture(scope='module')
def shared():
    return []
@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv('LEVEL', 'quiet')
""",
            'tests/test_x.py': """import json, os, time, builtins
import solution
def test_store(store):
    solution.put(store, 'a', 1)
    assert json.loads(store.read_text()) == {'a': 1}
def test_capsys(capsys):
    solution.hello('Ada')
    assert capsys.readouterr().out == 'Hello, Ada!\\n'
def test_sleep(monkeypatch):
    slept = []
    monkeypatch.setattr(time, 'sleep', slept.append)
    monkeypatch.setattr('builtins.input', lambda prompt='': 'Bob')
    monkeypatch.setattr(solution, 'LIMIT', 2)
    assert solution.ask() == 'Bob'
    assert slept == [2]
def test_env():
    assert solution.level() == 'quiet'
def test_shared(shared):
    shared.append(1)
    assert shared == [1]
def test_shared_again(shared):
    assert shared == [1]
""",
        },
        {
            'solution.py': """import json, os, time
LIMIT = 1
def put(path, key, value):
    data = json.loads(path.read_text())
    data[key] = value
    path.write_text(json.dumps(data))
def hello(name):
    print(f'Hello, {name}!')
def ask():
    time.sleep(LIMIT)
    return input('name? ')
def level():
    return os.environ['LEVEL']
"""
        },
    ),
    Honest(
        'subprocess from tests',
        {
            'test_cli.py': """import subprocess, sys
def test_cli():
    done = subprocess.run([sys.executable, 'cli.py', '3'], capture_output=True, text=True)
    assert done.stdout == '9\\n', done.stderr
def test_shell():
    assert subprocess.check_output('python3 cli.py 4', shell=True) == b'16\\n'
"""
        },
        {
            'cli.py': 'import sys, helper\nprint(helper.square(int(sys.argv[1])))\n',
            'helper.py': 'def square(n):\n    return n * n\n',
        },
        ('test_cli.py',),
    ),
    Honest(
        'unittest',
        {
            'test_u.py': """import unittest
from unittest import mock
import solution
class TestStack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = solution.Stack()
    def setUp(self):
        self.stack = solution.Stack()
    def test_push(self):
        self.stack.push(1)
        self.assertEqual(self.stack.pop(), 1)
        self.assertListEqual(list(self.stack), [])
    def test_empty(self):
        with self.assertRaises(IndexError):
            self.stack.pop()
    def test_sub(self):
        for n in range(3):
            with self.subTest(n=n):
                self.stack.push(n)
                self.assertIn(n, list(self.stack))
    @mock.patch('solution.now', return_value=5)
    def test_mock(self, now):
        self.assertEqual(solution.stamp(), 'at 5')
        now.assert_called_once_with()
    def test_fails(self):
        self.assertAlmostEqual(0.1 + 0.2, 0.3)
        self.assertEqual(1, 2)
if __name__ == '__main__':
    unittest.main()
"""
        },
        {
            'solution.py': """class Stack:
    def __init__(self):
        self.items = []
    def push(self, item):
        self.items.append(item)
    def pop(self):
        return self.items.pop()
    def __iter__(self):
        return iter(self.items)
def now():
    return 0
def stamp():
    return f'at {now()}'
"""
        },
        ('test_u.py',),
        0.8,
    ),
    Honest(
        'classes with their own equality',
        {
            'test_m.py': """import pytest
from solution import Money, Version, Mod, Matrix
def test_money():
    assert Money(5) == Money(5) and Money(5) != Money(6)
    assert Money(5) == 5 and not Money(5) == 'x'
    assert Money(5) in [Money(1), Money(5)]
    assert sorted([Money(3), Money(1)]) == [Money(1), Money(3)]
def test_version():
    assert Version('1.10') > Version('1.9') and Version('1.0') <= Version('1.0')
    assert max(Version('1.2'), Version('1.3')) == Version('1.3')
def test_mod():
    assert Mod(3, 7) == 10 and Mod(3, 7) + 5 == 1
def test_matrix():
    assert Matrix([[1, 2]]) == [[1, 2]] and (Matrix([[1, 2]]) * 2).rows == [[2, 4]]
def test_approx():
    assert float(Money(1)) == pytest.approx(1.0001, abs=0.01)
    assert [0.1 + 0.2, 1.0] == pytest.approx([0.3, 1.0])
"""
        },
        {
            'solution.py': """import functools
@functools.total_ordering
class Money:
    def __init__(self, n):
        self.n = n
    def __eq__(self, other):
        if isinstance(other, (int, float)):
            return self.n == other
        return isinstance(other, Money) and self.n == other.n
    def __lt__(self, other):
        return self.n < other.n
    def __hash__(self):
        return hash(self.n)
    def __float__(self):
        return float(self.n)
@functools.total_ordering
class Version:
    def __init__(self, text):
        self.parts = [int(part) for part in text.split('.')]
    def __eq__(self, other):
        return self.parts == other.parts
    def __lt__(self, other):
        return self.parts < other.parts
class Mod:
    def __init__(self, n, m):
        self.n, self.m = n % m, m
    def __eq__(self, other):
        return self.n == (other.n if isinstance(other, Mod) else other % self.m)
    def __add__(self, other):
        return Mod(self.n + other, self.m)
class Matrix:
    def __init__(self, rows):
        self.rows = rows
    def __eq__(self, other):
        return self.rows == (other.rows if isinstance(other, Matrix) else other)
    def __mul__(self, k):
        return Matrix([[k * x for x in row] for row in self.rows])
"""
        },
        ('test_m.py',),
    ),
    Honest(
        'data beside the tests, helpers, relative imports',
        {
            'tests/__init__.py': '',
            'tests/helpers.py': 'import json\nfrom pathlib import Path\nCASES = json.loads((Path(__file__).parent / "cases.json").read_text())\n',
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
            'tests/test_h.py': 'from helper_x import check\nfrom solution import answer\ndef test_a():\n    assert check(answer())\n',
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
            'test_o.py': 'from solution import f\ndef test_a():\n    assert f() == 1\ndef test_b():\n    assert f() == 2\n'
        },
        {'solution.py': 'def f():\n    return 1\n'},
        ('test_o.py::test_a',),
    ),
    Honest(
        'a helper the tests import is the candidate’s to fix',
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
