"""One OpenAI grader: its JSON checked, and the ``script`` that grades answer.txt as it would have graded a message."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from studio.exchange.python_source import text_source, value_source
from trainer.errors import FieldError, TaskError

ANSWER: Final = 'answer.txt'
OPERATIONS: Final = ('eq', 'ne', 'like', 'ilike')
JUDGES: Final = ('score_model', 'label_model')
CARRIED: Final = ('string_check', 'python', 'multi')
_TYPES: Final = (*CARRIED, *JUDGES, 'text_similarity', 'endpoint')
_FUNCTIONS: Final = ('min', 'max', 'abs', 'floor', 'ceil', 'exp', 'sqrt', 'log')
_PATH: Final = re.compile(r'(item|sample)((?:\.\w+|\[\d+\]|\[(?:"[^"]+"|\'[^\']+\')\])+)')
_PART: Final = re.compile(r'\.(\w+)|\[(\d+)\]|\["([^"]+)"\]|\[\'([^\']+)\'\]')
_ARITHMETIC: Final = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Load),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd),
)
_SAMPLE: Final = ('output_text', 'output_json', 'choices')

_HEAD: Final = '''\
"""Grades {answer} as the grader {name} graded a message: sample is the answer, item the row it belongs to."""
import json
import math
import re
from pathlib import Path

ITEM = {item}

try:
    text = Path({answer!r}).read_text(encoding='utf-8').removesuffix('\\n')
except (OSError, UnicodeDecodeError):
    print('{answer} is missing or no text')
    raise SystemExit(1)
SAMPLE = {{'output_text': text, 'output_json': None, 'output_tools': []}}
SAMPLE['choices'] = [{{'message': {{'role': 'assistant', 'content': text}}}}]
try:
    SAMPLE['output_json'] = json.loads(text)
except (ValueError, RecursionError):
    pass


def fill(template):
    """Put values of item and sample into a text with {{{{ places }}}}."""
    return re.sub(r'\\{{\\{{\\s*(.+?)\\s*\\}}\\}}', lambda match: look_up(match[1]), template)


def look_up(path):
    value = {{'item': ITEM, 'sample': SAMPLE}}
    for name, index, quoted in re.findall(r'\\.?(\\w+)|\\[(\\d+)\\]|\\[["\\'](.+?)["\\']\\]', path):
        try:
            value = value[int(index)] if index else value[name or quoted]
        except (KeyError, IndexError, TypeError):
            return ''
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
'''
_STRING_CHECK: Final = """

def {function}():
    given, wanted = fill({input}), fill({reference})
    return float({test})
"""
_TESTS: Final = {
    'eq': 'given == wanted',
    'ne': 'given != wanted',
    'like': 'wanted in given',
    'ilike': 'wanted.casefold() in given.casefold()',
}
_PYTHON: Final = """

{constant} = {source}


def {function}():
    names = {{'__name__': 'grader'}}
    exec(compile({constant}, 'grader', 'exec'), names)
    return float(names['grade'](SAMPLE, ITEM))
