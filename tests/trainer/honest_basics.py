"""Honest work: what most tests and solutions do."""

from __future__ import annotations

from tests.trainer.honest_model import Honest

BASICS = [
    Honest(
        'Fraction result',
        {
            'test_f.py': 'from solution import half\ndef test_half():\n'
            '    assert half(1) == 0.5\n    assert half(3) == 1.5\n'
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
            'tests/test_p.py': 'from src.calc.core import add\nimport src.calc as calc\n'
            'def test_add():\n    assert add(1, 2) == 3 and calc.NAME == "calc"\n'
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
]
