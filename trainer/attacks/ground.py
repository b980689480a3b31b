"""Finds what a task offers to an attack: modules it imports, programs it starts, paths it looks at."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from trainer.attacks.model import Ground, Module
from trainer.checkers import ExitCode, FileExists, Pytest, Script
from trainer.checkers.grading import protected_files
from trainer.task import Solution, TaskSpec

MAX_PATHS: Final = 12
NOT_OURS: Final = frozenset({'pytest', '_pytest', 'pluggy', '__future__', 'conftest'})
TOOLS: Final = re.compile(
    'awk|bash|cat|cmp|comm|cut|diff|e?grep|find|git|head|jq|ls|make|python3?|sed|sh|sha256sum|sort|stat|tail|tar|test|'
    'tr|uniq|wc|xargs'
)
_WORD: Final = re.compile(r'[\w./+-]+')
_PATH: Final = re.compile(r'(?:[\w+-][\w.+-]*/)*[\w+-][\w.+-]*\.[A-Za-z]\w{0,7}')
_PROGRAM: Final = re.compile(r'\.(?:py|sh|bash|pl|rb|js|awk)$')


def ground_of(task: TaskSpec, reference: Solution | None = None) -> Ground:
    """Read a task. Raises ``CheckerError`` where the checker names what is not there."""
    checker, files = task.checker, task.setup_files
    protected, named = protected_files(checker, files), checker.rests_on(files)
    text, success = '', 0
    tests: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    match checker:
        case ExitCode():
            text, success = checker.config.command, checker.config.expected_code
        case Script():
            text = checker.config.script
        case Pytest():
            tests = checker.test_files(files)
        case FileExists():
            wanted = checker.config.paths
    sources = [files[path] for path in sorted({*named, *tests}) if path.endswith('.py')]
    if isinstance(checker, Script) and not checker.shell:
        sources.append(text)
    sources += re.findall(r"""python3?\s+(?:-\w+\s+)*-c\s+'([^']+)'""", text)
    trees = [tree for source in sources if (tree := _parsed(source)) is not None]
    paths = wanted or tuple(_paths(text, trees, protected | set(tests)))
    return Ground(
        kind=checker.type,
        files=files,
        named=named,
        protected=protected,
        text=text,
        success=success,
        tests=tests,
        modules=tuple(_modules(trees, files, protected | set(tests))),
        standard=tuple(sorted(_standard(trees))),
        programs=() if tests else tuple(path for path in paths if _PROGRAM.search(path)),
        outputs=paths[:MAX_PATHS],
        tools=tuple(word for word in dict.fromkeys(_WORD.findall(text)) if TOOLS.fullmatch(word)),
        answers=_answers(reference),
    )


def _parsed(source: str) -> ast.Module | None:
    """The syntax tree; ``None`` for what is no Python, which the check itself will say."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _imports(trees: Iterable[ast.Module]) -> Iterator[tuple[str, str, str]]:
    """Every ``(module, imported name, name it goes by)``; without a name where the module itself is imported."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from ((node.module, alias.name, alias.asname or alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((alias.name, '', alias.asname or alias.name) for alias in node.names)


def _standard(trees: list[ast.Module]) -> set[str]:
    tops = {module.split('.')[0] for module, _, _ in _imports(trees)}
    return {name for name in tops if name in sys.stdlib_module_names and name not in ('sys', 'builtins', '__future__')}


def _modules(trees: list[ast.Module], files: Mapping[str, str], author: Iterable[str]) -> Iterator[Module]:
    """Modules that neither Python nor the author's protected files provide, with the names used of each."""
    used: dict[str, dict[str, None]] = {}
    for module, name, alias in _imports(trees):
        if module.split('.')[0] in sys.stdlib_module_names | NOT_OURS:
            continue
        found = _path(f'{module}.{name}', files)
        if name and found in files:  # a submodule, imported as a name
            used.setdefault(found, {}).update(dict.fromkeys(_attributes(trees, alias)))
            continue
        names = used.setdefault(_path(module, files), {})
        names.update(dict.fromkeys(_attributes(trees, alias)) if not name else {name: None})
    for path, names in used.items():
        if path not in set(author):
            yield Module(path, files.get(path, ''), tuple(name for name in names if name.isidentifier()))


def _path(module: str, files: Mapping[str, str]) -> str:
    stem = module.replace('.', '/')
    for end in (f'{stem}.py', f'{stem}/__init__.py'):
        found = next((path for path in files if path == end or path.endswith(f'/{end}')), '')
        if found:
            return found
    return f'{stem}.py'


def _attributes(trees: list[ast.Module], name: str) -> Iterator[str]:
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
                yield node.attr


def _paths(text: str, trees: list[ast.Module], author: Iterable[str]) -> Iterator[str]:
    """Relative paths in a command, or in the string constants of Python code, that are not the author's own."""
    texts = [text] if not trees else [text, *_constants(trees)]
    seen = set(author)
    for part in texts:
        words = _WORD.findall(part) if part is text and not _parsed(part) else [part]
        for word in words:
            path = word.removeprefix('/work/').removeprefix('./')
            if _PATH.fullmatch(path) and path not in seen and '..' not in path:
                seen.add(path)
                yield path


def _constants(trees: list[ast.Module]) -> Iterator[str]:
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
                yield node.value


def _answers(reference: Solution | None) -> dict[str, str]:
    if reference is None:
        return {}
    written = {step.args['path']: step.args['content'] for step in reference.steps if step.tool == 'write_file'}
    return {**reference.files, **written}