"""


@dataclass(frozen=True)
class Grader:
    """A grader that was checked."""

    data: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    def script(self, item: Mapping[str, Any]) -> str:
        """The script that grades one row."""
        name = str(self.data.get('name') or self.data['type']).replace('\\', '').replace('"', "'")
        head = _HEAD.format(answer=ANSWER, name=name, item=value_source(dict(item)))
        return head + ''.join(_functions(self.data, 'grade')) + '\n\nprint(grade())\n'

    def right_answer(self, item: Mapping[str, Any]) -> str | None:
        """An answer the grader accepts, where the row says one."""
        data = self.data
        is_plain = data['type'] == 'string_check' and data['operation'] in ('eq', 'like', 'ilike')
        if not is_plain or not re.fullmatch(r'\s*\{\{\s*sample\.output_text\s*\}\}\s*', data['input']):
            return None
        if any(path.startswith('sample') for path in _places(data['reference'])):
            return None
        return ''.join(_value(text, item) if is_place else text for is_place, text in _split(data['reference']))


def is_grader(data: Any) -> bool:
    """Whether a JSON value is meant as a grader."""
    return isinstance(data, dict) and data.get('type') in _TYPES and 'checker' not in data


def read_grader(data: dict[str, Any]) -> Grader:
    """Check a grader. Raises ``TaskError`` with the path of what cannot be carried over."""
    errors: list[FieldError] = []
    warnings: list[str] = []
    _check(data, '', errors, warnings)
    if errors:
        raise TaskError('The grader cannot be carried over', errors)
    return Grader(data, tuple(dict.fromkeys(warnings)))


def missing_fields(grader: Grader, row: Mapping[str, Any]) -> list[str]:
    """Fields of the row that the templates of the grader need and that are not there."""
    needed = [path for text in _templates(grader.data) for path in _places(text) if path.startswith('item')]
    first = [_parts(path)[0] for path in needed]
    return [str(name) for name in dict.fromkeys(first) if name not in row]


def _check(data: Any, loc: str, errors: list[FieldError], warnings: list[str]) -> None:
    def refuse(name: str, message: str) -> None:
        errors.append(FieldError(loc='.'.join(part for part in (loc, name) if part), msg=message))

    kind = data.get('type') if isinstance(data, dict) else None
    if kind in JUDGES:
        refuse('type', f'{kind} asks a model for the grade; a reward here is only what a program can prove')
    elif kind == 'string_check':
        _check_strings(data, refuse)
    elif kind == 'python':
        _check_python(data, refuse, warnings)
    elif kind == 'multi':
        _check_multi(data, loc, refuse, errors, warnings)
    elif kind in _TYPES:
        refuse('type', f'{kind} cannot be carried over: write it as a python grader')
    else:
        refuse('type', f'One of {", ".join(CARRIED)} is needed')


def _check_strings(data: Mapping[str, Any], refuse: Any) -> None:
    if data.get('operation') not in OPERATIONS:
        refuse('operation', f'One of {", ".join(OPERATIONS)} is needed, not {data.get("operation")!r}')
    for name in ('input', 'reference'):
        text = data.get(name)
        if not isinstance(text, str):
            refuse(name, 'A text is needed here')
            continue
        for path in _places(text):
            match = _PATH.fullmatch(path)
            if match is None:
                refuse(name, f'{{{{ {path} }}}} is no place in item or sample')
            elif match[1] == 'sample' and _parts(path)[0] not in _SAMPLE:
                refuse(name, f'{path} is not known to a checker: it sees the answer ({", ".join(_SAMPLE)})')


def _check_python(data: Mapping[str, Any], refuse: Any, warnings: list[str]) -> None:
    source = data.get('source')
    if not isinstance(source, str) or not source.strip():
        refuse('source', 'The Python source is needed here')
        return
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        refuse('source', f'Not Python: {error}')
        return
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == 'grade']
    if not functions:
        refuse('source', 'It must define grade(sample, item)')
    elif len(functions[-1].args.posonlyargs) + len(functions[-1].args.args) < 2 and functions[-1].args.vararg is None:
        refuse('source', 'grade must take sample and item')
    if 'output_tools' in source:
        warnings.append('the grader reads sample.output_tools: it is always empty here')
    if packages := sorted(_imported(tree) - set(sys.stdlib_module_names)):
        warnings.append(f'the grader imports {", ".join(packages)}: name the packages in pipPackages of the run')


def _imported(tree: ast.AST) -> set[str]:
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return {name.split('.')[0] for name in names}


def _check_multi(data: Mapping[str, Any], loc: str, refuse: Any, errors: list[FieldError], warnings: list[str]) -> None:
    graders = data.get('graders')
    if not isinstance(graders, dict) or not graders:
        refuse('graders', 'An object of named graders is needed here')
        return
    for name, one in graders.items():
        under = '.'.join(part for part in (loc, 'graders', name) if part)
        if not name.isidentifier():
            refuse(f'graders.{name}', 'A name of letters, digits and _ is needed')
        elif isinstance(one, dict) and one.get('type') == 'multi':
            refuse(f'graders.{name}.type', 'A multi grader cannot hold another one')
        else:
            _check(one, under, errors, warnings)
    formula = data.get('calculate_output')
    problem = _formula_problem(formula, set(graders)) if isinstance(formula, str) else 'A formula is needed here'
    if problem:
        refuse('calculate_output', problem)


def _formula_problem(formula: str, names: set[str]) -> str:
    """Why a formula cannot be computed; only numbers, graders, + - * / ^ and a few functions are let through."""
    try:
        tree = ast.parse(formula.replace('^', '**').strip(), mode='eval')
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 'The formula cannot be read'
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if node.id not in names and node.id not in _FUNCTIONS:
                return f'{node.id} is none of the graders'
        elif isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS or node.keywords:
                return f'The functions are {", ".join(_FUNCTIONS)}'
        elif isinstance(node, ast.Constant):
            if not isinstance(node.value, int | float):
                return 'Only numbers and graders can be computed with'
        elif not isinstance(node, _ARITHMETIC):
            return 'Only + - * / ^ and functions can be computed with'
    return ''


def _functions(data: Mapping[str, Any], function: str) -> Iterator[str]:
    """The source of the functions that a grader is made of; ``function`` is the one that gives the grade."""
    if data['type'] == 'string_check':
        yield _STRING_CHECK.format(
            function=function,
            input=repr(data['input']),
            reference=repr(data['reference']),
            test=_TESTS[data['operation']],
        )
    elif data['type'] == 'python':
        constant = f'{function.upper()}_SOURCE'
        yield _PYTHON.format(function=function, constant=constant, source=text_source(data['source'], ''))
    else:
        for name, one in data['graders'].items():
            yield from _functions(one, f'grade_{name}')
        graders = {name: f'grade_{name}()' for name in data['graders']}
        formula = re.sub(r'[A-Za-z_]\w*', lambda match: _term(match[0], graders), data['calculate_output'])
        yield f'\n\ndef {function}():\n    return float({formula.replace("^", "**").strip()})\n'


def _term(name: str, graders: Mapping[str, str]) -> str:
    if name in graders:
        return graders[name]
    return name if name in ('min', 'max', 'abs') else f'math.{name}'


def _templates(data: Mapping[str, Any]) -> Iterator[str]:
    if data['type'] == 'string_check':
        yield from (data['input'], data['reference'])
    for one in data.get('graders', {}).values() if data['type'] == 'multi' else ():
        yield from _templates(one)


def _places(text: str) -> list[str]:
    return [part for is_place, part in _split(text) if is_place]


def _split(text: str) -> list[tuple[bool, str]]:
    """A template in pieces: plain text, and what stands between {{ and }}."""
    pieces: list[tuple[bool, str]] = []
    position = 0
    while (start := text.find('{{', position)) >= 0 and (end := text.find('}}', start)) >= 0:
        pieces += [(False, text[position:start]), (True, text[start + 2 : end].strip())]
        position = end + 2
    return [*pieces, (False, text[position:])]


def _parts(path: str) -> list[str | int]:
    found = _PART.findall(path[path.index(next(letter for letter in path if letter in '.[')) :])
    return [int(index) if index else name or double or single for name, index, double, single in found]


def _value(path: str, item: Mapping[str, Any]) -> str:
    value: Any = item
    for part in _parts(path):
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return ''
    return value if isinstance(value, str) else str(value)
